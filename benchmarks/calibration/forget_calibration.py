"""What `docaudit forget-check` concludes of simulated models that have forgotten documents, or not quite.

No model is trained: the logit confidence of a document is its difficulty (SD 2) plus noise (SD 1),
for the target and for a reference that never saw it, as in `membership_calibration.py`. Loss and
calibrated loss are limited, and certain documents are counted by the ratio of losses too. The
policy is the shipped one, without its conditions on power and coverage; no blind check is run.
"Known" documents have 30 logits more than others, "hated" ones 30 less. A "leak" is added to all
listed documents, in SDs of the noise.

    # writes forget_calibration.json and the table of forget_calibration.md
    python -m benchmarks.calibration.forget_calibration
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit.attacks.membership.mixture import check_mixture
from audit.attacks.membership.scores import FLOOR, WORSE, counted_scores
from audit.cards import Forgotten
from audit.policy import Verdict, evaluate, load
from benchmarks.calibration.membership_calibration import (
    CERTAIN,
    DOCUMENTS,
    REFERENCED,
    completed,
    limits_of,
    record_of,
)

HERE = Path(__file__)
SIDES = ((150, 150), (213, 213), (250, 300), (300, 300), (300, 1000), (1000, 1000))
"""Listed and unseen documents."""


@dataclass(frozen=True)
class Model:
    """What a simulated model remembers of the listed documents.

    Attributes:
        n_known: listed documents that it knows.
        n_hated: listed documents that it treats worse than unseen ones.
        strength: logits that it has more for a known document, and less for a hated one.
        leak: logits that it has more for every listed document, in SDs of the noise.
    """

    n_known: int = 0
    n_hated: int = 0
    strength: float = CERTAIN
    leak: float = 0.0


MODELS = {
    "never saw them": Model(),
    "3 known": Model(n_known=3),
    "5 known": Model(n_known=5),
    "8 known": Model(n_known=8),
    "15 known": Model(n_known=15),
    "5 hated": Model(n_hated=5),
    "8 hated": Model(n_hated=8),
    "leak 0.5": Model(leak=0.5),
    "leak 1": Model(leak=1.0),
    "leak -1": Model(leak=-1.0),
}
PARTLY = {
    f"{n} {word} by {strength}": Model(**{f"n_{word}": n}, strength=strength)
    for n, strength, word in (
        (25, 2, "known"),
        (25, 3, "known"),
        (25, 4, "known"),
        (50, 2, "known"),
        (25, 3, "hated"),
    )
}
"""Models that know a part of the list a little better, or worse, than unseen documents."""
OUTCOMES = ("passed", "undecided", "violated")
SHIPPED = load("forget")
POLICY = replace(SHIPPED, limits=limits_of("forget"))


def write_table(lines: Sequence[str], name: str) -> None:
    """Replace the table of this name on the page."""
    page = HERE.with_suffix(".md")
    begin = f"<!-- {name} -->\n\n"
    end = f"\n\n<!-- end of {name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(
        before + begin + "\n".join(lines) + end + rest.partition(end)[2], encoding="utf-8"
    )


def verdict_of(sides: tuple[int, int], model: Model, seed: int, *, alarm: bool = True) -> Verdict:
    """Simulate an audit of a model and judge it.

    Args:
        sides: the numbers of listed and of unseen documents.
        model: what it remembers.
        seed: of the simulation.
        alarm: whether partly forgotten documents are looked for, as forget-check does.
    """
    n_listed, n_unseen = sides
    rng = np.random.default_rng([seed, n_listed, n_unseen])
    n_documents = n_listed + n_unseen
    difficulty = rng.normal(0, 2, n_documents)
    target = difficulty + rng.normal(0, 1, n_documents)
    reference = difficulty + rng.normal(0, 1, n_documents)
    target[:n_listed] += model.leak
    target[: model.n_known] += model.strength
    target[model.n_known : model.n_known + model.n_hated] -= model.strength
    target_loss = np.maximum(FLOOR, np.logaddexp(0, -target))
    reference_loss = np.maximum(FLOOR, np.logaddexp(0, -reference))
    columns = {
        "loss": -target_loss,
        "calibrated": reference_loss - target_loss,
        "ratio": np.log(reference_loss) - np.log(target_loss),
    }
    scores = {name: (column[:n_listed], column[n_listed:]) for name, column in columns.items()}
    result = completed(scores, REFERENCED)
    listed, unseen = scores["calibrated"]
    treated_worse = DOCUMENTS.count_certain(WORSE, (-listed, -unseen), n_listed)
    checks = result.checks
    if alarm:
        checks += check_mixture({name: scores[name] for name in counted_scores(REFERENCED)})
    result = replace(result, measurements=(*result.measurements, treated_worse), checks=checks)
    record = record_of(result)
    card = replace(record.corpus, forgotten=Forgotten(n_listed, "0" * 64, {}))
    return evaluate(replace(record, corpus=card), POLICY, dt.date(2026, 1, 1))


Counts = dict[str, dict[str, int]]
"""By "sides, model", how many audits ended in each outcome."""


def count_verdicts(
    models: Mapping[str, Model], audits: int, *, alarm: bool = True
) -> tuple[list[str], Counts]:
    """Simulate models with every number of documents.

    Returns:
        The lines of a table, and the counts.
    """
    lines = [f"| listed + unseen | {' | '.join(models)} |", f"|---{'|---' * len(models)}|"]
    counts: Counts = {}
    for n_listed, n_unseen in SIDES:
        cells = []
        for name, model in models.items():
            verdicts = [
                verdict_of((n_listed, n_unseen), model, seed, alarm=alarm) for seed in range(audits)
            ]
            counted: Counter[str] = Counter(verdict.overall for verdict in verdicts)
            numbers = {outcome: counted[outcome] for outcome in OUTCOMES}
            counts[f"{n_listed} + {n_unseen}, {name}"] = numbers
            cells.append(" / ".join(map(str, numbers.values())))
        lines.append(f"| {n_listed} + {n_unseen} | {' | '.join(cells)} |")
    return lines, counts


def main() -> None:
    """Simulate every model with every number of documents, and write the counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=200)
    audits = parser.parse_args().audits
    lines, verdicts = count_verdicts(MODELS, audits)
    partly, partly_verdicts = count_verdicts(PARTLY, audits)
    before, before_verdicts = count_verdicts(PARTLY, audits, alarm=False)
    write_table(lines, "table")
    write_table(partly, "partly")
    write_table(before, "partly, without the alarm")
    results = {
        "date": time.strftime("%Y-%m-%d"),
        "audits": audits,
        "verdicts": verdicts | partly_verdicts,
        "without the alarm": before_verdicts,
    }
    HERE.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
