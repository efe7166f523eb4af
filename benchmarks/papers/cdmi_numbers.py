"""Numbers of the CDMI paper's table 5 that no record holds, computed from the journal of a scan.

`write_numbers` takes the outcomes of the reconstruction attack and writes them beside the record;
`cdmi_report.py` and `dp_sroie.py` read both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import JaroWinkler, Levenshtein

from audit.arrays import Bools, Floats, Ints
from audit.attacks.fields import field_of
from audit.attacks.interface import AUDITED
from audit.attacks.measuring import Streams
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.methods import Shot, best, read_shots
from audit.case import Case
from audit.corpus.documents import Split
from audit.engine.interface import Json, Trial
from audit.measurements import Estimate
from audit.stats.distances import hamming
from audit.stats.intervals import Interval, cluster_sums, proportion
from audit.stats.ranking import at_interval
from audit.stats.resampling import bootstrap
from audit.targets.utility import measure_task
from audit.workflows.run import read_outcomes
from audit.workflows.session import Session
from benchmarks.calibration.excess_area import area_interval, excess_area

SHARES = {"acc_at_1": 0.01, "acc_at_5": 0.05, "acc_at_100": 1.0}
"""The shares p at which table 5 prints AccAt(p)."""
PLAYERS = ("attack", "baseline")
Choice = Callable[[Sequence[Shot]], tuple[Shot, float]]
"""How the most plausible attempt is chosen: the attempt and its score, larger = more plausible."""
CHOICES: Mapping[str, Choice] = {
    "attack": partial(best, with_target=True),
    "baseline": partial(best, with_target=False),
}
"""By player: that of the product."""
EPSILON = 0.01
"""Keeps the ratios of IpF bounded; the paper gives none."""


def levenshtein(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Return insertions, deletions and substitutions over the length of the longer sequence, in [0, 1]."""
    return float(Levenshtein.normalized_distance([*map(int, truth)], [*map(int, guess)]))


def jaro_winkler(truth: Sequence[int], guess: Sequence[int]) -> float:
    """Return 1 - Jaro-Winkler similarity, in [0, 1], prefix weight 0.1 over at most four tokens.

    The variant of Winkler's own program, as rapidfuzz has it: half of the transpositions is rounded
    down, and the prefix counts only where the Jaro similarity is above 0.7. The formula of
    textbooks (Winkler 1990) does neither.
    """
    return float(JaroWinkler.distance([*map(int, truth)], [*map(int, guess)], prefix_weight=0.1))


def improvement_factor(attack: Floats, baseline: Floats, epsilon: float = EPSILON) -> Floats:
    """Return IpF of CDMI, equation 6: how many times better the attack is than the baseline.

    1 = no better.

    The mean of (PR_att + e) / (PR_base + e) and, for each distance, (D_base + e) / (D_att + e).

    Args:
        attack: means of PR, Hamming, Levenshtein and Jaro-Winkler distance, in [0, 1], shape (...,
            4).
        baseline: the same without the target.
        epsilon: keeps the ratios bounded.
    """
    above = np.concatenate([attack[..., :1], baseline[..., 1:]], axis=-1) + epsilon
    below = np.concatenate([baseline[..., :1], attack[..., 1:]], axis=-1) + epsilon
    return np.asarray((above / below).mean(axis=-1))


@dataclass(frozen=True)
class Number:
    """A number with its interval at 95 %, of `n` fields of `clusters` documents."""

    value: float
    low: float
    high: float
    n: int
    clusters: int

    @classmethod
    def of(cls, found: Interval | Estimate) -> Number:
        """Return what is printed of an interval or an estimate."""
        return cls(found.value, found.low, found.high, found.n, found.clusters)


@dataclass(frozen=True, eq=False)
class Fields:
    """The fields of one split; every array has shape (n_fields,).

    Attributes:
        cluster: the document of each field.
        reached: whether all its tokens were among the candidates.
        score: by player, how plausible the most plausible attempt is.
        exact, hamming: by player, how right that attempt is, in [0, 1].
        first: by player, PR, Hamming, Levenshtein and Jaro-Winkler distance of the first attempt,
            shape (n_fields, 4).
    """

    cluster: Ints
    reached: Bools
    score: Mapping[str, Floats]
    exact: Mapping[str, Floats]
    hamming: Mapping[str, Floats]
    first: Mapping[str, Floats]

    @property
    def columns(self) -> tuple[Floats, Floats, Floats, Floats, Ints]:
        """Score and hit of attack and baseline, and the documents."""
        attack, baseline = PLAYERS
        return (
            self.score[attack],
            self.exact[attack],
            self.score[baseline],
            self.exact[baseline],
            self.cluster,
        )


def fields_of(
    outcomes: Sequence[Json], documents: Sequence[str], choices: Mapping[str, Choice] = CHOICES
) -> Fields:
    """Return the outcomes of one split as columns, the first of equally plausible attempts chosen.

    Args:
        outcomes: see `Reconstruction.attempt`.
        documents: of the fields, in the same order.
        choices: how each player's attempt is chosen.
    """
    columns: dict[str, dict[str, Floats]] = {"score": {}, "exact": {}, "hamming": {}, "first": {}}
    truths = [outcome["truth"] for outcome in outcomes]
    for player in PLAYERS:
        chosen = [choices[player](read_shots(outcome[player])) for outcome in outcomes]
        found = [list(shot.tokens) for shot, _ in chosen]
        columns["score"][player] = np.array([score for _, score in chosen])
        columns["exact"][player] = np.array(
            [float(a == b) for a, b in zip(truths, found, strict=True)]
        )
        columns["hamming"][player] = np.array(
            [hamming(a, b) for a, b in zip(truths, found, strict=True)]
        )
        firsts = zip(truths, (outcome[player][0]["tokens"] for outcome in outcomes), strict=True)
        columns["first"][player] = np.array(
            [
                [float(a == b), hamming(a, b), levenshtein(a, b), jaro_winkler(a, b)]
                for a, b in firsts
            ]
        )
    cluster = np.unique(np.array(documents, np.str_), return_inverse=True)[1]
    return Fields(cluster, np.array([outcome["reached"] for outcome in outcomes], bool), **columns)


