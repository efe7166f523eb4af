"""The text of every attack: labels for all it measures, names of nothing else.

A misspelt name fails on load.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_cells import cells

import audit
from audit.attacks import FOLDERS, TEXTS, text_of
from audit.attacks.battery import BATTERY
from audit.attacks.blind_baseline import BLOCKS, NAME
from audit.attacks.text import AttackText, name_parts, parse

ROOT = Path(audit.__file__).parent
PATHS = sorted((ROOT / "attacks").glob("*/text.toml"))
FILES = {text["name"]: text for path in PATHS for text in [tomllib.loads(path.read_text())]}
ALL = pytest.mark.parametrize("text", TEXTS.values(), ids=lambda text: text.name)


def test_every_attack_has_a_text_and_its_order() -> None:
    assert [*TEXTS] == [kind.name for kind in BATTERY]
    assert ({path.parent.name for path in PATHS}, TEXTS.keys()) == ({*FOLDERS}, FILES.keys())


@ALL
def test_every_metric_and_every_part_of_its_name_has_a_label_and_a_meaning(
    text: AttackText,
) -> None:
    assert all((text.title, text.short_question, text.consequence))
    assert len(text.names) == len({*text.names})
    for name in text.known:
        head, *rest = name_parts(name)
        assert text.metric(name).label != head, name
        assert text.metric(name).meaning, name
        assert not {*rest} & {*text.qualifier(name).split(", ")}, name


@ALL
def test_every_cell_of_its_tables_is_a_measurement_that_the_attack_can_make(
    text: AttackText,
) -> None:
    assert cells(*text.parts) <= text.known


@ALL
def test_whoever_makes_a_blind_check_has_labels_for_it(text: AttackText) -> None:
    if NAME in text.names:
        assert text.all_labels["blocks"].keys() >= BLOCKS.keys()
        assert all(text.qualifier(f"{NAME}.{block}") != block for block in BLOCKS)


NAMES = {"metric", "after", "diagnostic", "p", "suffix"}
"""Keys of a text whose value is the name of a measurement or diagnostic, or a part of one."""


def misspelt(value: Any) -> Iterator[Any]:
    """Yield copies of a part of a text, each with one letter of one name of a measurement or diagnostic changed."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in misspelt(item))
    elif isinstance(value, dict):
        for key, own in value.items():
            if key in NAMES and isinstance(own, str):
                yield {**value, key: typo(own)}
            elif key == "instead":
                for metric, name in own.items():
                    yield from (
                        {**value, key: other}
                        for other in ({metric: typo(name)}, {typo(metric): name})
                    )
            elif key != "labels":
                yield from ({**value, key: other} for other in misspelt(own))


def typo(name: str) -> str:
    """Change the last letter of a name."""
    return f"{name[:-1]}~" if not name.endswith("}") else f"{name}~"


@pytest.mark.parametrize("name", TEXTS)
def test_one_letter_changed_in_any_name_of_a_text_is_refused(name: str) -> None:
    raw = FILES[name]
    assert parse(raw) == TEXTS[name]
    head, *_ = raw["metrics"]
    others = [
        {
            **raw,
            "metrics": {
                typo(one) if one == head else one: metric for one, metric in raw["metrics"].items()
            },
        },
        {**raw, "power": "none"},
        {**raw, "consequence": "Found {n_of} of {of_member}."},
        {**raw, "consequence_of": [typo(head)]},
        {**raw, "trend": {**raw["trend"], "summary": {"sum": typo(head)}}},
        {**raw, "trned": {}},
        *misspelt(raw),
    ]
    assert len(others) > 10
    for other in others:
        with pytest.raises(ValueError, match=f"the text of {name}: "):
            parse(other)


def test_a_misspelt_metric_fails_when_the_text_is_read() -> None:
    made_up = {"name": "made_up", "metrics": {"auc": {"label": "AUC"}}}
    assert parse(made_up).names == ("auc",)
    with pytest.raises(ValueError, match=r"the text of made_up: .*trend: no measurement 'aucc'"):
        parse({**made_up, "trend": {"columns": [{"label": "AUC", "metric": "aucc"}]}})
    with pytest.raises(ValueError, match=r"no label for 'heldout' of 'auc\.heldout'"):
        parse(
            {
                **made_up,
                "metrics": {"auc": {"label": "AUC", "names": ["auc.{split}"]}},
                "qualifiers": {},
            }
        )


def test_an_attack_without_a_text_has_a_generic_one() -> None:
    silent = text_of("silent")
    assert (silent.name, silent.short("auc")) == ("silent", "auc")
    assert silent.label("auc.member") == "auc: training documents"
