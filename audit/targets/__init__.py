"""Checkpoints, seen only through what an attacker may ask of them."""
