"""docaudit: the privacy audit of document-understanding models."""

__version__ = "0.13.2"
