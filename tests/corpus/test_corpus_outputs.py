"""Outputs of parsing models: their fields, by path, wherever they stand."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.images import page_view
from audit.corpus.manifest import load
from audit.corpus.outputs import (
    as_marks,
    fields_of_output,
    find_field,
    keys_of,
    with_value,
    without_copies,
)
from audit.corpus.removal import remove
from audit.errors import ManifestError

RECEIPT = {
    "menu": [{"nm": "LATTE", "price": "4.50"}, {"nm": "CAKE", "price": "3"}],
    "total": {"total_price": 7.5},
}
KEYS = st.text(st.characters(categories=("Ll", "Nd")), min_size=1, max_size=6)
VALUES = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)


def answers(output: str) -> dict[str, str]:
    return {question.question: question.answers[0] for question in fields_of_output(output)}


def test_fields_of_json_are_questions_named_by_their_paths() -> None:
    expected = {
        "menu.nm": "LATTE",
        "menu.price": "4.50",
        "menu[1].nm": "CAKE",
        "menu[1].price": "3",
    }
    expected["total.total_price"] = "7.5"
    assert (answers(json.dumps(RECEIPT)), answers(json.dumps(RECEIPT, indent=2))) == (
        expected,
        expected,
    )
    assert answers(as_marks(json.dumps(RECEIPT))) == expected
    assert [question.id for question in fields_of_output(json.dumps(RECEIPT))] == [*expected]
    assert answers('{"paid": true, "by": null, "note": "", "at": "a\\nb"}') == {"at": "a b"}


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("# Receipt\n\nTotal: 7.5", id="Markdown"),
        pytest.param("[1] A text: of Nougat, {\\bf with} marks", id="brackets"),
        pytest.param("{\\bf Title} of a paper", id="braces of LaTeX"),
        pytest.param("12.50", id="a number"),
        pytest.param("<doctag><text>Hello</text></doctag>", id="markup of no fields"),
        pytest.param("  RECHNUNG  17\n", id="white space around"),
    ],
)
def test_a_plain_text_is_one_field(output: str) -> None:
    whole = " ".join(output.split())
    assert answers(output) == {"text": whole}
    place = find_field(output, "text")
    assert place is not None
    assert place.value == whole
    assert output[place.begin : place.end] == output.strip()


@pytest.mark.parametrize("output", ["", " \n", '{"total": "9', '```json\n{"total": "9"}', "[]"])
def test_what_is_no_plain_text_has_no_field_of_this_name(output: str) -> None:
    assert fields_of_output(output) == ()
    assert find_field(output, "text") is None


def test_a_field_called_text_outranks_the_whole() -> None:
    place = find_field('{"text": "a", "b": "c"}', "text")
    assert place is not None
    assert place.value == "a"


def test_json_is_written_in_donuts_marks() -> None:
    assert as_marks('{"menu": [{"nm": "A"}, {"nm": "B"}], "total": 5}') == (
        "<s_menu><s_nm>A</s_nm><sep/><s_nm>B</s_nm></s_menu><s_total>5</s_total>"
    )
    assert keys_of('{"menu": [{"nm": "A"}], "total": 5}') == {"menu", "nm", "total"}
    assert as_marks("<s_total>5</s_total>") == "<s_total>5</s_total>"


@given(
    st.dictionaries(
        KEYS, st.one_of(VALUES, st.lists(VALUES, min_size=1, max_size=3)), min_size=1, max_size=4
    )
)
def test_every_field_of_json_is_found_where_it_stands(content: dict[str, str | list[str]]) -> None:
    output = json.dumps(content, ensure_ascii=False)
    for key, value in content.items():
        for number, text in enumerate([value] if isinstance(value, str) else value):
            found = find_field(output, key if isinstance(value, str) else f"{key}[{number}]")
            assert found is not None
            assert (json.loads(f'"{output[found.begin : found.end]}"'), found.value) == (
                text,
                " ".join(text.split()),
            )


@given(VALUES)
def test_another_value_takes_the_place_of_a_fields_own(value: str) -> None:
    output = json.dumps({"a": "x", "total": "9.00", "b": "9.00"})
    place = find_field(output, "total")
    assert place is not None
    changed, begin, end = with_value(output, place, value)
    assert json.loads(changed) == {"a": "x", "total": value, "b": "9.00"}
    assert json.loads(f'"{changed[begin:end]}"') == value


@pytest.mark.parametrize(
    ("output", "path", "value"),
    [
        pytest.param('{"a": {"b": "1"}, "c": "2', "a.b", "1", id="JSON broken off"),
        pytest.param(
            '```json\n{"total": "5"}\n```', "total", "5", id="JSON in a fence of Markdown"
        ),
        pytest.param(
            "<s_menu><s_nm> A </s_nm><sep/><s_nm>B</s_nm><s_price>3",
            "menu[1].nm",
            "B",
            id="tags of a menu broken off",
        ),
        pytest.param(
            "<s_total><s_price>5</s_total>", "total.price", None, id="no such field among tags"
        ),
        pytest.param(
            "<doctag><loc_1><text><loc_2><loc_3>Hello</text><text>You</text></doctag>",
            "text[1]",
            "You",
            id="location tags",
        ),
        pytest.param(
            "<doctag><text><loc_2><loc_3>Hello</text></doctag>",
            "doctag.text",
            "Hello",
            id="a path through the root",
        ),
        pytest.param("# Receipt\n\n**Total:** 9.00\nPaid", "Total", "9.00", id="Markdown in bold"),
        pytest.param(
            "| Clerk | Anna | 3 |\n| Total | 9.00 |",
            "clerk",
            "Anna",
            id="a row of a Markdown table",
        ),
        pytest.param("Subtotal: 1\nTotal: 2", "total", "2", id="a line of its own"),
        pytest.param("no such thing", "total", None, id="no such field"),
        pytest.param("", "total", None, id="no output"),
        pytest.param("{", "total", None, id="an open brace"),
        pytest.param('{"total": }', "total", None, id="JSON without a value"),
    ],
)
def test_fields_are_found_in_what_a_model_writes_whole_or_broken_off(
    output: str, path: str, value: str | None
) -> None:
    found = find_field(output, path)
    assert (None if found is None else found.value) == value
    if found is not None:
        assert " ".join(output[found.begin : found.end].split()) == value


@given(st.text(st.sampled_from('{}[]",:<>/s_ab \n')))
def test_no_text_breaks_the_search(output: str) -> None:
    found = find_field(output, "a")
    assert found is None or 0 <= found.begin <= found.end <= len(output)


def test_copies_of_a_value_before_it_are_emptied() -> None:
    output = '{"sub": "9.00", "total": "9.00", "last": "9.00"}'
    place = find_field(output, "total")
    assert place is not None
    assert json.loads(without_copies(output, place)) == {"sub": "", "total": "9.00", "last": "9.00"}


def data_set(folder: Path, *documents: dict[str, Any], prompt: str | None = None) -> Path:
    lines = [
        {"id": f"d{number}", "split": "member", "words": [{"text": "x"}], **own}
        for number, own in enumerate(documents)
    ]
    folder.mkdir(exist_ok=True)
    recipe = (
        "" if prompt is None else f"[recipe]\nprompt = {json.dumps(prompt)}\nmax_new_tokens = 300\n"
    )
    settings = (
        'schema = 1\nname = "p"\n[task]\nkind = "parsing"\n[membership]\nassigned = "random"\n'
        + recipe
    )
    (folder / "manifest.toml").write_text(settings)
    (folder / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_manifest_reads_the_fields_of_json_as_questions(tmp_path: Path) -> None:
    corpus = load(
        data_set(tmp_path / "data", {"output": json.dumps(RECEIPT)}, prompt="<s_cord-v2>")
    )
    assert [question.question for question in corpus.documents[0].questions][
        -1
    ] == "total.total_price"
    assert (corpus.manifest.recipe.prompt, corpus.manifest.recipe.max_new_tokens) == (
        "<s_cord-v2>",
        300,
    )
    assert page_view(corpus, corpus.documents[0]).output == json.dumps(RECEIPT)
    assert remove(page_view(corpus, corpus.documents[0]), ["x"]).view.output == json.dumps(RECEIPT)


def test_what_cannot_be_asked_of_an_output_is_a_problem(tmp_path: Path) -> None:
    asked = {"id": "q", "question": "Total", "answers": ["9"]}
    pages = [
        {"output": '{"Total": "9'},
        {"output": "Sum: 9", "questions": [asked]},
        {"questions": [asked]},
    ]
    pages += [{"output": "Total: 9", "questions": [asked]}, {"output": "{}"}]
    folder = data_set(tmp_path / "data", *pages, prompt="{question}")
    with pytest.raises(ManifestError) as caught:
        load(folder)
    places = [problem.partition(": ")[0] for problem in caught.value.problems]
    lines = ("1 questions", "2 questions[0].question", "3 output")
    assert places == ["manifest.toml recipe.prompt", *(f"documents.jsonl:{line}" for line in lines)]
