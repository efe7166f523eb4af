"""`benchmarks.calibration.false_passes`: changed utterances, boxes, policies, what is kept, tables."""

import dataclasses
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from audit.corpus.documents import Document, Entity, Word
from audit.policy import load
from audit.targets.encoded_page import NOT_READ, Encoding
from benchmarks.calibration.false_passes import (
    direct,
    named_tests,
    page,
    policies,
    receipts,
    table,
    utterances,
)
from benchmarks.calibration.false_passes.cases import CONSTRUCTIONS
from benchmarks.calibration.false_passes.named_tests import Named, Row
from benchmarks.calibration.false_passes.store import Store, digest

ROOT = Path(__file__).parents[2]
BOOKING = Document(
    "booking",
    "member",
    tuple(map(Word, ["a", "table", "in", "New", "York", "at", "noon"])),
    tags=("O", "O", "O", "B-city", "I-city", "O", "B-timeRange"),
    intent="BookRestaurant",
)
WEATHER = Document(
    "weather",
    "member",
    tuple(map(Word, ["sun", "in", "Rome"])),
    tags=("O", "O", "B-city"),
    intent="GetWeather",
)
PAGE = Document(
    "page",
    "member",
    (
        Word("Name", (10.0, 20.0, 40.0, 30.0)),
        Word("Ann", (50.0, 21.0, 90.0, 31.0)),
        Word("Total", (10.0, 60.0, 40.0, 70.0)),
    ),
    size=(100, 200),
    entities=(Entity("e1", "CUSTOMER", "person", (1,)), Entity("e2", "TOTAL", "amount", (2,))),
)


def _boxes(document: Document) -> list[object]:
    return [word.box for word in document.words]


def test_a_variant_differs_in_the_value_of_one_slot():
    (variant,) = utterances.vary([BOOKING], [WEATHER], seed=1)
    assert utterances.words_of(variant) == ("a", "table", "in", "Rome", "at", "noon")
    assert variant.tags == ("O", "O", "O", "B-city", "O", "B-timeRange")
    assert variant.id != BOOKING.id
    assert variant.intent == BOOKING.intent


def test_an_utterance_without_another_value_stays_as_it_is():
    (variant,) = utterances.vary([WEATHER], [WEATHER], seed=1)
    assert utterances.words_of(variant) == utterances.words_of(WEATHER)


def test_the_pools_of_utterances_are_as_large_as_a_model_of_each_needs():
    """A clean model's sides are drawn from one pool, and no model of the list learns from that pool."""
    assert utterances.POOLS["drawn"] >= 2 * 300
    assert utterances.POOLS["strangers"] == utterances.POOLS["members"]


@pytest.mark.parametrize(
    ("change", "first", "last"),
    [
        pytest.param(
            receipts.scaled(0.5), (5.0, 10.0, 20.0, 15.0), (5.0, 30.0, 20.0, 35.0), id="half"
        ),
        pytest.param(
            receipts.shifted(2), (12.0, 22.0, 42.0, 32.0), (12.0, 62.0, 42.0, 72.0), id="shifted"
        ),
        pytest.param(
            receipts.upside_down,
            (10.0, 170.0, 40.0, 180.0),
            (10.0, 130.0, 40.0, 140.0),
            id="upside down",
        ),
        pytest.param(
            receipts.line_boxes, (10.0, 20.0, 90.0, 31.0), (10.0, 60.0, 40.0, 70.0), id="lines"
        ),
        pytest.param(
            receipts.scaled(9),
            (90.0, 180.0, 100.0, 200.0),
            (90.0, 200.0, 100.0, 200.0),
            id="at the edge",
        ),
    ],
)
def test_boxes_are_changed_and_words_are_not(change, first, last):
    changed = change(PAGE)
    boxes = _boxes(changed)
    assert boxes[0] == first
    assert boxes[-1] == last
    assert [word.text for word in changed.words] == [word.text for word in PAGE.words]


def test_the_words_of_a_line_share_its_box():
    boxes = _boxes(receipts.line_boxes(PAGE))
    assert boxes[0] == boxes[1]


def test_the_next_month_has_the_same_customer_and_other_numbers():
    receipt = receipts.Market(1, 3).receipt(5)
    later = receipts.following(receipt)
    assert (later.customer, later.phone, later.provider) == (
        receipt.customer,
        receipt.phone,
        receipt.provider,
    )
    assert later.date > receipt.date
    assert later.total != receipt.total
    assert receipts.following(receipt) == later


