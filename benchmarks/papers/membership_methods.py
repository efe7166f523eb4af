"""Membership scores on planted corpora: which find members, and which may join the gate.

Six corpora (`membership_methods_models`), two strengths of memory each, with a target that learned
the members, a baseline that the same recipe trained on other documents, a clean model, and four
split models, each trained on half of the members. Every score of `membership_methods_scores` ranks
the same documents. Audits whose target is the clean model or the baseline show false alarms.

Then documents are resampled with replacement, n of each side, and every set of scores is held
against the default limits, as the gate does: violated where a limit is exceeded for any score
(one-sided p of 0.05 after Holm over all of them), passed where all intervals lie within, else
undecided.

    # writes the .json and the tables; trains what is missing
    python -m benchmarks.papers.membership_methods --work FOLDER
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_model

from audit.references.training import halves_of
from audit.stats.intervals import Interval
from audit.stats.roc import auc_interval, calibrated_tpr
from benchmarks.papers import docmia
from benchmarks.papers.membership_methods_models import (
    IGNORED,
    KINDS,
    MORE,
    SEED,
    SHARED,
    SIDE,
    Kind,
    collated,
    logits_of,
    train,
)
from benchmarks.papers.membership_methods_scores import (
    Said,
    own_scores,
    quantile_scores,
    reference_scores,
    split_scores,
)
from benchmarks.papers.membership_methods_verdicts import (
    BASES,
    decisions,
    share_of,
)
from benchmarks.papers.pages import put_tables

Floats = NDArray[np.float64]
SPLITS = 4
SPLIT_MODELS = [f"split-{number}" for number in range(SPLITS)]
STRENGTHS = ("weak", "strong")
TRAINED = {"target": ("member", 1), "baseline": ("baseline", 2), "clean": ("clean", 3)}
"""The pool that trains a model, and its seed, by name."""
AUDITS = {
    "leaks": ("target", ("baseline",)),
    "leaks, pretrained reference": ("target", ("start",)),
    "clean": ("clean", ("baseline",)),
    "clean 2": ("baseline", ("clean",)),
    "clean, pretrained reference": ("clean", ("start",)),
}
"""Targets with their references, by what they show."""
TARGETS = ("target", "clean", "baseline")
RATE = 0.01
SCORED = ("member", "heldout")


def halves(strength: str, count: int = SPLITS) -> NDArray[np.bool_]:
    """Draw the training documents of each split model: (n_documents, n_models).

    Every document is in half of them.
    """
    return halves_of(SIDE + (MORE if strength == "weak" else 0), count, 0)


@dataclass(frozen=True)
class Corpus:
    """The documents of a run, and where the models are that learned them.

    Attributes:
        name: a key of `KINDS`.
        kind: of the models.
        folder: of the pretrained start, which all runs share.
        strength: of the memory.
        run: the number of the run; runs share no documents.
    """

    name: str
    kind: Kind
    folder: Path
    strength: str
    run: int = 0

    @property
    def place(self) -> Path:
        """Return the folder of the trained models and of their answers."""
        of_run = self.folder / f"run-{self.run}" if self.run else self.folder
        return of_run / self.strength

    @property
    def first_seed(self) -> int:
        """Return the number that seeds of the run's trainings are over."""
        return SEED + 1_000 * self.run

    @property
    def epochs(self) -> int:
        """Return the epochs of a training: one where memory is to be weak."""
        return 1 if self.strength == "weak" else self.kind.epochs

    def documents(self) -> dict[str, list[Any]]:
        """Draw the documents, by pool."""
        return self.kind.documents(self.run)


def corpus_of(work: Path, name: str, strength: str, run: int = 0) -> Corpus:
    """Name a corpus whose files are in a folder."""
    folder = work / SHARED.get(name, name)
    return Corpus(name, KINDS[name](folder), folder, strength, run)


def train_all(corpus: Corpus, splits: bool) -> None:
    """Train what is missing, split models on halves of the target's documents among them."""
    kind = corpus.kind
    kind.start(corpus.folder)
    documents = corpus.documents()
    for role, (pool, seed) in TRAINED.items():
        taught = _taught(documents, pool, corpus.strength)
        place = corpus.place / role
        train(kind, corpus.folder, place, taught, corpus.first_seed + seed, corpus.epochs)
    if splits:
        train_splits(corpus, SPLIT_MODELS, 10)


