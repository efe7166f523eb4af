"""What tuning trains its shadow target with, unless told otherwise; apart, as the command line shows it at once."""

EPOCHS = 40
"""Passes of the shadow target over its half (ours). The closer to the audited model's own number, the better."""
SHARE = 0.5
"""Of the public documents, for the shadow target (methods.md#reconstruction)."""
