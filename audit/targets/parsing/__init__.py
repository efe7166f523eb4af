"""Checkpoints that write a page as JSON or markup."""
