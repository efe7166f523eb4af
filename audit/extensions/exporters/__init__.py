"""Exporters to trackers of experiments and to the Hugging Face Hub; each imports its tool late."""
