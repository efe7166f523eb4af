"""Countermeasures, measured: wrappers around a model, other trainings, rewritten data, and what each one changes."""
