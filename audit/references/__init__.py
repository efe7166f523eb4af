"""Reference models that an audit compares with: given, found or trained, and cached by content."""
