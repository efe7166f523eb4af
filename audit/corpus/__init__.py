"""Documents and the manifest that describes them."""
