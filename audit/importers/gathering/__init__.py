"""From pages in whatever format to the contents of a source: boxes in pixels, located fields, a task."""
