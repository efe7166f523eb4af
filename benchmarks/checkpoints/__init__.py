"""Audits of public checkpoints on public data, from a list that anybody can extend."""
