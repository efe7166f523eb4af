"""Defaults of the shadow target's training; apart, because the command line shows them at once."""

EPOCHS = 40
"""Passes of the shadow target over its half (ours). The closer to the audited model's own number, the better."""
SHARE = 0.5
"""Of the public documents, for the shadow target (methods.md#reconstruction)."""
