"""Canaries: planted secrets, their checks and their insertion into a data set.

See methods/canaries.md.
"""
