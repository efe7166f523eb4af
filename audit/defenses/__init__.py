"""Countermeasures, measured: what wraps a target, trains another one or rewrites data, and what each changes."""
