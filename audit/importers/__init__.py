"""Formats that people have, turned into a data set: one module a format.

Their list is in `registry`.
"""
