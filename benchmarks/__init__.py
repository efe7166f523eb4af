"""Measurements of attacks, statistics and speed.

Each script writes what the documentation cites.
"""
