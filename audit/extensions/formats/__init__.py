"""Formats of annotation tools and corpora, each an importer that an entry point names."""
