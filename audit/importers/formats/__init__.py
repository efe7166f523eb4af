"""Formats of annotation tools, corpora and papers' data sets.

Each is an importer that an entry point names.
"""
