"""Character evasion, measured: an evaded copy of a data set, and what redactions give away without it and with it.

The paper's setting, an attacker trained on ordinary text, says what evasion does to somebody who does not know of it.
Attackers who do know are always measured too: they fold the look-alikes back, or train on evaded text. Evasion is
recommended only when it stops them as well (methods.md#redaction-context and #statistics).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.arrays import Ints
from audit.attacks.redaction import RedactionContext
from audit.attacks.redaction.attack import ADD_VALUES, NOT_REDACTED, STATE_IT
from audit.attacks.redaction.classifiers import CLASSIFIERS, fit
from audit.attacks.redaction.embedding import EmbeddingName
from audit.attacks.redaction.folds import blind, features_of
from audit.attacks.redaction.measures import macro_f1
from audit.attacks.redaction.samples import Samples, samples_of
from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Document, Mask
from audit.corpus.publishing import check_destination
from audit.corpus.redaction.contexts import RedactedSpan, redacted_spans
from audit.defenses.evaluation import Attacked, Attacker, Evaluation, Text, attackers, verdict
from audit.defenses.evasion import EVASION
from audit.defenses.interface import DataDefense
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, UsageError
from audit.files import write_atomically
from audit.measurements import ALPHAS, Estimate
from audit.stats.clusters import cluster_sums
from audit.stats.intervals import proportion
from audit.stats.resampling import sign_flip
from audit.stats.shares import net
from audit.targets.embedder import load_embedder
from audit.targets.interface import Target
from audit.targets.opening import device_named
from audit.targets.utility import estimate

COMPARISON = "comparison.json"
DATA = "data"
UNIT = "values"


def evade_and_measure(
    data_dir: Path,
    out: Path,
    *,
    defense: DataDefense = EVASION,
    classifier: str = "linear-svm",
    embedder: Path | None = None,
    tuned: bool = False,
    n_folds: int = 5,
    seed: int = 0,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Evaluation:
    """Write a rewritten copy of a data set to `out`/data, measure both, and write `out`/comparison.json.

    Args:
        data_dir: a data set that says how its values are hidden ([redaction] in manifest.toml).
        out: may exist, but without data/.
        defense: the one that rewrites the data set.
        classifier: of the attackers.
        embedder: a folder of sentence-transformers; None: TF-IDF.
        tuned: fine-tune the embedder in every training fold, as in the paper.
        n_folds: of the cross-validation by document.
        seed: of everything random.
        device: of the embedder.
        progress: of every fold.

    Raises:
        ManifestError: the data set is broken or not UTF-8, no value is redacted, or no word holds a letter that is
            exchanged.
        UsageError: `out`/data holds something, or there is no such classifier.
        TargetError: the embedder cannot be loaded.
        EngineError: the files cannot be written.
    """
    if classifier not in CLASSIFIERS:
        raise UsageError(f"no classifier is called {classifier!r}", f"one of {', '.join(CLASSIFIERS)}")
    if tuned and embedder is None:
        raise UsageError("only an embedder can be fine-tuned", "give one: --reference embedder=PATH")
    check_destination(out / DATA)
    corpus = manifests.load(data_dir)
    name: EmbeddingName = "tfidf" if embedder is None else "embedder-tuned" if tuned else "embedder"
    model = None if embedder is None else load_embedder(embedder, device_named(device))
    evaluation = measure(
        corpus,
        defense=defense,
        classifier=classifier,
        embedding=name,
        embedder=model,
        n_folds=n_folds,
        seed=seed,
        progress=progress,
    )
    defense.write(corpus, out / DATA)
    content = json.dumps(dataclasses.asdict(evaluation), indent=1) + "\n"
    write_atomically(out / COMPARISON, content.encode())
    return evaluation


def measure(
    corpus: Corpus,
    *,
    defense: DataDefense = EVASION,
    classifier: str = "linear-svm",
    embedding: EmbeddingName = "tfidf",
    embedder: Target | None = None,
    n_folds: int = 5,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Evaluation:
    """Measure evasion of a data set, without writing anything.

    Args:
        corpus: says how its values are hidden.
        defense: the one that rewrites it.
        classifier: of the attackers.
        embedding: "tfidf", or the use of `embedder`.
        embedder: answers `Embed`; for "tfidf" None.
        n_folds: of the cross-validation by document.
        seed: of everything random.
        progress: of every fold.

    Raises:
        ManifestError: no value is redacted, too few documents, or no word holds a letter that is exchanged.
    """
    lacks = RedactionContext(n_folds=n_folds).lacks(corpus)
    if lacks is not None:
        raise ManifestError(lacks, STATE_IT if lacks == NOT_REDACTED else ADD_VALUES)
    cost = defense.cost(corpus.documents)
    if not cost.changed:
        raise ManifestError(*defense.nothing)
    assert corpus.manifest.redaction is not None  # `lacks` says so first
    mask = corpus.manifest.redaction.mask
    clean = samples_of(corpus, mask, n_folds)
    spans_of = readings(corpus.documents, mask, defense)
    texts = {text: replace(clean, spans=spans) for text, spans in spans_of.items()}
    opponents = attackers(defense)
    predicted = _predict(opponents, texts, classifier, embedding, embedder, n_folds, seed, progress)
    blind = _blind(samples_of(corpus, "length", n_folds), n_folds)
    attacked = _attacked(opponents, clean, predicted, blind, np.random.default_rng(seed))
    recommended, sentence = verdict(attacked, cost, defense)
    return Evaluation(mask, classifier, embedding, n_folds, seed, attacked, cost, recommended, sentence)


def readings(
    documents: Sequence[Document], mask: Mask, defense: DataDefense = EVASION
) -> Mapping[Text, tuple[RedactedSpan, ...]]:
    """The redacted spans of the same values as they are, evaded, and evaded and folded back, in the same order.

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
    opponents: Sequence[Attacker],
    texts: Mapping[Text, Samples],
    classifier: str,
    embedding: EmbeddingName,
    embedder: Target | None,
    n_folds: int,
    seed: int,
    progress: Progress,
) -> dict[str, Ints]:
    """The category that every attacker predicts for every value, by the attacker's name: (n_values,) indices."""
    predicted = {attacker.name: np.zeros(len(texts["clean"]), np.int64) for attacker in opponents}
    by_training: dict[Text, list[Attacker]] = {}
    for attacker in opponents:
        by_training.setdefault(attacker.trained, []).append(attacker)
    progress.stage("redaction: folds", n_folds * len(by_training))
    for number in range(n_folds):
        for trained, fitted_alike in by_training.items():
            training, held = texts[trained].divided(number)
            # One fit, and one fine-tuning, for all that is read by this classifier.
            tried = _joined(texts[attacker.tested].divided(number)[1] for attacker in fitted_alike)
            classes, first, second = features_of(embedder, embedding, classifier, training, tried, seed)
            predictions = np.asarray(fit(classifier, first, classes, seed).predict(second))
            for index, attacker in enumerate(fitted_alike):
                own = predictions[index * len(held) : (index + 1) * len(held)]
                predicted[attacker.name][texts["clean"].folds == number] = own
            progress.advance()
    return predicted


