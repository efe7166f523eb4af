"""What a data set can decide about a policy, before any model runs."""
