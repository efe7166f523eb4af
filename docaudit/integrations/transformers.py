"""The callbacks for the Trainer of transformers."""

from audit.integrations.canary_loss import CanaryCallback, CanaryWatch
from audit.integrations.transformers import Audited, LeakCallback

__all__ = ["Audited", "CanaryCallback", "CanaryWatch", "LeakCallback"]
