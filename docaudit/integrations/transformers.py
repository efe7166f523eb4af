"""The callback for the Trainer of transformers."""

from audit.integrations.transformers import Audited, LeakCallback

__all__ = ["Audited", "LeakCallback"]
