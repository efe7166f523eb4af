"""Canaries: planted secrets, their checks and their insertion into a data set (methods.md#canaries)."""
