"""Classes of personal information (Pinto et al. 2024, appendix H), by category of the manifest."""

from __future__ import annotations

from collections.abc import Mapping

from audit.corpus.kinds import Category

CLASS_OF: Mapping[Category, str] = {
    "location": "place",
    "person": "person",
    "datetime": "temporal",
    "contact": "contact",
    "demographic": "nrp",
    "url": "url",
    "code": "other_id",
}
"""NRP: nationality, religion, politics."""
IDENTIFYING = ("person", "place", "contact", "url", "other_id")
"""Classes whose values name or number someone: name, location, identification number, online identifier (GDPR, article
4(1)). A date or a nationality alone does not (ours)."""
NOT_PII, UNCLASSIFIED = "not_pii", "unclassified"
PII_CLASSES = tuple(CLASS_OF.values())
CLASSES = (*PII_CLASSES, NOT_PII, UNCLASSIFIED)
