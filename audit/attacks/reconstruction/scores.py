"""Measurements of the reconstruction attack (Dentan et al. 2024, sections 5.2 and 5.3)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from typing import cast

import numpy as np
from numpy.random import Generator

from audit.arrays import Bools
from audit.attacks import blind_baseline, measuring, text_of
from audit.attacks.blind_baseline import Blind, heldout_condition, reference_control
from audit.attacks.counting import KindsCheck, count_values
from audit.attacks.fields import REASONS, Field, Length, withheld
from audit.attacks.interface import AUDITED, HELDOUT_GAIN, LABELS
from audit.attacks.measuring import NEAR, Streams
from audit.attacks.reconstruction.groups import groups_of_fields
from audit.attacks.reconstruction.methods import read_shots
from audit.attacks.reconstruction.table import (
    ALL,
    DEFAULT,
    EXCESSES,
    GAIN,
    LIMITED,
    METHODS,
    PLAYERS,
    POWER,
    FieldKind,
    FieldTable,
    Populations,
    build_table,
    methods_of,
    named,
    weigh,
)
from audit.attacks.text import SENTENCES, SHARED
from audit.case import Case
from audit.corpus.documents import Split
from audit.corpus.folding import Occurrence, occurrences
from audit.engine.interface import Json, Progress
from audit.measurements import (
    Check,
    Control,
    Count,
    Coverage,
    Diagnostic,
    Estimate,
    Histogram,
    Measurement,
    Unresolved,
)
from audit.record import Result
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, proportion
from audit.stats.ranking import at, at_interval
from audit.stats.rates import Columns, choose_columns, excess_mean, excess_rate, net
from audit.stats.resampling import MIN_CLUSTERS

SERIES: tuple[tuple[Split, str], ...] = (
    ("member", "attack"),
    ("member", "baseline"),
    ("heldout", "attack"),
)
"""Split and player of what is shown side by side."""
TRAINED_ON = 0.05
"""With the lower bound of the gain on held-out fields over it, held-out documents look trained on.

It is the most that `default.toml` lets members gain."""
APART = 0.05
"""The excess of one kind of fields over which no limit is passed: that of `default.toml` on all."""
SUREST = 0.05
"""The share p of AccAt(p)."""
HAMMING_EDGES = tuple(round(edge / 10, 1) for edge in range(11))
_LENGTHS = cast("Mapping[Length, str]", text_of("reconstruction").labels["lengths"])


def measure_fields(
    case: Case,
    everything: Sequence[Field],
    fields: Sequence[Field],
    outcomes: Sequence[Json],
    rng: Generator,
    progress: Progress,
) -> Result:
    """Measure everything of the attack.

    Args:
        case: what was attacked.
        everything: all fields of member and held-out documents, tried or not.
        fields: fields that were tried, and `outcomes` theirs, in the same order.
        outcomes: outcomes, see `Reconstruction.attempt`.
        rng: the source of randomness.
        progress: advanced for every measurement.
    """
    streams = Streams(rng)
    seen = occurrences(case.corpus)

    def table_of(length: Length) -> FieldTable:
        """Build the table of the fields of one length."""
        rows = [index for index, field in enumerate(fields) if field.length == length]
        return build_table(case, [fields[row] for row in rows], [outcomes[row] for row in rows])

    offered = Counter(FieldKind.of(field, seen) for field in everything)
    usual = [
        outcome for field, outcome in zip(fields, outcomes, strict=True) if field.length == "usual"
    ]
    blind = blind_baseline.by_split(case.corpus, (field.document for field in fields), progress)
    table, populations = weigh(table_of("usual"), case, everything, fields, by_lot=blind.by_lot)
    kinds = KindsCheck(APART, blind.by_lot)
    measurements = measuring.run_jobs(
        "reconstruction: intervals", jobs(table, streams, kinds, populations), progress
    )
    test_kinds({length: table_of(length) for length in _LENGTHS}, table, streams, kinds)
    returned, kinds_returned = count_back(table.where(table.unique), _most_documents(measurements))
    breakdowns, reached = groups_of_fields(case, fields, table)
    result = Result(
        "reconstruction",
        measurements=tuple(measurements),
        breakdowns=breakdowns,
        people=reached,
        counts=(*_counts(offered, fields, table), *kinds_returned),
        diagnostics=_diagnostics(usual),
        histograms=(_hamming_histogram(table), returned),
        methods=methods_by_metric(table, (*LIMITED, measuring.VALUES, measuring.DOCUMENTS)),
        coverage=coverage(offered, fields, seen, withheld(case.corpus)),
        checks=(
            *check_heldout(measurements),
            *check_public_model(table, blind, streams),
            *kinds.check(),
        ),
        conditions=(
            heldout_condition(
                HELDOUT_GAIN, _gains(measurements), "reconstruction by model and public model"
            ),
        ),
        controls=_reference_controls(table, blind, streams),
    )
    return blind.beside(result, (), chain(*methods_by_metric(table, LIMITED).values()))


def methods_by_metric(table: FieldTable, metrics: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the methods of each limited metric (`Result.methods`).

    Those of the input alone are included.
    """
    methods = {}
    for metric in metrics:
        variants = [metric]
        input_only = metric.replace(".unique", ".input_only")
        if input_only != metric and input_only in table.limited:
            variants.append(input_only)
        methods[metric] = tuple(named(*pair) for pair in methods_of(variants))
    return methods


