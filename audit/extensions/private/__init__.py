"""Training with differential privacy (methods/dp-training.md)."""
