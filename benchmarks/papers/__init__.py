"""The papers' experiments beside docaudit's own numbers, on real and on synthetic corpora."""