def test_only_the_name_is_hidden_and_learnt():
    page = Encoding(
        np.array([1, 7, 8, 9, 2]), np.zeros((5, 4)), np.array([-1, 0, 1, 2, -1]), None, 3, 4
    )
    hidden = receipts.hide_names(PAGE, page)
    assert hidden.ids.tolist() == [1, 7, 3, 9, 2]
    assert hidden.labels is not None
    assert hidden.labels.tolist() == [NOT_READ, NOT_READ, 8, NOT_READ, NOT_READ]


def test_annotations_of_other_labels_are_left_out():
    assert [entity.id for entity in receipts.keep_entities(PAGE, ["TOTAL"]).entities] == ["e2"]


def test_the_area_counts_pairs_and_half_of_the_ties():
    assert direct.area(np.array([1.0, 2.0]), np.array([0.0, 1.0])) == pytest.approx(3.5 / 4)


def test_policies_of_owners_lack_what_their_names_say():
    default = (ROOT / "policies" / "default.toml").read_text(encoding="utf-8")
    shipped = tomllib.loads(default)
    of_utterances = tomllib.loads(policies.of_utterances(default, "warn"))
    assert "demands" not in of_utterances
    assert (of_utterances["limits"], of_utterances["undecided"]) == (shipped["limits"], "warn")
    of_recognition = tomllib.loads(policies.of_recognition(default))
    assert {limit["attack"] for limit in of_recognition["limits"]} == {"membership"}
    assert len(of_recognition["demands"]) == len(shipped["demands"]) - 1
    unlimited = tomllib.loads(policies.without_membership(default))
    assert not any(limit["attack"] == "membership" for limit in unlimited["limits"])
    assert len(unlimited["demands"]) == len(shipped["demands"]) - 1
    assert (
        len({policy["name"] for policy in (shipped, of_utterances, of_recognition, unlimited)}) == 4
    )


def test_a_folder_is_made_once_and_not_left_half_made(tmp_path):
    store = Store(tmp_path)
    made = []

    def make(folder: Path) -> None:
        folder.mkdir()
        made.append(folder)
        if len(made) == 1:
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        store.folder("models", "a", "1", make)
    folders = {store.folder("models", "a", "1", make) for _ in range(3)}
    assert len(made) == 2
    assert [folder.is_dir() for folder in folders] == [True]


def test_the_key_follows_from_the_content():
    changed = dataclasses.replace(BOOKING, intent="GetWeather")
    assert digest([BOOKING]) == digest([BOOKING])
    assert digest([BOOKING]) != digest([changed])


def _limit(
    outcome: str, cause: str | None = None, reason: str = "", counts: bool = True
) -> dict[str, object]:
    numbers = [0.8125, 0.75, 0.9]
    return {
        "attack": "membership",
        "metric": "auc",
        "outcome": outcome,
        "counts": counts,
        "cause": cause,
        "reason": reason,
        "number": numbers,
    }


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        pytest.param(None, "not run", id="not run"),
        pytest.param(
            {"exit": 10, "limits": [_limit("violated"), _limit("undecided", "wide", "wide")]},
            "exit 10: auc 0.812 [0.75, 0.9]",
            id="violated",
        ),
        pytest.param(
            {
                "exit": 11,
                "limits": [_limit("undecided", "confounded", "they look | trained on")] * 2,
            },
            "exit 11: confounded: they look / trained on",
            id="one reason once",
        ),
        pytest.param(
            {"exit": 0, "limits": [_limit("passed"), _limit("unexamined", counts=False)]},
            "exit 0: auc 0.812 [0.75, 0.9]",
            id="passed",
        ),
        pytest.param({"exit": 2, "error": "no such\nfile"}, "exit 2: no such file", id="refused"),
    ],
)
def test_a_cell_says_the_exit_code_and_what_decided_it(outcome, words):
    assert table.cell(outcome) == words


def test_the_tables_have_a_row_for_each_construction_and_each_size():
    rows = [
        {
            "name": "a",
            "describe": "refit",
            "finding": "1",
            "size": 300,
            "direct": {"members": 0.931},
        }
    ]
    columns = {"before": {"a": {"exit": 0, "limits": []}}, "now": {}}
    lines = table.table(rows, columns)
    assert lines[0] == "| construction | finding | direct attack | before | now |"
    assert lines[2] == "| refit | 1 | members 0.931 | exit 0: no limit was decided | not run |"
    assert table.clean_table(rows, columns)[2:] == [
        "| 300 a side | before | 1 | 1 | 0 | 0 |",
        "| 300 a side | now | 0 | 0 | 0 | 0 |",
    ]