def jobs(
    table: FieldTable, streams: Streams, kinds: KindsCheck, populations: Populations
) -> Iterator[measuring.Job]:
    """Yield every measurement as a call.

    Args:
        table: fields of usual length.
        streams: the source of randomness.
        kinds: tests documents given away.
        populations: what the counts are of.
    """
    for metric, method in methods_of(table.limited):
        name = named(metric, method)
        rows = table.judged_by(method).group(metric.partition(".")[2])
        yield partial(excess, name, rows, method, streams[name], by_lot=populations.exact.by_lot)
    unique: dict[str, FieldTable] = {}
    for method in (*METHODS, NEAR):
        judged = table.judged_by(method)
        unique[method] = judged.where(judged.unique)
    for _, method in methods_of([measuring.VALUES]):
        values = named(measuring.VALUES, method)
        gain = named(GAIN, method)
        tried = unique[method].tried(method)
        yield partial(
            count_values, values, tried, populations.of(method), excess_rate, streams[values]
        )
        yield partial(heldout_gain, gain, unique[method].split("heldout"), method, streams[gain])
    for method in METHODS:
        tried = unique[method].tried(method)
        yield partial(
            kinds.count_documents, named(measuring.DOCUMENTS, method), tried, populations.of(method)
        )
    groups = sorted({metric.partition(".")[2] for metric in table.limited} - {ALL, "repeated"})
    yield partial(_detection, POWER, [table.group(group).split("heldout") for group in groups])
    for split, player in SERIES:
        yield from _jobs_of_series(table, unique, split, player)


def _jobs_of_series(
    table: FieldTable, unique: Mapping[str, FieldTable], split: Split, player: str
) -> Iterator[measuring.Job]:
    """Yield what is shown of a player on the fields of a split.

    Args:
        table: fields of usual length.
        unique: fields of these, by method, whose value stands in one document.
        split: the split.
        player: one of `PLAYERS`.
    """
    rows = table.split(split)
    yield partial(exact_share, f"pr.{split}.{player}", rows, player, DEFAULT)
    for _, method in methods_of([measuring.VALUES]):
        unique_rows = unique[method].split(split).group("unique")
        name = named(f"pr.{split}.{player}.unique", method)
        yield partial(exact_share, name, unique_rows, player, method)
    yield partial(_surest, f"acc_at_5.{split}.{player}", rows, player)


def test_kinds(
    apart: Mapping[Length, FieldTable], usual: FieldTable, streams: Streams, kinds: KindsCheck
) -> None:
    """Test whether values of one length or category are known by any method.

    They are tested whatever is known of all together.

    Args:
        apart: fields of each unusual length.
        usual: fields of usual length.
        streams: the source of randomness.
        kinds: collects the tests.
    """
    tables: dict[str, tuple[str, FieldTable]] = {
        length: (_LENGTHS[length], table.where(table.unique))
        for length, table in apart.items()
        if len(table)
    }
    unique = usual.where(usual.unique)
    tables |= unique.kinds({*unique.category.tolist()})
    for (kind, (words, table)), method in product(tables.items(), METHODS):
        kinds.test(
            words, table.tried(method), excess_rate, streams[named(f"{EXCESSES[0]}.{kind}", method)]
        )


