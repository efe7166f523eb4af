"""Recompute from journals and labels what each attack reached, by every way of choosing.

A row of page one shows one of these ways, the one that decides. `recount` looks for the way that
agrees with all cells of a row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from audit.corpus.canaries.schema import PATTERNS
from audit.corpus.documents import CATEGORIES
from audit.corpus.folding import fold
from benchmarks.tools import recount_intervals as intervals
from benchmarks.tools.recount_companies import (
    areas_of_companies,
    sorted_by_clusters,
    sorted_by_forests,
)
from benchmarks.tools.recount_intervals import Ends, Floats, Side
from benchmarks.tools.recount_scan import Document, Key, Outcome, Scan, value_of

USUAL_LENGTHS = range(3, 16)
"""Tokens of the fields that reconstruction tries as the paper does."""
FIRST_RANKS = 3
FLOOR = 1e-7
"""Loss under which documents are not told apart by the ratio of losses."""
FOREST_SLACK = 0.04
"""Difference that other random forests may make to a balanced accuracy."""
TEMPERATURE = 0.3
TARGET_WEIGHT = 0.4
"""Settings of the two models' weighted likelihoods (Dentan et al. 2024) that docaudit ships."""


class Share(NamedTuple):
    """What was reached of how many."""

    hits: float
    n: int

    @property
    def share(self) -> float:
        """Return the share that was reached."""
        return self.hits / self.n


class Reached(NamedTuple):
    """What an attack reached by one way of choosing.

    Attributes:
        metric: the limited number.
        way: of choosing, in words.
        value: the number, as the policy writes its limit.
        ends: its interval; None where nothing recomputes it.
        trained, unseen, without: what was reached on training documents, on unseen ones, and on
            training documents without the model; None where it is not counted.
        definition: of the number.
        slack: difference from the printed value that other random numbers may make.
    """

    metric: str
    way: str
    value: float
    ends: Ends | None
    trained: Share | None
    unseen: Share | None
    without: Share | None
    definition: str
    slack: float = 0.0


class Found(NamedTuple):
    """One value that an attack tried: on which side, whether it was found, and where it stands."""

    key: Key
    split: str
    hit: float
    without: float
    counted: bool


def ways_of(scan: Scan, attack: str) -> list[Reached]:
    """Return what an attack reached, by every way of choosing; empty where it did not run."""
    if attack not in scan.outcomes:
        return []
    return list(WAYS[attack](scan))


def values_found(scan: Scan, attack: str) -> dict[str, list[Found]]:
    """Return the values that an attack tried, by the end of the names of each way of choosing."""
    if attack not in scan.outcomes or attack not in VALUES:
        return {}
    return VALUES[attack](scan)


def _sum_up(rows: Sequence[Found], *, with_model: bool = True) -> Share | None:
    """Count the values that were found; None without any value."""
    if not rows:
        return None
    hits = [row.hit for row in rows]
    if not with_model:
        hits = [row.without for row in rows]
    return Share(sum(hits), len(rows))


def _of_split(rows: Sequence[Found], split: str) -> list[Found]:
    """Return the values of a split that count."""
    return [row for row in rows if row.split == split and row.counted]


def _side(rows: Sequence[Found], *, net: bool) -> Side:
    """Return a side of a difference; net: what is found without the model is taken off."""
    documents = [row.key[0] for row in rows]
    hits = [row.hit for row in rows]
    if net:
        return intervals.side_of(hits, [row.without for row in rows], documents)
    return intervals.side_of(hits, None, documents)


def _differences(
    metric: str, way: str, rows: Sequence[Found], *, of_hits: bool = True
) -> Iterator[Reached]:
    """Yield what training accounts for: with and without taking off what needs no model."""
    members = _of_split(rows, "member")
    strangers = _of_split(rows, "heldout")
    if not members or not strangers:
        return
    definition = "share of values found on training documents minus that on unseen ones"
    for net in (True, False):
        sides = [_side(side, net=net) for side in (members, strangers)]
        yield Reached(
            metric,
            way or "the model's loss",
            sides[0].value - sides[1].value,
            intervals.difference(sides, of_hits=of_hits),
            _sum_up(members),
            _sum_up(strangers),
            _sum_up(members, with_model=False),
            f"{definition}, less what needs no model" * net or definition,
        )


