"""Checkpoints that answer questions about a page."""
