"""Answers taken out of pages, and the proof that they are gone (methods.md#memorisation)."""