def rows_by_split(
    attack: Reconstruction,
    case: Case,
    trials: Sequence[Trial],
    outcomes: Sequence[Json],
    choices: Mapping[str, Choice] = CHOICES,
) -> dict[Split, Fields]:
    """Return the fields of usual length by split; a split of a single document is left out.

    Args:
        attack: with the parameters of the scan.
        case: what was attacked.
        trials: those that were tried.
        outcomes: theirs, in the same order.
        choices: how each player's attempt is chosen.
    """
    fields = [field_of(case, trial, attack.min_tokens, attack.max_tokens) for trial in trials]
    rows: dict[Split, Fields] = {}
    for split in AUDITED:
        of_split = []
        documents = []
        for field, outcome in zip(fields, outcomes, strict=True):
            if field.length == "usual" and field.document.split == split:
                of_split.append(outcome)
                documents.append(field.document.id)
        if len(set(documents)) > 1:
            rows[split] = fields_of(of_split, documents, choices)
    return rows


def numbers_of(
    attack: Reconstruction, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], seed: int
) -> dict[str, Number]:
    """Compute IpF, AccAt, AccAUC, HamAAC of both splits, the excess AccAUC, the candidates' recall and public skill.

    Of the default method on fields of usual length. A number that too few documents give is left
    out. Every number has the random stream that a scan gives its name.

    Args:
        attack: with the parameters of the scan.
        case: what was attacked.
        trials: those that were tried.
        outcomes: theirs, in the same order.
        seed: of the scan.
    """
    streams = Streams(np.random.default_rng([seed, *attack.name.encode()]))
    rows = rows_by_split(attack, case, trials, outcomes)
    found: dict[str, Interval] = {}
    for split, columns in rows.items():
        found.update(_ranked(split, columns, streams))
    if len(rows) == len(AUDITED):
        found["excess_accauc.all"] = excess_area(
            *rows["member"].columns, *rows["heldout"].columns, streams["excess_accauc.all"]
        )
    if "member" in rows:
        found["candidate_recall"] = proportion(rows["member"].reached, rows["member"].cluster)
    numbers = {name: Number.of(interval) for name, interval in found.items()}
    public = case.references.auxiliary
    heldout = case.corpus.of("heldout")
    assert public is not None
    drawn = int(streams["public_accuracy"].integers(2**32))
    ((skill, _),) = measure_task(public, heldout, drawn)
    if isinstance(skill, Estimate):
        numbers["public_accuracy"] = Number.of(skill)
    return numbers


def _ranked(split: str, rows: Fields, streams: Streams) -> Iterator[tuple[str, Interval]]:
    """Yield the numbers of ranked fields, by attack and baseline."""
    for player, (quantity, share) in product(PLAYERS, SHARES.items()):
        name = f"{quantity}.{split}.{player}"
        yield name, at_interval(rows.score[player], rows.exact[player], rows.cluster, share)
    factor = _improvement(rows, streams[f"ipf.{split}"])
    if factor is not None:
        yield f"ipf.{split}", factor
    for player, (quantity, complement) in product(PLAYERS, (("accauc", False), ("hamaac", True))):
        name = f"{quantity}.{split}.{player}"
        outcomes: npt.ArrayLike = (rows.hamming if complement else rows.exact)[player]
        yield (
            name,
            area_interval(
                rows.score[player], outcomes, rows.cluster, streams[name], complement=complement
            ),
        )


def _improvement(rows: Fields, rng: np.random.Generator) -> Interval | None:
    """Return IpF; None where all documents give the same."""
    columns = [
        *np.concatenate([rows.first[player] for player in PLAYERS], axis=1).T,
        np.ones(len(rows.cluster)),
    ]

    def statistic(totals: Floats) -> Floats:
        means = totals[:, 0, :-1] / totals[:, 0, -1:]
        return improvement_factor(means[:, :4], means[:, 4:])

    strata = [cluster_sums(columns, rows.cluster)]
    return bootstrap(strata, statistic, rng, n=len(rows.cluster), limits=(0.0, np.inf))


def write_numbers(opened: Session, attack: Reconstruction, path: Path) -> None:
    """Write the numbers of a scan that has run, read from its journal, without asking the model.

    Args:
        opened: the scan.
        attack: its only one.
        path: of the file, beside the record.
    """
    planned, outcomes = read_outcomes(opened, attack.name)
    case = planned.case
    trials = planned.trials
    numbers = numbers_of(attack, case, trials, outcomes, opened.options.seed)
    path.write_text(
        json.dumps({name: number.__dict__ for name, number in numbers.items()}, indent=1) + "\n"
    )


def read_numbers(path: Path) -> dict[str, Number]:
    """Read the numbers beside a record.

    Empty where there are none, as beside records of 2026 that hold them.
    """
    written: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return {name: Number(**number) for name, number in written.items()}