def _reconstruction_values(scan: Scan) -> dict[str, list[Found]]:
    """Return the fields of usual length that reconstruction tried, by way of choosing."""
    found: dict[str, list[Found]] = {"": [], ".lowest_loss": []}
    for split in ("member", "heldout"):
        for key, outcome in scan.of("reconstruction", split):
            if len(key) > 2 or len(outcome["truth"]) not in USUAL_LENGTHS:
                continue
            value = value_of(scan.documents[key[0]], scan.entity(*key))
            chosen_by = {"": outcome, ".lowest_loss": outcome["methods"]["lowest_loss"]}
            for way, chosen in chosen_by.items():
                hit = float(chosen["attack"][0]["tokens"] == outcome["truth"])
                without = float(chosen["baseline"][0]["tokens"] == outcome["truth"])
                found[way].append(Found(key, split, hit, without, scan.is_alone(value)))
    return found


def _reconstruction(scan: Scan) -> Iterator[Reached]:
    """Yield what reconstruction restored of values that stand in one document only."""
    for way, rows in _reconstruction_values(scan).items():
        yield from _differences("excess_pr.unique", way, rows)


def _memorisation_values(scan: Scan) -> dict[str, list[Found]]:
    """Return the questions whose answer is proven to be off the page, by way of asking."""
    found: dict[str, list[Found]] = {}
    for split in ("member", "heldout"):
        for key, outcome in scan.of("memorisation", split):
            if outcome["status"] != "proven":
                continue
            for way, context, counted in _ways_to_answer(outcome):
                replies = outcome["replies"][context]
                found.setdefault(way, []).append(_answered(key, split, replies, counted))
    return found


def _ways_to_answer(outcome: Outcome) -> Iterator[tuple[str, str, str]]:
    """Yield the ways of asking that gave replies: their name, the context, and what counts."""
    for context, replies in outcome["replies"].items():
        if context == "exact":
            yield "", context, "exact"
            yield ".near", context, "near"
        elif context != "whole" and replies is not None:
            yield f".{context}", context, "exact"


def _answered(key: Key, split: str, replies: Sequence[dict[str, Any]], counted: str) -> Found:
    """Return whether the model gave an answer, and which share of the other models."""
    model, *others = [float(reply[counted]) for reply in replies]
    without = sum(others) / max(1, len(others))
    return Found(key, split, model, without, counted=True)


def _memorisation(scan: Scan) -> Iterator[Reached]:
    """Yield what the model answers beyond models that saw no page of training."""
    values = _memorisation_values(scan)
    asked = values.get("", [])
    for way, rows in values.items():
        members = _of_split(rows, "member")
        if not members:
            continue
        shown = {".near": rows}.get(way, asked)
        shown_members = _of_split(shown, "member")
        net = _side(members, net=True)
        yield Reached(
            "net",
            way or "the question of training",
            net.value,
            intervals.difference([net]),
            _sum_up(shown_members),
            _sum_up(_of_split(shown, "heldout")),
            _sum_up(shown_members, with_model=False),
            "questions that only the model answers minus those that only others do, of all asked",
        )


def _attribute_values(scan: Scan) -> dict[str, list[Found]]:
    """Return the values that were to be picked from a list, by way of picking."""
    found: dict[str, list[Found]] = {"": [], ".calibrated": []}
    named = _named_by_training(scan)
    for key, outcome in _picked(scan).items():
        split = scan.documents[key[0]]["split"]
        target = _losses(outcome["target"])
        public: Floats | None = None
        without = 1 / target.size
        if outcome["public"] is not None:
            public = _losses(outcome["public"])
            without = _chance_of_first(public)
        counted = stands_alone(scan, key) and key in named
        calibrated = _calibrated(scan, target, public)
        found[""].append(Found(key, split, _chance_of_first(target), without, counted))
        found[".calibrated"].append(
            Found(key, split, _chance_of_first(calibrated), without, counted)
        )
    return found


