"""Surrogates: sensitive values of documents replaced by invented ones of the same kind, in words and in images."""