def test_constructions_say_what_their_models_do():
    kinds = {construction.kind for construction in CONSTRUCTIONS.values()}
    assert kinds == {"leaks", "clean", "unfair"}
    for construction in CONSTRUCTIONS.values():
        assert (construction.kind == "clean") == (construction.size > 0), construction.name
        assert (
            bool(construction.finding) == (construction.kind == "unfair")
            or construction.kind != "unfair"
        )
    findings = {construction.finding for construction in CONSTRUCTIONS.values()}
    assert {"1", "2", "3", "4", "5", "6", "7", "8"} <= findings


ROWS = """
| construction | before | now | test |
|---|---|---|---|
| one | passed | violated | `tests/test_one.py::test_a`, `...::test_b...` |
| two | passed | violated | the same, and `test_two.py[a case]` |
| three | passed | violated | `results.json` |

| sample | exit code |
|---|---|
| four | 10 |
"""


def test_rows_name_their_tests():
    one = (Named("test_one.py", "test_a"), Named("test_one.py", "test_b"))
    assert list(named_tests.rows_of(ROWS)) == [
        Row("one", one),
        Row("two", (*one, Named("test_two.py", case="a case"))),
        Row("three", ()),
    ]


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        pytest.param({"tests/x/test_two.py::test_c[a case-1]": "passed"}, "pass 1/1", id="passed"),
        pytest.param({"tests/test_two.py::test_c[a case]": "failed"}, "fail 1/1", id="failed"),
        pytest.param(
            {"tests/test_two.py::test_c[another]": "passed"}, "missing", id="no such case"
        ),
        pytest.param({"tests/test_two.py::test_c[a case]": "skipped"}, "skipped", id="skipped"),
    ],
)
def test_a_row_is_as_good_as_its_worst_test(outcomes, outcome):
    assert (
        named_tests.outcome_of(Row("two", (Named("test_two.py", case="a case"),)), outcomes)
        == outcome
    )


def test_the_page_holds_the_tables_of_the_results():
    results = json.loads(
        (ROOT / "benchmarks" / "calibration" / "false_passes.json").read_text(encoding="utf-8")
    )
    text = (ROOT / named_tests.PAGE).read_text(encoding="utf-8")
    for name, lines in page.sections(results).items():
        begin, end = page.marks(name)
        assert begin + lines + end in text, name


def test_a_table_is_replaced_and_all_around_it_stays(tmp_path):
    place = tmp_path / "page.md"
    begin, end = page.marks("a")
    place.write_text(f"above\n\n{begin}old{end}\n\nbelow\n", encoding="utf-8")
    page.write(place, {"a": "new"})
    assert place.read_text(encoding="utf-8") == f"above\n\n{begin}new{end}\n\nbelow\n"
    place.write_text(f"{begin}no end\n\nbelow\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="put both marks back"):
        page.write(place, {"a": "new"})
    assert "below" in place.read_text(encoding="utf-8")


def test_the_named_tests_are_run_and_no_others(tmp_path, capsys):
    (tmp_path / named_tests.PAGE.parent).mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / named_tests.PAGE).write_text(ROWS, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\naddopts = "-q"\n', encoding="utf-8"
    )
    one = "def test_a(): pass\ndef test_bee(): pass\ndef test_unnamed(): assert False\n"
    (tmp_path / "tests" / "test_one.py").write_text(one, encoding="utf-8")
    two = "import pytest\n@pytest.mark.parametrize('case', ['a case'])\ndef test_c(case): assert not case\n"
    (tmp_path / "tests" / "test_two.py").write_text(two, encoding="utf-8")
    assert named_tests.run(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "pass 2/2       one",
        "fail 1/3       two",
        "no test        three",
    ]


def test_every_test_that_the_page_names_exists():
    for row in named_tests.rows_of((ROOT / named_tests.PAGE).read_text(encoding="utf-8")):
        for test in row.tests:
            (file,) = (ROOT / "tests").rglob(test.file)
            text = file.read_text(encoding="utf-8")
            assert f"def {test.function or 'test_'}" in text, f"{row.construction}: {test.function}"
            assert test.case in text, f"{row.construction}: {test.case}"


@pytest.mark.parametrize("name", ["of_utterances", "of_recognition", "without_membership"])
def test_a_derived_policy_can_be_read(name, tmp_path):
    path = tmp_path / "policy.toml"
    derive = getattr(policies, name)
    path.write_text(derive((ROOT / "policies" / "default.toml").read_text()))
    assert load(str(path)).limits
