r"""The five membership scores of the CDMI paper (Dentan et al. 2024) on eight attempts a field.

    python -m benchmarks.papers.cdmi_scores --sroie sroie

The multi-shot attack makes eight attempts at each field, keeps the one that a membership score
prefers, and sorts the fields by this score. docaudit fixes one score, the perplexity ratio. Here
all five are tried on two checkpoints. Receipts and steps of training are `cdmi_epochs`'s; the
network is that of the sample of receipts, which trains 20 times as fast. Its tokens are learned on
the public receipts. Each epoch and each block of fields is kept in `--work`, so that a run that is
stopped goes on where it was. Writes the tables of `cdmi_scores/README.md`, whose words are written
by hand.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LayoutLMConfig, LayoutLMForMaskedLM
from vocabulary import train_tokenizer

from audit.arrays import Floats
from audit.attacks.fields import field_of
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.methods import Shot, log_perplexity
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Split
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Json, Trial
from audit.references.encoders import save
from audit.references.recipes import Recipe
from audit.stats.intervals import Interval, proportion
from audit.stats.ranking import at, at_interval
from audit.stats.resampling import bootstrap
from audit.targets.batching import longest_row
from audit.workflows.run import read_outcomes
from benchmarks.calibration.excess_area import area_interval
from benchmarks.papers import cdmi_epochs, cdmi_report, cdmi_tables
from benchmarks.papers.cdmi_epochs import Training, UsualFields
from benchmarks.papers.cdmi_numbers import CHOICES, Choice, Fields, Number, rows_by_split
from benchmarks.papers.cdmi_report import text
from benchmarks.papers.cdmi_tables import Setting
from benchmarks.papers.pages import put_tables

HERE = Path(__file__).parent / "cdmi_scores"
N_PIECES = 1_500
"""Learned entries of the vocabulary."""
PUBLIC_EPOCHS = 20
EPOCHS = (60, 20)
"""The checkpoints of one training that are attacked. The first one remembers most fields; the
second was added after its numbers, since the paper's models remember few."""
PRIVATE = Recipe(epochs=max(EPOCHS), learning_rate=1e-3, batch_size=8, mask_probability=0.3)
PUBLIC = replace(PRIVATE, epochs=PUBLIC_EPOCHS)
SHARE = 1.0
"""Of the fields that are attacked."""
N_CANDIDATES = 128
N_ATTEMPTS = 8
ATTACK: dict[str, Any] = {"n_attempts": N_ATTEMPTS, "kind": UsualFields}
FIRST = 0.05
"""The share of the fields that the paper's headline is about."""
SEED = 0

SIDES: Mapping[Split, str] = {"member": "training receipts", "heldout": "unseen receipts"}

# Scores


def raw_perplexity(shot: Shot) -> float:
    """Return the logarithm of the public model's perplexity: the more surprising, the larger."""
    return log_perplexity(np.array(shot.log_public))


def perplexity_ratio(shot: Shot) -> float:
    """Return the logarithm of the public model's perplexity over the target's."""
    return raw_perplexity(shot) - log_perplexity(np.array(shot.log_target))


def raw_and_ratio(shot: Shot) -> float:
    """Return the logarithm of the product of both."""
    return raw_perplexity(shot) + perplexity_ratio(shot)


def largest_gap(shot: Shot) -> float:
    """Return the largest difference of a token's likelihoods, target minus public, in [-1, 1]."""
    return float(np.max(np.exp(shot.log_target) - np.exp(shot.log_public)))


def largest_ratio(shot: Shot) -> float:
    """Return the logarithm of the largest ratio of a token's likelihoods, target over public."""
    return float(np.max(np.array(shot.log_target) - np.array(shot.log_public)))


