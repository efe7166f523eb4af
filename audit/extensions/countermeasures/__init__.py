"""Countermeasures, measured.

Wrappers around a model, other trainings, rewritten data, and what each one changes.
"""
