"""Readers of the JSON that OCR programs and services write, a module a program."""
