"""The report of every attack: labels for all it measures, names of nothing else; a misspelt one fails when loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jinja2
import pytest
from report_cells import cells

from audit import attacks
from audit.attacks import BATTERY
from audit.attacks.blind_baseline import BLOCKS, NAME
from audit.attacks.interface import Attack
from audit.attacks.report_check import check_report
from audit.attacks.reporting import (
    AttackReport,
    MetricPanel,
    MetricText,
    NamedMetric,
    ReportPart,
    TableRow,
    name_parts,
)
from audit.errors import RenderError
from audit.report.attack_text import AttackText
from audit.report.jinja import environment, template_errors

ALL = pytest.mark.parametrize("kind", BATTERY, ids=lambda kind: kind.name)
EMPTY_CELLS = {
    # Somebody without the text has no lift over somebody without the text.
    "redaction": {f"{lift}.{who}" for lift in ("lift", "lift_over_length") for who in ("length-only", "prior")},
    # The first search finds a secret; it ranks none.
    "canaries": {"exposure.optimiser", "top3.optimiser"},
}
"""Cells of tables that no attack fills, though their row and their column have others."""


@ALL
def test_every_metric_and_every_part_of_its_name_has_a_label_and_a_meaning(kind: type[Attack]) -> None:
    report = kind.report
    assert report.title
    for name in (*kind.metrics, *report.measured):
        head, *rest = name_parts(name)
        assert report.family(name) != head, name
        assert report.meaning(name), name
        assert not {*rest} & {*report.qualifier(name).split(", ")}, name


@ALL
def test_every_cell_of_its_tables_is_a_measurement_that_the_attack_can_make(kind: type[Attack]) -> None:
    unknown = cells(*kind.report.parts) - {*kind.metrics, *kind.report.measured}
    assert unknown == EMPTY_CELLS.get(kind.name, set())


@ALL
def test_whoever_makes_a_blind_check_has_labels_for_it(kind: type[Attack]) -> None:
    if NAME in kind.metrics:
        assert kind.report.labels["blocks"].keys() >= BLOCKS.keys()
        assert all(kind.report.qualifier(f"{NAME}.{block}") != block for block in BLOCKS)


@ALL
def test_its_template_has_every_macro_and_asks_for_what_it_measures(kind: type[Attack]) -> None:
    text = AttackText(environment(), kind.name)
    assert text.title == kind.report.title
    assert text.report is kind.report


NAMES = {"metric", "after", "diagnostic", "p", "suffix", "first", "second", "only_first", "only_second", "net"}
"""Fields of a report that hold the name of a measurement or diagnostic, or a part of one."""


def misspelt(value: object) -> Iterator[Any]:
    """Copies of a part of a report, each with one letter of one name of a measurement or diagnostic changed."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from ((*value[:index], other, *value[index + 1 :]) for other in misspelt(item))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            own = getattr(value, field.name)
            others = [typo(own)] if field.name in NAMES and own else misspelt(own)
            yield from (replace(value, **{field.name: other}) for other in others)
    if isinstance(value, TableRow):
        for metric, name in value.instead.items():
            yield from (replace(value, instead=other) for other in ({metric: typo(name)}, {typo(metric): name}))


def typo(name: str) -> str:
    """The name with one letter changed."""
    return f"{name[:-1]}~"


@ALL
def test_one_letter_changed_in_any_name_of_the_report_is_refused(kind: type[Attack]) -> None:
    check_report(kind.name, kind.report, kind.metrics, kind.power)
    head, *_ = kind.report.metrics
    others = [
        replace(
            kind.report,
            metrics={typo(name) if name == head else name: text for name, text in kind.report.metrics.items()},
        ),
        replace(kind.report, unlisted=(*kind.report.unlisted, "none")),
        replace(kind.report, trend=replace(kind.report.trend, summary={"sum": typo(kind.metrics[0])})),
        *misspelt(kind.report),
    ]
    assert len(others) > 10
    for other in others:
        with pytest.raises(ValueError, match=f"the report of {kind.name}: "):
            check_report(kind.name, other, kind.metrics, kind.power)


def test_a_misspelt_metric_fails_when_the_attack_is_loaded() -> None:
    columns = (NamedMetric("AUC", "aucc"),)
    with pytest.raises(ValueError, match="the report of made_up: trend: no measurement 'aucc'"):

        class MadeUp(Attack):
            name = "made_up"
            metrics = ("auc",)
            report = AttackReport(
                metrics={"auc": MetricText("AUC")}, trend=replace(AttackReport().trend, columns=columns)
            )

    with pytest.raises(ValueError, match="no label for the metric 'aucc'"):

        class Misspelt(Attack):
            name = "misspelt"
            metrics = ("aucc",)
            report = AttackReport(metrics={"auc": MetricText("AUC")})


def test_an_attack_without_a_report_has_a_generic_one() -> None:
    class Silent(Attack):
        name = "silent"
        metrics = ("auc.member",)

    assert Silent.report.label("auc.member") == "auc: documents declared as trained on"
    assert Silent.report.short("auc") == "auc"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{% macro risk(n) %}{{ n.get('aucc') }}{% endmacro %}", "made_up has no 'aucc'"),
        ("{% macro risk(n) %}\n{{ n.missing('auc', 'ac.' ~ 'member') }}{% endmacro %}", "made_up has no 'ac.'"),
        ("{% macro risk(n) %}{{ n.diagnostic('blind_q') }}{% endmacro %}", "made_up has no 'blind_q'"),
        ("{% macro risk(n) %}{{ n.get('auc', 'auc.' ~ n.of) or n.diagnostic('blind_p.' ~ n.of) }}{% endmacro %}", ""),
        (None, "no macro 'words'"),
    ],
)
def test_a_macro_that_is_missing_or_asks_for_a_misspelt_name_is_refused(
    template: str | None, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class MadeUp(Attack):
        name = "made_up"
        metrics = ("auc", "auc.member")
        report = AttackReport(
            metrics={"auc": MetricText("AUC")},
            diagnostics=("blind_p",),
            parts=(ReportPart("Part", "words"),) if template is None else (),
        )

    for module in ("attack_text", "labels"):
        monkeypatch.setattr(f"audit.report.{module}.BATTERY", (*attacks.BATTERY, MadeUp))
    templates = environment()
    assert templates.loader is not None
    own = jinja2.DictLoader({"attacks/made_up.html": template or ""})
    templates.loader = jinja2.ChoiceLoader([own, templates.loader])
    if not problem:
        assert AttackText(templates, "made_up").title == "made_up"
        return
    with pytest.raises(RenderError, match=problem), template_errors():
        AttackText(templates, "made_up")


def test_panels_name_measurements_in_their_series() -> None:
    panel = MetricPanel("Title", (NamedMetric("one", "auc.member"),))
    assert [*misspelt(panel)] == [MetricPanel("Title", (NamedMetric("one", "auc.membe~"),))]