def _losses(listed: Sequence[float | None]) -> Floats:
    """Return losses from a journal; those that are not finite become infinite."""
    losses = np.array(listed, float)
    losses[np.isnan(losses)] = np.inf
    return losses


def _named_by_training(scan: Scan) -> set[Key]:
    """Return the values that training named; all of them where it named none."""
    picked = set(_picked(scan))
    named = {key for key in picked if not _is_input_only(scan, key)}
    return named or picked


def _picked(scan: Scan) -> dict[Key, Outcome]:
    """Return the outcomes of values that could be asked about."""
    return {
        key: outcome
        for key, outcome in scan.outcomes["attribute_inference"].items()
        if outcome["lost"] is None
    }


def _attribute_inference(scan: Scan) -> Iterator[Reached]:
    """Yield what is picked because of training, of values in one document only, and of all."""
    for way, rows in _attribute_values(scan).items():
        yield from _differences("excess.unique", way, rows, of_hits=False)
        named = _named_by_training(scan)
        everything = [row._replace(counted=row.key in named) for row in rows]
        members = _of_split(rows, "member")
        trained = _sum_up(members)
        unseen = _sum_up(_of_split(rows, "heldout"))
        without = _sum_up(members, with_model=False)
        for reached in _differences("excess.all", way, everything, of_hits=False):
            yield reached._replace(trained=trained, unseen=unseen, without=without)


def asked_of(scan: Scan, key: Key) -> tuple[Document, dict[str, Any] | None, dict[str, Any] | None]:
    """Return the document, the question and the entity that a trial is about."""
    document = scan.documents[key[0]]
    name = key[-1]
    for question in document.get("questions", ()):
        if question["id"] == name and len(key) == 2:
            for entity in document.get("entities", ()):
                if entity["id"] == question.get("entity"):
                    return document, question, entity
            return document, question, None
    return document, None, scan.entity(key[0], name)


def stands_alone(scan: Scan, key: Key) -> bool:
    """Tell whether a value stands in no other document; an answer, in no other one of training."""
    document, question, entity = asked_of(scan, key)
    if question is not None:
        values = [fold(answer) for answer in question["answers"] if fold(answer)]
    else:
        assert entity is not None
        values = [value_of(document, entity)]
    if scan.task == "question-answering":
        return all(scan.trained.get(value, frozenset()) <= {key[0]} for value in values)
    return scan.is_alone(values[0])


def _is_input_only(scan: Scan, key: Key) -> bool:
    """Tell whether training never named a value: no question asks for it, no label marks it."""
    if scan.task == "question-answering":
        return key[1] == ""
    if scan.task != "token-classification":
        return False
    document, _, entity = asked_of(scan, key)
    assert entity is not None
    value = value_of(document, entity)
    alike = [row for row in document["entities"] if value_of(document, row) == value]
    return all(row["label"] == "O" for row in alike)


def _chance_of_first(losses: Floats) -> float:
    """Return the chance that the true candidate, the first, is picked for its lowest loss."""
    best = losses == losses.min()
    return float(best[0]) / int(best.sum())


def _calibrated(scan: Scan, target: Floats, public: Floats | None) -> Floats:
    """Return the model's losses, compared with those of a model that never saw the page.

    Losses of one kind are subtracted. A tagger's loss is of labels and the other's of words: their
    likelihoods are weighed (Dentan et al. 2024, steps 4 and 5).
    """
    if public is None:
        return target
    if _is_public_alike(scan):
        with np.errstate(invalid="ignore"):
            losses = target - public
        return np.where(np.isfinite(losses), losses, np.inf)
    middle = float(np.median(target))
    scores = (2 - target / middle) / TEMPERATURE
    mixed = TARGET_WEIGHT * _normalised(scores)
    mixed = mixed + (1 - TARGET_WEIGHT) * _normalised(-public / TEMPERATURE)
    return -mixed


