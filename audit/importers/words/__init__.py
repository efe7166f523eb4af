"""Words and boxes of a page, read from the files that OCR programs write beside its image."""
