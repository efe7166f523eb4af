"""Importers of the data sets of papers: SROIE, FUNSD, DocVQA, PFL-DocVQA, TAB, Snips."""
