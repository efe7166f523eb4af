"""Measurements of attacks, statistics and speed; each script writes what the documentation cites."""