def _is_public_alike(scan: Scan) -> bool:
    """Tell whether the model that never saw the page is asked the same as the audited one."""
    cards = {reference["role"]: reference["card"] for reference in scan.record["references"]}
    for role in ("baseline-0", "auxiliary", "pretrained"):
        if role in cards:
            return bool(cards[role]["task"] == scan.record["target"]["task"])
    return False


def _normalised(scores: Floats) -> Floats:
    """Return the logarithm of the softmax of scores."""
    shifted = scores - scores.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()), np.float64)


def document_scores(scan: Scan) -> dict[str, dict[str, float]]:
    """Return the losses of documents by score, then by id; the lower, the more like a member."""
    scores: dict[str, dict[str, float]] = {}
    for (name, *_), outcome in scan.outcomes.get("membership", {}).items():
        if outcome["target"] is not None:
            for score, loss in _scores_of(outcome):
                scores.setdefault(score, {})[name] = loss
    return scores


def _scores_of(outcome: Outcome) -> Iterator[tuple[str, float]]:
    """Yield the losses of a document, by score."""
    target = outcome["target"]
    references = outcome["reference"]
    yield "loss", target["loss"]
    if references:
        usual = float(np.mean([reference["loss"] for reference in references]))
        yield "calibrated", target["loss"] - usual
        yield "ratio", float(np.log(max(target["loss"], FLOOR) / max(usual, FLOOR)))
    if target.get("row") is not None:
        rows = [row["row"] for row in references if row.get("row") is not None]
        yield "row", target["row"] - sum(rows) / max(1, len(rows))


def _membership(scan: Scan) -> Iterator[Reached]:
    """Yield how well training documents and unseen ones are told apart, by score."""
    for score, column in document_scores(scan).items():
        sides: list[list[float]] = []
        for split in ("member", "heldout"):
            ids = [name for name in column if scan.documents[name]["split"] == split]
            sides.append([column[name] for name in ids])
        value, ends = intervals.area(*sides)
        definition = (
            "share of pairs of a training and an unseen document that the score ranks right"
        )
        yield Reached("auc", score, value, ends, None, None, None, definition)


def _provider_membership(scan: Scan) -> Iterator[Reached]:
    """Yield how well used and unused companies are told apart, by score and by forests."""
    for score, (value, ends) in areas_of_companies(scan).items():
        definition = "share of pairs of a used and an unused company that the score ranks right"
        yield Reached("auc", score, value, ends, None, None, None, definition)
    for way, (value, ends) in sorted_by_forests(scan).items():
        definition = "mean of the shares of used and of unused companies that forests sort right"
        yield Reached(
            "balanced_accuracy", way, value, ends, None, None, None, definition, FOREST_SLACK
        )
    for way, (value, ends) in sorted_by_clusters(scan).items():
        definition = "mean of the shares of used and of unused companies that clusters sort right"
        yield Reached(
            "balanced_accuracy.azk", way, value, ends, None, None, None, definition, FOREST_SLACK
        )


