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
"""With the lower bound of the gain on held-out fields over it, held-out documents look trained on: it is the most that
`default.toml` lets members gain."""
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
        fields: those that were tried, and `outcomes` theirs, in the same order.
        outcomes: see `Reconstruction.attempt`.
        rng: the source of randomness.
        progress: advanced for every measurement.
    """
    streams, seen = Streams(rng), occurrences(case.corpus)

    def table_of(length: Length) -> FieldTable:
        rows = [index for index, field in enumerate(fields) if field.length == length]
        own, found = [fields[row] for row in rows], [outcomes[row] for row in rows]
        return build_table(case, own, found)

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
    returned, kinds_returned = _returned(table.where(table.unique), _most_documents(measurements))
    result = Result(
        "reconstruction",
        measurements=tuple(measurements),
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
    """Return the methods of each limited metric (`Result.methods`), those of the input alone included."""
    ways = {
        name: [name, *({name.replace(".unique", ".input_only")} & {*table.limited} - {name})]
        for name in metrics
    }
    return {name: tuple(named(*pair) for pair in methods_of(own)) for name, own in ways.items()}


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
    unique = {
        method: own.where(own.unique)
        for method in (*METHODS, NEAR)
        for own in [table.judged_by(method)]
    }
    for _, method in methods_of([measuring.VALUES]):
        values, gain = named(measuring.VALUES, method), named(GAIN, method)
        tried = unique[method].tried(method)
        yield partial(
            count_values, values, tried, populations.of(method), excess_rate, streams[values]
        )
        yield partial(_gain, gain, unique[method].split("heldout"), method, streams[gain])
    for method in METHODS:
        tried = unique[method].tried(method)
        yield partial(
            kinds.count_documents, named(measuring.DOCUMENTS, method), tried, populations.of(method)
        )
    groups = sorted({metric.partition(".")[2] for metric in table.limited} - {ALL, "repeated"})
    yield partial(_detection, POWER, [table.group(group).split("heldout") for group in groups])
    for split, player in SERIES:
        rows = table.split(split)
        yield partial(_exact, f"pr.{split}.{player}", rows, player, DEFAULT)
        for _, method in methods_of([measuring.VALUES]):
            own = unique[method].split(split).group("unique")
            yield partial(_exact, named(f"pr.{split}.{player}.unique", method), own, player, method)
        yield partial(_surest, f"acc_at_5.{split}.{player}", rows, player)


def test_kinds(
    apart: Mapping[Length, FieldTable], usual: FieldTable, streams: Streams, kinds: KindsCheck
) -> None:
    """Test whether values of one length or category are known by any method, whatever is known of all together.

    Args:
        apart: fields of each unusual length.
        usual: those of usual length.
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
    """Return why a measurement on a table, or a comparison of members and held-out documents, cannot be had."""
    documents = [table.n_documents for table in tables]
    if min(documents) >= 2:
        return None
    of = "" if len(tables) == 1 else "training " if documents[0] < 2 else "unseen "
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
    """Compute (attack - baseline) on member fields minus the same on held-out fields (methods.md#held-out-control).

    Args:
        name: of the metric.
        table: of the fields.
        method: of the attack.
        rng: the source of randomness.
        by_lot: whether a lot chose the members: then a needless baseline is left out
            (`rates.choose_columns`).
        of_baseline: compare what the baseline alone finds.
    """
    splits = [table.split(split) for split in AUDITED]
    if (few := _unresolved(name, splits, measuring.NEEDED_DOCUMENTS)) is not None:
        return few
    exact = name.startswith(EXCESSES[0])
    columns: list[Columns] = []
    for rows in splits:
        found = rows.exact if exact else rows.similar
        baseline = found[named("baseline", method)]
        if of_baseline:
            columns.append((baseline, None, rows.cluster))
        else:
            columns.append((found[named("attack", method)], baseline, rows.cluster))
    chosen = choose_columns(columns, by_lot=by_lot)
    interval = excess_rate(chosen, rng) if exact else excess_mean(chosen, rng)
    return estimate(name, interval, "fields", 0.0, "held-out")


