"""Document membership: was this document trained on? (methods.md#document-membership)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.attacks.description import import_when_asked
from audit.attacks.membership.description import MembershipInferenceDescription

if TYPE_CHECKING:
    from audit.attacks.membership.attack import MembershipInference

__all__ = ["MembershipInference"]

__getattr__ = import_when_asked(MembershipInferenceDescription, "MembershipInference")
