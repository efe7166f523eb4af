"""Measure a countermeasure that rewrites data: what redactions give away without it and with it.

The paper's setting, an attacker trained on ordinary text, says what evasion does to somebody who does not know of it.
Attackers who do know are always measured too: they fold the look-alikes back, or train on evaded text. Evasion is
recommended only when it stops them as well (methods.md#redaction-context and #statistics).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from audit.arrays import Ints
from audit.attacks.redaction import RedactionContext
from audit.attacks.redaction.attack import ADD_VALUES, NOT_REDACTED, STATE_IT
from audit.attacks.redaction.contexts import features_of, fit, predict_blindly
from audit.attacks.redaction.samples import Samples, samples_of
from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Mask
from audit.corpus.publishing import check_destination
from audit.corpus.redaction import RedactedSpan, redacted_spans
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError
from audit.extensions.countermeasures.evasion import EVASION_DEFENSE
from audit.extensions.countermeasures.interface import DataDefense, EvasionCost
from audit.files import write_atomically
from audit.measurements import ALPHAS, Estimate
from audit.stats.intervals import cluster_sums, proportion
from audit.stats.rates import net
from audit.stats.resampling import sign_flip
from audit.targets.utility import estimate

COMPARISON = "comparison.json"
DATA = "data"
UNIT = "values"
N_FOLDS = 5
"""Of the cross-validation by document."""
Text = Literal["clean", "evaded", "folded"]
"""How text reads: as it was, rewritten, or as somebody reads it who knows of that."""


@dataclass(frozen=True)
class Attacker:
    """Somebody who tells categories.

    Attributes:
        name: what files call this attacker.
        trained: how the text reads that the classifier is fitted on.
        tested: how the shared text reads.
        adaptive: whether the attacker knows of the countermeasure.
        words: for a table.
    """

    name: str
    trained: Text
    tested: Text
    adaptive: bool
    words: str


@dataclass(frozen=True)
class Attacked:
    """What one attacker reaches; every number with its interval by document.

    Attributes:
        attacker: name, training and test text, and whether the countermeasure is known.
        accuracy: share of values whose category is named.
        lift: accuracy over naming the commonest category.
        lift_over_length: accuracy over seeing only how long values are.
        change: `lift` (and as much of accuracy) after minus before, paired; None without the countermeasure.
        p: two-sided, of the change, by sign flips over documents; None without the countermeasure.
    """

    attacker: Attacker
    accuracy: Estimate
    lift: Estimate
    lift_over_length: Estimate
    change: Estimate | None = None
    p: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """What a countermeasure that rewrites data does.

    Attributes:
        mask: how values are hidden: the manifest's.
        n_folds: of the cross-validation by document.
        seed: of everything random.
        attacked: by whoever reads the documents as they were first, with whom all others are compared.
        cost: what the countermeasure changes and breaks.
        recommended: whether every adaptive attacker's lift falls, beyond its interval.
        sentence: the recommendation in words, with the costs.
    """

    mask: Mask
    n_folds: int
    seed: int
    attacked: tuple[Attacked, ...]
    cost: EvasionCost
    recommended: bool
    sentence: str


def rewrite_and_measure(
    data_dir: Path,
    out: Path,
    *,
    defense: DataDefense = EVASION_DEFENSE,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Evaluation:
    """Write a rewritten copy of a data set to `out`/data, measure both, and write `out`/comparison.json.

    Args:
        data_dir: a data set that says how its values are hidden ([redaction] in manifest.toml).
        out: may exist, but without data/.
        defense: the one that rewrites the data set.
        seed: of everything random.
        progress: of every fold.

    Raises:
        ManifestError: the data set is broken or not UTF-8, no value is redacted, or nothing is rewritten.
        UsageError: `out`/data holds something.
        EngineError: the files cannot be written.
    """
    check_destination(out / DATA)
    corpus = manifests.load(data_dir)
    lacks = RedactionContext(n_folds=N_FOLDS).lacks(corpus)
    if lacks is not None:
        raise ManifestError(lacks, STATE_IT if lacks == NOT_REDACTED else ADD_VALUES)
    cost = defense.cost(corpus.documents)
    if not cost.changed:
        raise ManifestError(*defense.nothing)
    assert corpus.manifest.redaction is not None  # `lacks` says so first
    mask = corpus.manifest.redaction.mask
    clean = samples_of(corpus, mask, N_FOLDS)
    texts = {text: replace(clean, spans=spans) for text, spans in readings(corpus.documents, mask, defense).items()}
    opponents = attackers(defense)
    predicted = _predict(opponents, texts, seed, progress)
    predicted |= _predict_blindly(samples_of(corpus, "length", N_FOLDS))
    attacked = _attacked(opponents, clean, predicted, np.random.default_rng(seed))
    recommended, sentence = verdict(attacked, cost, defense)
    found = Evaluation(mask, N_FOLDS, seed, attacked, cost, recommended, sentence)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / COMPARISON, (json.dumps(dataclasses.asdict(found), indent=1) + "\n").encode())
    # Last: where it is, nothing is left to do, and a run that was killed before goes on.
    defense.write(corpus, out / DATA)
    return found


def attackers(defense: DataDefense) -> tuple[Attacker, ...]:
    """Return whoever reads the documents as they were first, with whom all others are compared."""
    done = defense.done
    return (
        Attacker("clean", "clean", "clean", False, f"no {defense.name}"),
        Attacker("unaware", "clean", "evaded", False, f"{done}, attacker unaware (the paper)"),
        Attacker("folding", "folded", "folded", True, f"{done}, {defense.undone}"),
        Attacker("retrained", "evaded", "evaded", True, f"{done}, trained on {done} text"),
    )


def verdict(
    attacked: Sequence[Attacked], cost: EvasionCost, defense: DataDefense = EVASION_DEFENSE
) -> tuple[bool, str]:
    """Recommend evasion or not, with the sentence that says so and names its costs.

    It is when the lift of every adaptive attacker falls, the whole interval of the change below zero.

    Args:
        attacked: without evasion first, then with it.
        cost: what evasion breaks.
        defense: what was measured.
    """
    before = attacked[0].lift
    adaptive = [one for one in attacked if one.attacker.adaptive]
    strongest = max(adaptive, key=lambda one: one.lift.value)
    recommended = all(one.change is not None and one.change.high < 0 for one in adaptive)
    assert strongest.change is not None  # only the first has none
    change = f"{strongest.change.value:+.3f} [{strongest.change.low:+.3f}, {strongest.change.high:+.3f}]"
    reached = f"{strongest.lift.value:.3f} over the commonest category ({strongest.attacker.words})"
    if recommended:
        words = "Recommended: the lift of every attacker who knows of it falls; the strongest still reaches"
    else:
        words = "Not recommended: an attacker who knows of it reaches a lift of"
    words += f" {reached}, {before.value:.3f} without {defense.name} ({change})."
    lost, foreign = cost.lost / max(cost.searched, 1), cost.non_ascii_after / max(cost.characters, 1)
    before_it = cost.non_ascii_before / max(cost.characters, 1)
    return recommended, (
        f"{words} {defense.done.capitalize()} text breaks {defense.breaks}: a plain search finds {lost:.0%} of the "
        f"words no more, and {foreign:.0%} of the characters are outside ASCII ({before_it:.0%} before)."
    )


def readings(
    documents: Sequence[Document], mask: Mask, defense: DataDefense = EVASION_DEFENSE
) -> Mapping[Text, tuple[RedactedSpan, ...]]:
    """Return the redacted spans of the same values as they are, evaded, and folded back, in the same order.

    Whoever folds does so before sentences are divided. The mask stays the one that is seen: what is under it cannot be
    folded.

    Args:
        documents: as they are.
        mask: how values are hidden.
        defense: the one that rewrites the documents.
    """
    shared = [defense.rewrite(document) for document in documents]
    seen = redacted_spans(shared, mask)
    back = redacted_spans(map(defense.undo, shared), mask)
    return {
        "clean": redacted_spans(documents, mask),
        "evaded": seen,
        "folded": tuple(
            replace(span, mask=other.mask, n_characters=other.n_characters, layout=other.layout, bar=other.bar)
            for span, other in zip(back, seen, strict=True)
        ),
    }


def _predict(
    opponents: Sequence[Attacker], texts: Mapping[Text, Samples], seed: int, progress: Progress
) -> dict[str, Ints]:
    """Predict the category of every value, by the attacker's name: (n_values,) indices."""
    predicted = {attacker.name: np.zeros(len(texts["clean"]), np.int64) for attacker in opponents}
    by_training: dict[Text, list[Attacker]] = {}
    for attacker in opponents:
        by_training.setdefault(attacker.trained, []).append(attacker)
    progress.stage("redaction: folds", N_FOLDS * len(by_training))
    for number in range(N_FOLDS):
        for trained, fitted_alike in by_training.items():
            training, held = texts[trained].divided(number)
            # One fit for all that is read by this classifier.
            tried = _joined([texts[attacker.tested].divided(number)[1] for attacker in fitted_alike])
            first, second = features_of(training, tried)
            predictions = np.asarray(fit(first, training.classes, seed).predict(second))
            for index, attacker in enumerate(fitted_alike):
                own = predictions[index * len(held) : (index + 1) * len(held)]
                predicted[attacker.name][texts["clean"].folds == number] = own
            progress.advance()
    return predicted