Score = Callable[[Shot], float]
SCORES: Mapping[str, Score] = {
    "raw perplexity": raw_perplexity,
    "perplexity ratio": perplexity_ratio,
    "raw and ratio": raw_and_ratio,
    "largest gap": largest_gap,
    "largest ratio": largest_ratio,
}
"""The paper's, section 4.3: the larger, the surer. Logarithms do not change an order."""
OTHERS: Mapping[str, Score] = {
    "likeliest to the public model": lambda shot: -raw_perplexity(shot),
    "likeliest to the model": lambda shot: -log_perplexity(np.array(shot.log_target)),
}
"""Scores that the paper does not name; nothing is decided by them."""
LEVEL = 0.05 / len(SCORES)
"""One-sided, of one score: five are tried (Bonferroni)."""


@dataclass(frozen=True)
class _Choice:
    """Choose the attempt that a score prefers, the first one of equals."""

    score: Score

    def __call__(self, shots: Sequence[Shot]) -> tuple[Shot, float]:
        """Return the attempt and its score."""
        values = [self.score(shot) for shot in shots]
        index = int(np.argmax(values))
        return shots[index], values[index]


def choice_by(score: Score) -> dict[str, Choice]:
    """Return the choices of the attempts by a score; without the model, the product's own."""
    return {**CHOICES, "attack": _Choice(score)}


# Numbers


def rise_of(
    rows: Fields, player: str, rng: np.random.Generator, n_resamples: int = 10_000
) -> Interval | None:
    """Compute AccAt(5 %) - AccAt(100 %) with its interval: BCa over receipts, each ranked anew.

    None where no resample differs, as without any hit.
    """
    scores = rows.score[player]
    hits = rows.exact[player]

    def rise(weights: Floats) -> float:
        """Compute the rise when receipts occur so many times, (n_receipts,)."""
        times = np.rint(weights[rows.cluster]).astype(np.intp)
        chosen = np.repeat(np.arange(hits.size), times)
        return at(scores[chosen], hits[chosen], FIRST) - float(hits[chosen].mean())

    def rises(totals: Floats) -> Floats:
        return np.array([rise(weights) for weights in totals[:, 0]])

    sizes = np.bincount(rows.cluster)
    units = [np.eye(sizes.size)]
    return bootstrap(
        units,
        rises,
        rng,
        n_resamples=n_resamples,
        n=hits.size,
        limits=(-1.0, 1.0),
        sizes=[sizes],
    )


def is_shown(rise: Interval) -> bool:
    """Test whether a rise is above 0 although five scores are tried."""
    return rise.p_above(0.0) <= LEVEL


def numbers_of(rows: Fields, player: str) -> dict[str, Any]:
    """Return AccAt(5 %), AccAt(100 %), their difference, AccAUC and HamAAC of one ranking."""
    scores = rows.score[player]
    exact = rows.exact[player]
    intervals = {
        "acc_at_5": at_interval(scores, exact, rows.cluster, FIRST),
        "acc_at_100": at_interval(scores, exact, rows.cluster, 1.0),
        "accauc": area_interval(scores, exact, rows.cluster, np.random.default_rng(SEED)),
        "hamaac": area_interval(
            scores,
            rows.hamming[player],
            rows.cluster,
            np.random.default_rng(SEED),
            complement=True,
        ),
    }
    rise = rise_of(rows, player, np.random.default_rng(SEED))
    found: dict[str, Any] = {name: asdict(Number.of(one)) for name, one in intervals.items()}
    found["rise"] = None if rise is None else asdict(Number.of(rise))
    found["rise is shown"] = rise is not None and is_shown(rise)
    return found


