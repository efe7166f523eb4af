"""Two records compared: their numbers unit by unit, and what became of limits.

Some conditions must not differ between them. `comparison` holds the one result. The verdict against
a baseline and what a countermeasure does are drawn from it.
"""
