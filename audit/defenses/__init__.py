"""Countermeasures, measured: what wraps a target, what trains another one, and what either changes."""
