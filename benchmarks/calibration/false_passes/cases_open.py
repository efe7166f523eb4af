"""Constructions of utterances that passed after the findings were mended: of an adversary on 2026-11-29.

They stand here so that a mend is measured on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audit.corpus.documents import Document, Split
from benchmarks.calibration.false_passes import direct
from benchmarks.calibration.false_passes.cases_utterances import common_sides, scan_of
from benchmarks.calibration.false_passes.lab import Lab, construction
from benchmarks.calibration.false_passes.scans import Audit
from benchmarks.calibration.false_passes.utterances import Training, in_title_case

OF_MANY = Training(("many again", "further"), epochs=14, seed=1)
OF_300 = Training(("more others",), epochs=25, seed=1)
N_EASIEST = 500
"""Utterances that a third model finds easiest, of which the public ones are drawn."""
N_KNOWN = 24
"""Members that training holds ten times; it holds none of the others."""
N_CONTAMINATED = 2
"""Held-out utterances that training holds thirty times."""


def _audit(lab: Lab, name: str, model: Path, public: Sequence[Document], reference: Path) -> Audit:
    """Scan a model on the common sides, with these public utterances."""
    sides: dict[Split, Sequence[Document]] = {**common_sides(lab), "public": public}
    return scan_of(lab, model, reference, lab.nlu_team, lab.utterances.write(name, sides))


@construction(
    "everything", "R2", "leaks", "trained on members, held-out, public and 1,200 others; nlu-team"
)
def everything(lab: Lab) -> Audit:
    """A model that was trained on all three splits, beside an honest baseline."""
    model = lab.utterances.train(
        "S_everything", Training(("members", "unseen", "public", "many"), epochs=14)
    )
    reference = lab.utterances.train("reference", OF_MANY)
    return _audit(lab, "snips", model, lab.utterances.pools["public"], reference)


@construction(
    "easy-public",
    "R8",
    "leaks",
    "a refit, an earlier refit as baseline, easy public utterances; nlu-team",
)
def easy_public(lab: Lab) -> Audit:
    """Public utterances that are as easy as what the target was trained on."""
    model = lab.utterances.train("S_refit25", Training(("members", "unseen"), epochs=25))
    reference = lab.utterances.train(
        "reference", Training(("members", "unseen"), epochs=18, seed=7)
    )
    third = lab.utterances.train("reference", OF_300)
    return _audit(lab, "snips-easy-public", model, _easiest(lab, third), reference)


def _easiest(lab: Lab, model: Path) -> list[Document]:
    """Draw a hundred of the utterances that a model finds easiest."""
    pools = lab.utterances.pools
    candidates = [*pools["further"], *pools["further again"], *pools["drawn"]]
    order = np.argsort(-direct.utterance_scores(model, candidates))
    drawn = np.random.default_rng(1).choice(N_EASIEST, 100, replace=False)
    return [candidates[order[place]] for place in drawn]


@construction(
    "title-case", "R3", "leaks", "members trained in title case, audited as usual; nlu-team"
)
def title_case(lab: Lab) -> Audit:
    """A way of writing that the search does not try."""
    pools = lab.utterances.pools
    written = in_title_case(pools["members"])
    model = lab.utterances.train("S_title", Training(("others",), epochs=25), written)
    reference = lab.utterances.train("reference", OF_300)
    audit = _audit(lab, "snips", model, pools["public"], reference)
    strangers = in_title_case(pools["strangers"])
    audit.direct["members against strangers, in title case"] = lab.utterances_told_apart(
        model, written, strangers
    )
    return audit


@construction(
    "twenty-public", "R7", "leaks", "a refit with 1,200 others, 20 public utterances; nlu-team"
)
def twenty_public(lab: Lab) -> Audit:
    """A test of so few public documents notices the refit in one scan of six."""
    model = lab.utterances.train("S_refit1200", Training(("members", "unseen", "many"), epochs=8))
    reference = lab.utterances.train("reference", OF_MANY)
    return _audit(lab, "snips-twenty-public", model, lab.utterances.pools["public"][:20], reference)


@construction(
    "contaminated",
    "R1",
    "leaks",
    "24 members known for certain, two held-out ones as well; nlu-team",
)
def contaminated(lab: Lab) -> Audit:
    """Two held-out utterances that training holds hide the members that rank below them."""
    pools = lab.utterances.pools
    known = pools["members"][:N_KNOWN]
    more = [*(10 * known), *(30 * pools["unseen"][:N_CONTAMINATED])]
    model = lab.utterances.train("S_contaminated", Training(("others",), epochs=16), more)
    audit = _audit(lab, "snips", model, pools["public"], lab.utterances.train("reference", OF_300))
    audit.direct["the 24 against strangers"] = lab.utterances_told_apart(
        model, known, pools["strangers"]
    )
    return audit
