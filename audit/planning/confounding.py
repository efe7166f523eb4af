"""What the blind check says of what attacks compare, before any model runs (methods.md#statistics)."""

from __future__ import annotations

from collections.abc import Sequence

from audit.attacks import BATTERY
from audit.attacks.blind_baseline import Blind
from audit.attacks.budget import SHARES
from audit.corpus.documents import Corpus
from audit.engine.interface import SILENT, Progress
from audit.planning.cost import Cost
from audit.policy import Policy


def blind_checks(
    corpus: Corpus, policy: Policy, budget: str, costs: Sequence[Cost], progress: Progress = SILENT
) -> dict[str, Blind]:
    """The blind check of every attack that the policy limits and that makes one, by its name.

    It describes what a scan with this budget compares, but for documents that a model turns out not to read, or none of
    whose fields its tokens spell, and before those of providers are cut to as many on both sides, which takes the
    model's questions. Most of its time goes into opening page images (`blindness.MAX_UNITS`).

    Args:
        corpus: the data set.
        policy: what is asked for.
        budget: of the scan.
        costs: of every attack: one that cannot be fed, or is not applicable, needs no check.
        progress: told of every document described.

    Raises:
        ManifestError: an image is missing, damaged or too large.
    """
    limited = {limit.attack for limit in policy.limits if limit.max is not None}
    fed = {cost.attack for cost in costs if cost.lacks is None and cost.inapplicable is None} & limited
    attacks = [kind.preset(budget) for kind in BATTERY if kind.name in fed]
    found = {attack.name: attack.blind_baseline(corpus, SHARES[budget], progress) for attack in attacks}
    return {name: blind for name, blind in found.items() if blind is not None}
