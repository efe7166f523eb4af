"""Redacted values: their contexts, their bars, and text left under a bar (methods.md#redaction-context)."""
