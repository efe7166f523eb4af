"""Encoders that read pages as tokens: LayoutLM, BROS, BERT and others."""
