"""The report: a record and a verdict, drawn as HTML and PDF.

It computes nothing and knows no model.
"""