def _redaction(scan: Scan) -> Iterator[Reached]:
    """Yield how many kinds of redacted values a reader recognises, beyond the commonest kind."""
    recovered = scan.folder / "evidence" / "recovered.jsonl"
    rows = [json.loads(line) for line in recovered.read_text().splitlines()]
    told = [row for row in rows if row["attack"] == "redaction"]
    kinds = [scan.entity(row["document"], row["entity"])["category"] for row in told]
    right = [row["told"] == kind for row, kind in zip(told, kinds, strict=True)]
    commonest = _commonest_named(scan)
    blind = [kind == commonest for kind in kinds]
    documents = [row["document"] for row in told]
    names = sorted(set(documents))
    gains = np.zeros(len(names))
    missed = np.zeros(len(names))
    for name, is_right, is_blind in zip(documents, right, blind, strict=True):
        gains[names.index(name)] += is_right - is_blind
        missed[names.index(name)] += not is_blind
    yield Reached(
        "lift_share",
        "the readable text",
        float(gains.sum() / missed.sum()),
        intervals.ratio(gains, missed),
        Share(sum(right), len(right)),
        None,
        None,
        "kinds recognised beyond the commonest one, of the values that are not of it",
    )


def _commonest_named(scan: Scan) -> str:
    """Return the kind that a reader names who knows only how common each kind is."""
    named: Counter[int] = Counter()
    for outcome in scan.outcomes["redaction"].values():
        named.update(outcome.get("prior", ()))
    ((commonest, _),) = named.most_common(1)
    return CATEGORIES[commonest]


def _canaries(scan: Scan) -> Iterator[Reached]:
    """Yield how many planted secrets come back, beyond those that were never planted."""
    listed = json.loads((scan.data / "canaries.json").read_text())["canaries"]
    canaries = {canary["id"]: canary for canary in listed}
    hits: Planted = []
    early: Planted = []
    bits: Planted = []
    for key, outcome in scan.outcomes["canaries"].items():
        canary = canaries[key[0]]
        if outcome["left_out"] is None:
            hits.append((canary["included"], float(_is_extracted(canary, outcome))))
        ranked = outcome["ranked"]
        if ranked:
            early.append((canary["included"], float(ranked["rank"] <= FIRST_RANKS)))
            bits.append((canary["included"], ranked["bits"]))
    sides = []
    for is_planted in (True, False):
        of_side = [hit for included, hit in hits if included == is_planted]
        sides.append(Share(sum(of_side), len(of_side)))
    metrics = {"excess": hits, "excess_top3": early, "excess_exposure": bits}
    for metric, numbers in metrics.items():
        value, ends = _planted_difference(numbers)
        definition = DEFINITIONS[metric]
        planted, control = sides
        yield Reached(metric, "the lowest loss", value, ends, planted, control, None, definition)


Planted = list[tuple[bool, float]]
"""Whether a secret was planted, and a number of it."""
DEFINITIONS = {
    "excess": "share of planted secrets that come back minus that of unplanted ones",
    "excess_top3": "the same of secrets among the first three guesses",
    "excess_exposure": "mean exposure of planted secrets minus that of others, in bits",
}


def _is_extracted(canary: dict[str, Any], outcome: Outcome) -> bool:
    """Tell whether the likeliest completion is the secret."""
    words = PATTERNS[canary["pattern"]].candidates
    strongest = [words[index] for index in outcome["strongest"]]
    return bool(strongest == canary["completion"])


def _planted_difference(numbers: Sequence[tuple[bool, float]]) -> tuple[float, Ends]:
    """Return the mean of planted secrets minus that of others, with its interval."""
    most = max([1.0, *(number for _, number in numbers)])
    sides = []
    for planted in (True, False):
        rows = [number / most for side, number in numbers if side == planted]
        names = [str(index) for index in range(len(rows))]
        sides.append(intervals.side_of(rows, None, names))
    return most * (sides[0].value - sides[1].value), intervals.difference(sides).scaled(most)


WAYS: dict[str, Callable[[Scan], Iterator[Reached]]] = {
    "reconstruction": _reconstruction,
    "memorisation": _memorisation,
    "attribute_inference": _attribute_inference,
    "membership": _membership,
    "provider_membership": _provider_membership,
    "redaction": _redaction,
    "canaries": _canaries,
}
VALUES: dict[str, Callable[[Scan], dict[str, list[Found]]]] = {
    "reconstruction": _reconstruction_values,
    "memorisation": _memorisation_values,
    "attribute_inference": _attribute_values,
}
