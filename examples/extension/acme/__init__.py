"""An example of each part that a package can add to docaudit."""
