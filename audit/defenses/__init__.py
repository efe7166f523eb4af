"""Countermeasures: what they are, what a report says of them, and how a question is put otherwise.

Those that are shipped lie in `audit.extensions`.
"""
