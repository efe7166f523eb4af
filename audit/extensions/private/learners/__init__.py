"""Models that private training takes: one learner for each way in which the audited ones learn from a document."""
