"""Formats that people have, turned into a data set: one module a format, and their list in `registry`."""