def _joined(parts: Iterable[Samples]) -> Samples:
    """One after the other."""
    several = list(parts)
    return Samples(
        spans=tuple(span for part in several for span in part.spans),
        values=tuple(value for part in several for value in part.values),
        classes=np.concatenate([part.classes for part in several]),
        documents=np.concatenate([part.documents for part in several]),
        folds=np.concatenate([part.folds for part in several]),
    )


def _blind(samples: Samples, n_folds: int) -> dict[str, Ints]:
    """The categories predicted from lengths alone, and from how common categories are; `samples` show lengths."""
    predicted = {who: np.zeros(len(samples), np.int64) for who in ("length", "prior")}
    for number in range(n_folds):
        training, held = samples.divided(number)
        for who, categories in blind(training, held).items():
            predicted[who][samples.folds == number] = categories
    return predicted


def _attacked(
    opponents: Sequence[Attacker],
    samples: Samples,
    predicted: Mapping[str, Ints],
    blind: Mapping[str, Ints],
    rng: np.random.Generator,
) -> tuple[Attacked, ...]:
    classes, documents = samples.classes, samples.documents
    right = {name: own == classes for name, own in {**predicted, **blind}.items()}
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
                _without_null(f"macro_f1.{name}", classes, predicted[name], documents, rng),
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


def _without_null(name: str, classes: Ints, predicted: Ints, documents: Ints, rng: np.random.Generator) -> Estimate:
    found = estimate(name, macro_f1(classes, predicted, documents, rng), UNIT, 0.0, "chance")
    return replace(found, null=None, null_kind=None)
