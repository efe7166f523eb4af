"""Training of reference models, with transformers' Trainer."""
