"""Formats that people have, turned into a data set: one module a format, with `convert(src, dst, shares, seed)`."""
