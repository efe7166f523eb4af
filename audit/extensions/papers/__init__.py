"""Models and data sets of single papers; each registers through an entry point."""
