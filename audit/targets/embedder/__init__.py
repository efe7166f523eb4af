"""Sentence embedders."""
