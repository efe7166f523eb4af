"""docaudit: the privacy audit of document-understanding models."""

__version__ = "0.13.2"
PROJECT = "docaudit"
"""Tells this package from one of the same name that another distribution brings."""