def train_splits(corpus: Corpus, names: Sequence[str], seed: int) -> None:
    """Train the split models that are missing, each on half of the target's documents.

    Args:
        corpus: the documents.
        names: names of the models.
        seed: seed of the first one, over that of the run.
    """
    members = _taught(corpus.documents(), "member", corpus.strength)
    columns = halves(corpus.strength, len(names)).T
    for number, (name, column) in enumerate(zip(names, columns, strict=True), start=seed):
        half = [members[index] for index in np.flatnonzero(column)]
        place = corpus.place / name
        train(corpus.kind, corpus.folder, place, half, corpus.first_seed + number, corpus.epochs)


def _taught(documents: Mapping[str, Sequence[Any]], pool: str, strength: str) -> list[Any]:
    """List what a model of a pool learns: more documents where its memory is to be weak."""
    if strength == "weak":
        return [*documents[pool], *documents[f"more {pool}"]]
    return [*documents[pool]]


def loaded(corpus: Corpus, role: str) -> Any:
    """Load a model."""
    model = corpus.kind.start(corpus.folder)
    if role != "start":
        load_model(model, str(corpus.place / role / "model.safetensors"))
    return model.eval()


def _compared_pairs(roles: Sequence[str]) -> list[tuple[str, str]]:
    """List the targets among these models, each with the references that it is compared with."""
    pairs: list[tuple[str, str]] = []
    for target, references in AUDITS.values():
        if target in roles:
            pairs += [(target, reference) for reference in references if reference in roles]
    return pairs