def _exact(name: str, table: FieldTable, player: str, method: str) -> Measurement:
    """Estimate the share rebuilt word for word.

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
    null = (
        (float(baseline), "public model")
        if player == "attack"
        else (float(table.chance.mean()), "chance")
    )
    return estimate(name, interval, "fields", *null)


def _surest(name: str, table: FieldTable, player: str) -> Measurement:
    """Estimate AccAt(5 %) of the most plausible attempts; nulls as of `_exact`."""
    if (few := _unresolved(name, [table], MIN_CLUSTERS)) is not None:
        return few
    score, exact = table.best[player, "score"], table.best[player, "exact"]
    interval = at_interval(score, exact, table.cluster, SUREST)
    baseline = at(table.best["baseline", "score"], table.best["baseline", "exact"], SUREST)
    return _beside_baseline(name, interval, table, player, baseline)


def _detection(name: str, tables: Iterable[FieldTable]) -> Measurement:
    """Estimate the share of held-out fields that any method rebuilds with a planted memory, and none without.

    Of the tables whose fields have limits of their own, the one with the smallest share counts.
    """
    found = []
    for table in filter(len, tables):
        planted = np.any([*table.planted.values()], axis=0)
        detected = planted & ~np.any(
            [table.exact[named("attack", method)] > 0 for method in METHODS], axis=0
        )
        found.append(estimate(name, proportion(detected, table.cluster), "fields", 0.0, "chance"))
    few = Unresolved(name, "no such field was attacked", 0, measuring.NEEDED_DOCUMENTS)
    return min(found, key=lambda one: one.value, default=few)


def _gain(name: str, table: FieldTable, method: str, rng: Generator) -> Measurement:
    """Estimate the share of held-out fields rebuilt with the target, minus that by the public model alone."""
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
    found: list[Control] = []
    for metric, method in methods_of(table.limited):
        name, rows = named(metric, method), table.judged_by(method).group(metric.partition(".")[2])
        rng = streams[f"reference control of {name}"]
        found += reference_control(
            [name], excess(name, rows, method, rng, of_baseline=True), HELDOUT_GAIN
        )
    return tuple(found)


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
    return [one for one in measurements if isinstance(one, Estimate) and one.name.startswith(GAIN)]


def check_heldout(measurements: Sequence[Measurement]) -> tuple[Check, ...]:
    """Test whether the model gives held-out values back: then held-out documents are no control."""
    found = _gains(measurements)
    if not found:
        return ()
    most = max(found, key=lambda estimate: estimate.low)
    p_value = min(1.0, len(found) * min(estimate.p_above(TRAINED_ON) for estimate in found))
    numbers = {"points": 100 * most.value, "low": 100 * most.low, "high": 100 * most.high}
    reason = SENTENCES["heldout_gain"].format(**numbers)
    remedy = "keep documents aside that no training saw, then scan again"
    return (Check("held-out gain", p_value, "confounded", reason, remedy),)


def _diagnostics(outcomes: Sequence[Json]) -> tuple[Diagnostic, ...]:
    """Summarise the attempts of the default method on fields of usual length."""
    if not outcomes:
        return ()
    distinct = [
        len({shot.tokens for shot in read_shots(outcome["attack"])}) for outcome in outcomes
    ]
    steps = sum(len(outcome["truth"]) * len(outcome["attack"]) for outcome in outcomes)
    unusable = sum(outcome["unusable"] for outcome in outcomes) / steps
    many = "median number of different reconstructions among a field's attempts; under 2, multi-shot equals one-shot"
    silent = (
        "share of the attack's steps without usable losses of the target (median 0 or not finite)"
    )
    attempts = Diagnostic("distinct attempts", float(np.median(distinct)), many)
    return attempts, Diagnostic("unusable losses", unusable, silent)


def _hamming_histogram(table: FieldTable) -> Histogram:
    counts = {
        f"{label}, {player}": tuple(np.histogram(distances, HAMMING_EDGES)[0].tolist())
        for (split, label), player in product(LABELS.items(), PLAYERS)
        for distances in [np.round(1 - table.split(split).similar[player], 9)]
    }
    return Histogram("hamming", "normalised Hamming distance", HAMMING_EDGES, counts)


def _most_documents(measurements: Iterable[Measurement]) -> str:
    """Return the method by which most documents leak a value, as `documents_identified` counts them."""
    counted = {item.name: item.value for item in measurements if isinstance(item, Estimate)}
    return max(METHODS, key=lambda method: counted.get(named(measuring.DOCUMENTS, method), 0.0))


def _returned(unique: FieldTable, method: str) -> tuple[Histogram, tuple[Count, ...]]:
    """Count documents by how many of their own values a method rebuilds, and these values of members by kind."""
    hits: Bools = unique.exact[named("attack", method)] > 0
    sides = {label: unique.member == (split == "member") for split, label in LABELS.items()}
    kinds = Counter(unique.category[hits & unique.member].tolist())
    counts = [
        Count(f"returned: {kind}", n, "training values that came back")
        for kind, n in sorted(kinds.items())
    ]
    returned = measuring.count_returned(
        {label: (hits[own], unique.cluster[own]) for label, own in sides.items()}
    )
    return returned, tuple(counts)


def _counts(
    offered: Mapping[FieldKind, int], fields: Sequence[Field], table: FieldTable
) -> tuple[Count, ...]:
    """Count what the attack could try and did, long and short fields apart.

    A long field counts once.
    """
    reach = sum(
        n for kind, n in offered.items() if kind.left_out is None and kind.length == "usual"
    )
    tried = Counter(
        length for length, *_ in {(one.length, one.document.id, one.entity.id) for one in fields}
    )
    left_out = Counter[str | None]()
    for kind, n in offered.items():
        left_out[kind.left_out] += n * (kind.part != "end")
    numbers = {"fields within reach": reach, "fields attacked": tried["usual"]}
    numbers |= {f"{length} fields attacked": tried[length] for length in ("long", "short")}
    for split, label in LABELS.items():
        rows = table.split(split)
        unique = int(rows.unique.sum())
        numbers |= {f"{label} documents": rows.n_documents, f"{label} fields, unique": unique}
        numbers[f"{label} fields, repeated"] = len(rows) - unique
        if table.input_only.any():
            numbers[f"{label} fields, input only"] = int(rows.input_only.sum())
    left = (
        Count(f"left out: {name}", left_out[name], meaning) for name, meaning in REASONS.items()
    )
    return (*text_of("reconstruction").count(numbers), *left)


def coverage(
    offered: Mapping[FieldKind, int],
    fields: Iterable[Field],
    seen: Mapping[str, Occurrence],
    withheld: Counter[str],
) -> tuple[Coverage, ...]:
    """Count the member fields that this scan attacked, of all that there are, in all and by category.

    A long field counts once, even where only one of its ends was attacked.

    Args:
        offered: number of member and held-out fields by kind that the manifest offers, attacked or
            not.
        fields: those that this scan attacked.
        seen: occurrences of every value in the corpus.
        withheld: number of member fields that the manifest keeps out of the audit, by category.
    """
    total, attacked, unique = Counter(withheld), Counter[str](), Counter[str]()
    for kind, n in offered.items():
        if kind.split == "member" and kind.part != "end":
            total[kind.category] += n
    for field in {(one.document.id, one.entity.id): one for one in fields}.values():
        kind = FieldKind.of(field, seen)
        if kind.split == "member":
            attacked[kind.category] += 1
            unique[kind.category] += kind.unique
    return (
        measuring.cover("fields", sorted(total), attacked, total, unique) if total.total() else ()
    )
