"""Public names under the distribution's own name; the package itself is `audit`."""

from audit import __version__

__all__ = ["__version__"]