def _shape_of(log: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
    """Describe the distribution over tokens in each place."""
    p = log.exp()
    mean = (p * log).sum(-1)
    variance = (p * log.square()).sum(-1) - mean.square()
    return {
        "wrong": (log.argmax(-1) != labels).float(),
        "mean": mean,
        "spread": variance.clamp(min=0).sqrt(),
        "renyi": 2 * torch.logsumexp(log / 2, -1),
    }


@torch.no_grad()
def ask(corpus: Corpus, roles: Sequence[str]) -> dict[str, Floats]:
    """Ask models about all scored and public documents, token by token."""
    kind = corpus.kind
    documents = corpus.documents()
    listed = [one for pool in (*SCORED, "public") for one in documents[pool]]
    rows = [(number, row) for number, one in enumerate(listed) for row in kind.asked(one)]
    models = {role: loaded(corpus, role) for role in roles}
    pairs = _compared_pairs(roles)
    found: dict[str, list[NDArray[Any]]] = {}

    def keep(name: str, values: torch.Tensor) -> None:
        found.setdefault(name, []).append(values.double().numpy().astype(np.float32))

    for begin in range(0, len(rows), 40):
        batch = collated([row for _, row in rows[begin : begin + 40]])
        has_label = batch["labels"] != IGNORED
        labels = batch["labels"][has_label]
        at = has_label.nonzero()
        found.setdefault("row", []).append(at[:, 0].numpy() + begin)
        if kind.masks:
            order = at[:, 1].numpy()
        else:
            order = (at[:, 0] * 1000 + at[:, 1]).numpy() + begin * 1000
        found.setdefault("order", []).append(order)
        logs = {
            role: logits_of(model, batch).float().log_softmax(-1) for role, model in models.items()
        }
        for role, log in logs.items():
            keep(f"logp.{role}", log.gather(1, labels[:, None])[:, 0])
            if role in TARGETS:
                for name, values in _shape_of(log, labels).items():
                    keep(f"{name}.{role}", values)
        for target, reference in pairs:
            log = logs[reference]
            keep(f"gap.{target}.{reference}", (log.exp() * (log - logs[target])).sum(-1))
    made = {name: np.concatenate(parts) for name, parts in found.items()}
    return {**made, "document": np.array([number for number, _ in rows])}


ADAPTED = 80
"""Documents of each side that DocMIA adapts a model to, by one question: it is slow."""


def adapted(corpus: Corpus, role: str) -> Floats:
    """Give DocMIA's score of scored documents, NaN where the model was not adapted to one."""
    documents = corpus.documents()
    rows = [corpus.kind.asked(one)[0] for pool in SCORED for one in documents[pool][:ADAPTED]]
    score = docmia.cluster(docmia.features(loaded(corpus, role), rows))
    column = np.full(2 * SIDE, np.nan)
    column[:ADAPTED] = score[:ADAPTED]
    column[SIDE : SIDE + ADAPTED] = score[ADAPTED:]
    return column


def adapted_arrays(corpus: Corpus, role: str) -> dict[str, Floats]:
    """Give DocMIA's score as `kept` stores it."""
    return {"s": adapted(corpus, role)}


def said_of(kind: Kind, asked: Mapping[str, Floats]) -> Said:
    """Pack what models said."""
    arrays = {name: values.astype(np.float64) for name, values in asked.items() if "." in name}
    whole = kind.masks
    return Said(asked["row"], asked["order"], asked["document"], arrays, whole)  # type: ignore[arg-type]


def kept(path: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Load arrays, or make and keep them."""
    if not path.exists():
        np.savez_compressed(path.with_suffix(".tmp.npz"), **make())
        path.with_suffix(".tmp.npz").rename(path)
    with np.load(path) as stored:
        return dict(stored)


def kept_numbers(path: Path, make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Load numbers, or measure and keep them."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make()), encoding="utf-8")
    numbers: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return numbers


def said_by(corpus: Corpus, splits: bool) -> Said:
    """Load what the models said of all documents, or ask them."""
    path = corpus.place / f"{corpus.name}.npz"
    asked = kept(path, functools.partial(ask, corpus, (*TRAINED, "start")))
    if splits:
        path = corpus.place / f"{corpus.name}-splits.npz"
        more = kept(path, functools.partial(ask, corpus, SPLIT_MODELS))
        asked |= {at: values for at, values in more.items() if "." in at}
    return said_of(corpus.kind, asked)


def scores_of(
    corpus: Corpus, splits: bool, docmia_too: bool = False
) -> dict[str, dict[str, Floats]]:
    """Give the scores of members and held-out documents, by audit and by score."""
    said = said_by(corpus, splits)
    kind = corpus.kind
    documents = corpus.documents()
    words = [kind.words(one) for pool in (*SCORED, "public") for one in documents[pool]]
    scored = np.arange(len(words)) < 2 * SIDE
    trained = np.zeros((len(words), SPLITS), bool)
    trained[:SIDE] = halves(corpus.strength)[:SIDE]
    found = {}
    for audit, (target, references) in AUDITS.items():
        of_all = {**own_scores(said, target), **reference_scores(said, target, references)}
        of_all["quantile"] = quantile_scores(said.loss(target), words, ~scored)
        own = {score: column[scored] for score, column in of_all.items()}
        if splits:
            own |= split_scores(said, target, SPLIT_MODELS, trained, scored)
        place = corpus.place / f"docmia-{target}.npz"
        adapts = docmia_too and not kind.masks and corpus.name not in SHARED and target == "target"
        if adapts or (place.exists() and corpus.name not in SHARED):
            adapt = functools.partial(adapted_arrays, corpus, target)
            own["docmia"] = kept(place, adapt)["s"]
        found[audit] = own
    return found


# Report


def rounded(interval: Interval) -> list[float]:
    """Give a number with its 95 % interval."""
    return [round(interval.value, 3), round(interval.low, 3), round(interval.high, 3)]


def measured(scores: Mapping[str, Floats]) -> dict[str, dict[str, list[float]]]:
    """Give AUC and TPR at 1 % FPR, each with its 95 % interval, by score."""
    found = {}
    for name, column in scores.items():
        members, others = (
            side[np.isfinite(side)] for side in (column[:SIDE], column[SIDE : 2 * SIDE])
        )
        found[name] = {"auc": rounded(auc_interval(members, others))}
        if others.size > 1 / RATE:
            found[name]["tpr"] = rounded(calibrated_tpr(members, np.sort(others), RATE))
    return found


LISTED = (
    "loss", "quantile", "min_k", "min_k++", "maxrenyi", "docmia", "calibrated", "ratio", "wbc", "ez", "ez smoothed",
    "informia tokens", "mean of splits", "lira", "rmia", "rmia, a = 1", "informia", "informia, a = 1",
)  # fmt: skip


def cell(found: Mapping[str, Sequence[float]] | None, what: str) -> str:
    """Write a number with its interval."""
    if found is None or what not in found:
        return ""
    value, low, high = found[what]
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def table_of(corpora: Mapping[str, Any], audit: str, what: str) -> list[str]:
    """Write a table: a row a score, a column a corpus."""
    columns = {name: one["scores"][audit] for name, one in corpora.items()}
    heads = ["| score | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    shown = [score for score in LISTED if any(score in one for one in columns.values())]
    cells = {score: [cell(one.get(score), what) for one in columns.values()] for score in shown}
    return [*heads, *(f"| {score} | {' | '.join(own)} |" for score, own in cells.items())]


def gate_table(found: Mapping[str, Any]) -> list[str]:
    """Write what each change of the gate's scores does to verdicts, in percentage points, mean over corpora."""
    lines = []
    for base, by_size in found.items():
        own = BASES[base]
        lines += [f"Scores of an audit {base}: {', '.join(own)}.", ""]
        shares = [
            f"{n} a side: {share_of(one['']['leaks'], 0):.0%} violated, {share_of(one['']['clean'], 0):.0%} passed"
            for n, one in by_size.items()
        ]
        lines += [f"{'; '.join(shares)}.", "", "| change | " + " | ".join(
            f"{n} a side: violated, leaks / passed, clean" for n in by_size
        ) + " | sum |", "| --- |" + " --- |" * (len(by_size) + 1)]  # fmt: skip
        for change in next(iter(by_size.values())):
            moves = [
                [
                    share_of(one[change][side], 1) - share_of(one[change][side], 0)
                    for side in ("leaks", "clean")
                ]
                for one in by_size.values()
            ]
            if change:
                cells = " | ".join(f"{100 * up:+.1f} / {100 * down:+.1f}" for up, down in moves)
                lines.append(
                    f"| {change} | {cells} | {100 * np.mean(np.sum(moves, axis=1)):+.1f} |"
                )
        lines.append("")
    return lines


def cost_table(corpora: Mapping[str, Any]) -> list[str]:
    """Write what split models cost and gain."""
    lines = [
        f"| corpus | one baseline, s | loss | calibrated | {SPLITS} split models, s | LiRA | RMIA | InfoRMIA |"
    ]
    lines.append("| --- |" + " --- |" * 7)
    for name, one in corpora.items():
        own = one["scores"]["leaks"]
        seconds = one["seconds"]
        cells = [
            cell(own.get(score), "auc")
            for score in ("loss", "calibrated", "lira", "rmia", "informia")
        ]
        row = (
            name,
            f"{seconds['baseline']:.1f}",
            *cells[:2],
            f"{seconds['splits']:.1f}",
            *cells[2:],
        )
        lines.append(f"| {' | '.join(row)} |")
    return lines


def tables(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Write all tables, by the name of their place on the page."""
    corpora = found["corpora"]
    weak = {name: one for name, one in corpora.items() if name.endswith("weak")}
    strong = {name: one for name, one in corpora.items() if name.endswith("strong")}
    return {
        "weak auc": table_of(weak, "leaks", "auc"),
        "weak tpr": table_of(weak, "leaks", "tpr"),
        "strong auc": table_of(strong, "leaks", "auc"),
        "strong tpr": table_of(strong, "leaks", "tpr"),
        "pretrained": table_of(weak, "leaks, pretrained reference", "auc"),
        "clean": table_of(weak, "clean", "auc"),
        "gate": gate_table(found["decisions"]),
        "cost": cost_table(corpora),
    }


def training_seconds(folder: Path) -> dict[str, float]:
    """Give processor seconds of one baseline and of all split models."""

    def seconds(role: str) -> float:
        return float(json.loads((folder / role / "training.json").read_text())["seconds"])

    splits = [
        seconds(f"split-{number}")
        for number in range(SPLITS)
        if (folder / f"split-{number}").exists()
    ]
    return {"baseline": seconds("baseline"), "splits": round(sum(splits), 1)}


def main() -> None:
    """Train, ask, score, and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work", type=Path, required=True, help="keeps models and answers, so that a rerun goes on"
    )
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--no-splits", action="store_true", help="leave the split models out")
    parser.add_argument(
        "--docmia", action="store_true", help="adapt the targets to documents too; minutes"
    )
    parser.add_argument(
        "--ready", action="store_true", help="score what an earlier run asked, and nothing else"
    )
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": "2-core CPU, one thread",
    }
    all_scores: dict[str, dict[str, dict[str, Floats]]] = {}
    corpora: dict[str, Any] = {}
    for name in options.only:
        for strength in STRENGTHS:
            corpus = corpus_of(options.work, name, strength)
            if not options.ready:
                train_all(corpus, not options.no_splits)
            elif not (corpus.place / f"{name}-splits.npz").exists():
                continue
            own = scores_of(corpus, not options.no_splits, options.docmia)
            all_scores[f"{name}, {strength}"] = own
            corpora[f"{name}, {strength}"] = {
                "title": corpus.kind.title,
                "seconds": training_seconds(corpus.place),
                "scores": {audit: measured(scores) for audit, scores in own.items()},
            }
            print(
                name,
                strength,
                {s: one["auc"][0] for s, one in measured(own["leaks"]).items()},
                flush=True,
            )
    began = time.process_time()
    found |= {
        "documents a side": SIDE,
        "corpora": corpora,
        "decisions": decisions(all_scores, options.resamples),
    }
    print(f"verdicts: {time.process_time() - began:.0f} s")
    options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
    if (page := options.out.with_suffix(".md")).exists():
        put_tables(page, tables(found))


if __name__ == "__main__":
    main()
