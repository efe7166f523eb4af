"""Checkpoints that answer a question by pointing at the words of a page where the answer begins and ends."""
