"""The plan of an audit: what a data set can decide about a policy, before any model runs."""