def _joined(parts: Sequence[Samples]) -> Samples:
    """Join samples, one after the other."""
    return Samples(
        spans=tuple(span for part in parts for span in part.spans),
        values=tuple(value for part in parts for value in part.values),
        classes=np.concatenate([part.classes for part in parts]),
        documents=np.concatenate([part.documents for part in parts]),
        folds=np.concatenate([part.folds for part in parts]),
    )


def _predict_blindly(samples: Samples) -> dict[str, Ints]:
    """Predict categories from lengths alone, and from how common categories are; `samples` show lengths."""
    predicted = {who: np.zeros(len(samples), np.int64) for who in ("length", "prior")}
    for number in range(N_FOLDS):
        training, held = samples.divided(number)
        for who, categories in predict_blindly(training, held).items():
            predicted[who][samples.folds == number] = categories
    return predicted


def _attacked(
    opponents: Sequence[Attacker], samples: Samples, predicted: Mapping[str, Ints], rng: np.random.Generator
) -> tuple[Attacked, ...]:
    classes, documents = samples.classes, samples.documents
    right = {name: own == classes for name, own in predicted.items()}
    prior = float(right["prior"].mean())

    def over(name: str, metric: str, other: str) -> Estimate:
        gained, lost = right[name] & ~right[other], right[other] & ~right[name]
        found = net(gained, lost, documents, rng, alphas=ALPHAS)
        return estimate(f"{metric}.{name}", found, UNIT, 0.0, "blind" if other == "length" else "chance")

    rows = []
    for attacker in opponents:
        name = attacker.name
        rows.append(
            Attacked(
                attacker,
                estimate(f"accuracy.{name}", proportion(right[name], documents, alphas=ALPHAS), UNIT, prior, "chance"),
                over(name, "lift", "prior"),
                over(name, "lift_over_length", "length"),
            )
        )
    first = opponents[0].name
    for index, attacker in enumerate(opponents[1:], start=1):
        difference = right[attacker.name].astype(np.float64) - right[first]
        flips = sign_flip(cluster_sums([difference], documents)[:, 0], rng)
        rows[index] = replace(rows[index], change=over(attacker.name, "change", first), p=flips.two_sided)
    return tuple(rows)