def scores_of(
    attack: Reconstruction, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> dict[str, Any]:
    """Return the numbers of every score by split, and what they are compared with.

    Args:
        attack: with the parameters of the scan.
        case: what was attacked.
        trials: those that were tried.
        outcomes: theirs, in the same order.
    """
    planned = (attack, case, trials, outcomes)
    by_score = {}
    for name, score in {**SCORES, **OTHERS}.items():
        rows = rows_by_split(*planned, choice_by(score))
        by_score[name] = {split: numbers_of(fields, "attack") for split, fields in rows.items()}
    unranked = rows_by_split(*planned)
    alone = {split: numbers_of(fields, "baseline") for split, fields in unranked.items()}
    first = {
        split: asdict(Number.of(proportion(fields.first["attack"][:, 0], fields.cluster)))
        for split, fields in unranked.items()
    }
    best_of_all = rows_by_split(attack, case, trials, [*map(truth_first, outcomes)])
    any_attempt = {
        split: asdict(Number.of(proportion(fields.first["attack"][:, 0], fields.cluster)))
        for split, fields in best_of_all.items()
    }
    unique = unique_first(attack, case, trials, outcomes)
    distinct = [len({tuple(shot["tokens"]) for shot in outcome["attack"]}) for outcome in outcomes]
    return {
        "scores": by_score,
        ALONE: alone,
        "first attempt": first,
        "any attempt": any_attempt,
        "unique among the first": unique,
        "distinct attempts": float(np.mean(distinct)),
    }


ALONE = "public model alone"


def unique_first(
    attack: Reconstruction, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> dict[str, dict[str, float]]:
    """Return by score and split the share of the first 5 % whose value is in no other receipt.

    Arguments are those of `scores_of`.
    """
    seen = occurrences(case.corpus)
    unique: dict[str, list[float]] = {split: [] for split in SIDES}
    for trial in trials:
        field = field_of(case, trial, attack.min_tokens, attack.max_tokens)
        value = fold(field.document.text_of(field.entity))
        unique[trial.stratum].append(float(seen[value].unique))
    shares: dict[str, dict[str, float]] = {}
    for name, score in {**SCORES, **OTHERS}.items():
        rows = rows_by_split(attack, case, trials, outcomes, choice_by(score))
        shares[name] = {
            split: at(fields.score["attack"], unique[split], FIRST)
            for split, fields in rows.items()
        }
    return shares


def truth_first(outcome: Json) -> Json:
    """Return an outcome whose first attempt is exact, if any of them is."""
    shots = sorted(outcome["attack"], key=lambda shot: shot["tokens"] != outcome["truth"])
    return {**outcome, "attack": shots}


# Models


class Scores(Setting):
    """A setting with folders of its own."""

    @property
    def name(self) -> str:
        """See `Setting.name`."""
        return f"{self.corpus}-scores"


def make_start(folder: Path, data: Path) -> None:
    """Make an untrained LayoutLM, once; its vocabulary is learned on the public documents."""
    if folder.exists():
        return
    public = manifest.load(data).of("public")
    texts = (" ".join(word.text for word in document.words) for document in public)
    tokenizer = train_tokenizer(texts, N_PIECES, longest_row(cdmi_epochs.POSITIONS))
    torch.manual_seed(SEED)
    config = LayoutLMConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=cdmi_epochs.POSITIONS,
        max_2d_position_embeddings=1001,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=tokenizer.pad_token_id,
    )
    save(LayoutLMForMaskedLM(config), tokenizer, folder)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sroie", type=Path, default=Path("sroie"))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/cdmi-scores"))
    parser.add_argument("--stage", choices=("train", "attack", "table"), action="append")
    parser.add_argument(
        "--only", type=int, action="append", help="attack after this epoch alone; may be repeated"
    )
    options = parser.parse_args()
    stages = options.stage or ["train", "attack", "table"]
    torch.set_num_threads(1)
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    setting = Scores("sroie", "mlm", False, PRIVATE, share=SHARE, n_candidates=N_CANDIDATES)
    receipts = cdmi_epochs.first_receipts(options.sroie, work / "receipts")
    data = cdmi_tables.make_data(setting, receipts, work, cdmi_epochs.SHARES)
    if "train" in stages:
        train(setting, data, work)
    if "attack" in stages:
        for epoch in options.only or EPOCHS:
            where = (f"epoch-{epoch}", data, work, "cpu", "float32")
            cdmi_tables.audit_model(setting, *where, results=HERE, **ATTACK)
            write_scores(setting, epoch, data, work)
    if "table" in stages:
        write_page()


