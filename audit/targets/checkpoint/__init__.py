"""A checkpoint's folder: checked, hashed and loaded."""