def _unresolved(name: str, tables: Sequence[FieldTable], needed: int) -> Unresolved | None:
    """Return why a measurement cannot be had; None when it can.

    Args:
        name: name of the measurement.
        tables: one table, or those of members and of held-out documents, which it compares.
        needed: number of documents that it needs.
    """
    documents = [table.n_documents for table in tables]
    if min(documents) >= 2:
        return None
    if len(tables) == 1:
        of = ""
    elif documents[0] < 2:
        of = "training "
    else:
        of = "unseen "
    return Unresolved(
        name, f"fewer than two {of}documents with such fields", min(documents), needed
    )


def excess(
    name: str,
    table: FieldTable,
    method: str,
    rng: Generator,
    *,
    by_lot: bool = False,
    of_baseline: bool = False,
) -> Measurement:
    """Compute (attack - baseline) on member fields minus the same on held-out fields.

    See methods/reconstruction.md#excess-on-unseen-fields.

    Args:
        name: name of the metric.
        table: table of the fields.
        method: method of the attack.
        rng: the source of randomness.
        by_lot: whether a lot chose the members: then a needless baseline is left out
            (`rates.choose_columns`).
        of_baseline: whether to compare what the baseline alone finds.
    """
    splits = [table.split(split) for split in AUDITED]
    if (few := _unresolved(name, splits, measuring.NEEDED_DOCUMENTS)) is not None:
        return few
    exact = name.startswith(EXCESSES[0])
    columns: list[Columns] = []
    for rows in splits:
        shares = rows.exact if exact else rows.similar
        baseline = shares[named("baseline", method)]
        if of_baseline:
            columns.append((baseline, None, rows.cluster))
        else:
            columns.append((shares[named("attack", method)], baseline, rows.cluster))
    chosen = choose_columns(columns, by_lot=by_lot)
    interval = excess_rate(chosen, rng) if exact else excess_mean(chosen, rng)
    return estimate(name, interval, "fields", 0.0, "held-out")


def exact_share(name: str, table: FieldTable, player: str, method: str) -> Measurement:
    """Estimate the share of fields that a player rebuilds word for word by a method.

    Null: the public model, or chance for the public model.
    """
    if (few := _unresolved(name, [table], MIN_CLUSTERS)) is not None:
        return few
    interval = proportion(table.exact[named(player, method)] > 0, table.cluster)
    return _beside_baseline(
        name, interval, table, player, table.exact[named("baseline", method)].mean()
    )


def _beside_baseline(
    name: str, interval: Interval, table: FieldTable, player: str, baseline: float
) -> Measurement:
    """Return an estimate with its null: the public model's share, or chance for that model."""
    if player == "attack":
        return estimate(name, interval, "fields", float(baseline), "public model")
    return estimate(name, interval, "fields", float(table.chance.mean()), "chance")


def _surest(name: str, table: FieldTable, player: str) -> Measurement:
    """Estimate AccAt(5 %): the share right among the most plausible attempts of a player."""
    if (few := _unresolved(name, [table], MIN_CLUSTERS)) is not None:
        return few
    interval = at_interval(
        table.best[player, "score"], table.best[player, "exact"], table.cluster, SUREST
    )
    baseline = at(table.best["baseline", "score"], table.best["baseline", "exact"], SUREST)
    return _beside_baseline(name, interval, table, player, baseline)


def _detection(name: str, tables: Iterable[FieldTable]) -> Measurement:
    """Estimate the share of held-out fields that only a planted memory rebuilds.

    Any method rebuilds them with the memory, and none without. Of the tables whose fields have
    limits of their own, the one with the smallest share counts.
    """
    detections = []
    for table in filter(len, tables):
        planted = np.any([*table.planted.values()], axis=0)
        rebuilt = [table.exact[named("attack", method)] > 0 for method in METHODS]
        detected = planted & ~np.any(rebuilt, axis=0)
        interval = proportion(detected, table.cluster)
        detections.append(estimate(name, interval, "fields", 0.0, "chance"))
    if not detections:
        return Unresolved(name, "no such field was attacked", 0, measuring.NEEDED_DOCUMENTS)
    return min(detections, key=lambda detection: detection.value)


