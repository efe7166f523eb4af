"""The callbacks for the Trainer of transformers."""

from audit.extensions.callbacks.canary_loss import CanaryCallback, CanaryWatch
from audit.extensions.callbacks.leak_callback import Audited, LeakCallback

__all__ = ["Audited", "CanaryCallback", "CanaryWatch", "LeakCallback"]
