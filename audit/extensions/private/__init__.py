"""Training with differential privacy (methods.md#dp-training)."""