def heldout_gain(name: str, table: FieldTable, method: str, rng: Generator) -> Measurement:
    """Estimate the share of held-out fields that the target rebuilds, minus the public model's."""
    if (few := _unresolved(name, [table], MIN_CLUSTERS)) is not None:
        return few
    attack, baseline = (table.exact[named(player, method)] for player in PLAYERS)
    interval = net(
        np.maximum(attack - baseline, 0.0), np.maximum(baseline - attack, 0.0), table.cluster, rng
    )
    return estimate(name, interval, "fields", 0.0, "public model")


def _reference_controls(table: FieldTable, blind: Blind, streams: Streams) -> tuple[Control, ...]:
    """Bound what the documents explain by what the public model alone rebuilds.

    Empty where nothing is in doubt.
    """
    if not blind.in_doubt:
        return ()
    controls: list[Control] = []
    for metric, method in methods_of(table.limited):
        name = named(metric, method)
        rows = table.judged_by(method).group(metric.partition(".")[2])
        rng = streams[f"reference control of {name}"]
        bound = excess(name, rows, method, rng, of_baseline=True)
        controls += reference_control([name], bound, HELDOUT_GAIN)
    return tuple(controls)


def check_public_model(table: FieldTable, blind: Blind, streams: Streams) -> tuple[Check, ...]:
    """Test whether the public model restores more values of one split: then it knows that split.

    Values of held-out documents that it knows make the target's excess on members larger, known
    values of members hide it. Where the blind check tells the splits apart, the documents may
    explain it, and it is a control.
    """
    if blind.told_apart:
        return ()
    apart: list[Estimate] = []
    for method in METHODS:
        name = named("excess_pr.unique", method)
        rows = table.judged_by(method).group("unique")
        difference = excess(
            name, rows, method, streams[f"public model of {name}"], of_baseline=True
        )
        if isinstance(difference, Estimate):
            apart.append(difference)
    if not apart:
        return ()
    strongest = min(apart, key=lambda difference: difference.p_outside(0.0, 0.0))
    p_value = min(1.0, len(apart) * strongest.p_outside(0.0, 0.0))
    side = "member" if strongest.value > 0 else "heldout"
    reason = SENTENCES["public_knows"].format(documents=SHARED["documents"][side], points=strongest)
    return (
        Check("public model knows one side", p_value, "confounded", reason, SENTENCES["unknowing"]),
    )


def _gains(measurements: Sequence[Measurement]) -> list[Estimate]:
    """List what the target restores of held-out values beyond the public model, by method."""
    estimates = [item for item in measurements if isinstance(item, Estimate)]
    return [item for item in estimates if item.name.startswith(GAIN)]


def check_heldout(measurements: Sequence[Measurement]) -> tuple[Check, ...]:
    """Test whether the model gives held-out values back: then they are no control."""
    gains = _gains(measurements)
    if not gains:
        return ()
    most = max(gains, key=lambda estimate: estimate.low)
    p_value = min(1.0, len(gains) * min(estimate.p_above(TRAINED_ON) for estimate in gains))
    numbers = {"points": 100 * most.value, "low": 100 * most.low, "high": 100 * most.high}
    reason = SENTENCES["heldout_gain"].format(**numbers)
    remedy = "keep documents aside that no training saw, then scan again"
    return (Check("held-out gain", p_value, "confounded", reason, remedy),)


def _diagnostics(outcomes: Sequence[Json]) -> tuple[Diagnostic, ...]:
    """Summarise the attempts of the default method on fields of usual length."""
    if not outcomes:
        return ()
    distinct = [_n_distinct(outcome) for outcome in outcomes]
    steps = sum(len(outcome["truth"]) * len(outcome["attack"]) for outcome in outcomes)
    unusable = sum(outcome["unusable"] for outcome in outcomes) / steps
    many = (
        "median number of different reconstructions among a field's attempts;"
        " under 2, multi-shot equals one-shot"
    )
    silent = (
        "share of the attack's steps without usable losses of the target (median 0 or not finite)"
    )
    attempts = Diagnostic("distinct attempts", float(np.median(distinct)), many)
    return attempts, Diagnostic("unusable losses", unusable, silent)


def _n_distinct(outcome: Json) -> int:
    """Count the different reconstructions among the attempts of the default method."""
    return len({shot.tokens for shot in read_shots(outcome["attack"])})