def train(setting: Setting, data: Path, work: Path) -> None:
    """Train the public model, and from it the private one; go on after the last epoch kept."""
    start = work / "start"
    make_start(start, data)
    public = work / "sroie-public-mlm-loss"
    if not public.exists():
        folders = {PUBLIC_EPOCHS: public}
        cdmi_epochs.fit(Training(start, data, "public", PUBLIC, folders, work / "public"))
    cdmi_epochs.train(setting, public, data, work, EPOCHS)


def write_scores(setting: Setting, epoch: int, data: Path, work: Path) -> None:
    """Write the numbers of the scores, from the journal of the scan, without asking the model."""
    opened, attack = cdmi_tables.open_audit(
        setting, f"epoch-{epoch}", data, work, "cpu", "float32", **ATTACK
    )
    planned, outcomes = read_outcomes(opened, attack.name)
    found = scores_of(attack, planned.case, planned.trials, outcomes)
    private = json.loads((work / f"{setting.name}.json").read_text())
    public = json.loads((work / "public.history.json").read_text())
    found["training"] = {
        "minutes of the public model": public["minutes"],
        "minutes of the private model": private["minutes"],
        "loss of the public model": public["losses"][-1],
        "loss of the private model": private[f"training loss {epoch}"],
    }
    (HERE / f"epoch-{epoch}.scores.json").write_text(json.dumps(found, indent=1) + "\n")


# Page

COLUMNS = {
    "acc_at_5": "AccAt(5 %)",
    "acc_at_100": "AccAt(100 %)",
    "rise": "difference",
    "accauc": "AccAUC",
    "hamaac": "HamAAC",
}
UNIQUE = "unique among the first 5 %"
PAPER = {
    "*paper: SROIE, with images*": ("sroie", "mlm", "bimodal", "precision"),
    "*paper: SROIE, without images*": ("sroie", "mlm", "unimodal", "precision"),
}


def write_page() -> None:
    """Put the tables of the checkpoints that were attacked in their places on the page."""
    tables = {}
    for epoch in EPOCHS:
        path = HERE / f"epoch-{epoch}.scores.json"
        if path.exists():
            found = json.loads(path.read_text())
            for split, name in SIDES.items():
                tables[f"epoch {epoch}, {name}"] = table(found, split)
    put_tables(HERE / "README.md", tables)


def table(found: Mapping[str, Any], split: Split) -> list[str]:
    """Print a row for each ranking of one split."""
    lines = [
        f"| sorted by | {' | '.join(COLUMNS.values())} | {UNIQUE} | helps |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    rankings = {
        **{name: by_split[split] for name, by_split in found["scores"].items()},
        ALONE: found[ALONE][split],
    }
    for name, numbers in rankings.items():
        helps = "yes" if numbers["rise is shown"] else "no"
        cells = [cell(numbers[column], column) for column in COLUMNS]
        unique = found["unique among the first"].get(name)
        cells.append("" if unique is None else f"{unique[split]:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} | {helps if name in SCORES else '-'} |")
    lines += [
        f"| {name}, not sorted | | {text(Number(**found[name][split]))} | | | | | |"
        for name in ("first attempt", "any attempt")
    ]
    if split == "member":
        lines += paper_lines()
    return lines


def cell(number: Mapping[str, Any] | None, column: str) -> str:
    """Print a number with its interval; a difference has its sign."""
    if number is None:
        return "-"
    if column == "rise":
        return f"{number['value']:+.3f} [{number['low']:+.3f}, {number['high']:+.3f}]"
    return text(Number(**number))


def paper_lines() -> list[str]:
    """Print the paper's numbers of the models nearest to this one."""
    places = {name: place for place, name in enumerate(cdmi_report.COLUMNS)}
    lines = []
    for title, setting in PAPER.items():
        row = cdmi_report.PAPER[setting]
        values = {
            column: row[places[f"{column}.member.attack"]] for column in COLUMNS if column != "rise"
        }
        rise = values["acc_at_5"] - values["acc_at_100"]
        cells = [f"*{values.get(column, rise):.3f}*" for column in COLUMNS]
        lines.append(f"| {title} | {' | '.join(cells)} | | |")
    return lines


if __name__ == "__main__":
    main()