def _hamming_histogram(table: FieldTable) -> Histogram:
    """Count the fields by the share of wrong tokens of each player's first attempt."""
    counts = {}
    for (split, label), player in product(LABELS.items(), PLAYERS):
        distances = np.round(1 - table.split(split).similar[player], 9)
        counts[f"{label}, {player}"] = tuple(np.histogram(distances, HAMMING_EDGES)[0].tolist())
    return Histogram("hamming", "normalised Hamming distance", HAMMING_EDGES, counts)


def _most_documents(measurements: Iterable[Measurement]) -> str:
    """Return the method by which most documents leak a value, by `documents_identified`."""
    counted = {item.name: item.value for item in measurements if isinstance(item, Estimate)}
    return max(METHODS, key=lambda method: counted.get(named(measuring.DOCUMENTS, method), 0.0))


def count_back(unique: FieldTable, method: str) -> tuple[Histogram, tuple[Count, ...]]:
    """Count documents by how many of their own values a method rebuilds, and values by kind.

    With it, count these values of members by kind.
    """
    hits: Bools = unique.exact[named("attack", method)] > 0
    sides = {}
    for split, label in LABELS.items():
        side = unique.member == (split == "member")
        sides[label] = (hits[side], unique.cluster[side])
    kinds = Counter(unique.category[hits & unique.member].tolist())
    counts = [
        Count(f"returned: {kind}", n, "training values that came back")
        for kind, n in sorted(kinds.items())
    ]
    return measuring.count_returned(sides), tuple(counts)


def _counts(
    offered: Mapping[FieldKind, int], fields: Sequence[Field], table: FieldTable
) -> tuple[Count, ...]:
    """Count the fields that could be tried, were tried, and were left out.

    A long field counts once.
    """
    reach = 0
    left_out = Counter[str | None]()
    for kind, n in offered.items():
        left_out[kind.left_out] += n * (kind.part != "end")
        if kind.left_out is None and kind.length == "usual":
            reach += n
    distinct = {(field.length, field.document.id, field.entity.id) for field in fields}
    tried = Counter(length for length, *_ in distinct)
    numbers = {"fields within reach": reach, "fields attacked": tried["usual"]}
    numbers |= {f"{length} fields attacked": tried[length] for length in ("long", "short")}
    numbers |= numbers_by_split(table)
    left = (
        Count(f"left out: {name}", left_out[name], meaning) for name, meaning in REASONS.items()
    )
    return (*text_of("reconstruction").count(numbers), *left)


def numbers_by_split(table: FieldTable) -> dict[str, int]:
    """Count the documents and fields of usual length of each split."""
    numbers: dict[str, int] = {}
    for split, label in LABELS.items():
        rows = table.split(split)
        unique = int(rows.unique.sum())
        numbers[f"{label} documents"] = rows.n_documents
        numbers[f"{label} fields, unique"] = unique
        numbers[f"{label} fields, repeated"] = len(rows) - unique
        if table.input_only.any():
            numbers[f"{label} fields, input only"] = int(rows.input_only.sum())
    return numbers


def coverage(
    offered: Mapping[FieldKind, int],
    fields: Iterable[Field],
    seen: Mapping[str, Occurrence],
    withheld: Counter[str],
) -> tuple[Coverage, ...]:
    """Count the member fields that this scan attacked, of all that there are.

    Counted is in all and by category. A long field counts once, even where only one of its ends was
    attacked.

    Args:
        offered: number of member and held-out fields by kind that the manifest offers, attacked or
            not.
        fields: fields that this scan attacked.
        seen: occurrences of every value in the corpus.
        withheld: number of member fields that the manifest keeps out of the audit, by category.
    """
    total = Counter(withheld)
    for kind, n in offered.items():
        if kind.split == "member" and kind.part != "end":
            total[kind.category] += n
    attacked = Counter[str]()
    unique = Counter[str]()
    for field in {(field.document.id, field.entity.id): field for field in fields}.values():
        kind = FieldKind.of(field, seen)
        if kind.split == "member":
            attacked[kind.category] += 1
            unique[kind.category] += kind.unique
    if not total.total():
        return ()
    return measuring.cover("fields", sorted(total), attacked, total, unique)
