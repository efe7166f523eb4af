"""The record: it survives the disk, says nothing it should not, and its schema is the committed one."""

import dataclasses
import errno
import json
import os
import stat
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from audit import cards
from audit import record as records
from audit.errors import EngineError, RecordError
from audit.files import write_atomically
from audit.measurements import (
    Bound,
    Count,
    Curve,
    CurvePoint,
    Diagnostic,
    Estimate,
    Histogram,
    Unresolved,
)
from audit.record import AuditRecord, Reason, Result, dumps, loads, read, schema, write

COMMITTED = Path(records.__file__).with_name("record.schema.json")
TEXT_FIELDS = Path(__file__).with_name("record_text_fields.toml")
SECRET = "Gardenia Bakery 9.00"

finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(max_size=8)
counts = st.integers(0, 2**40)
bounds = st.builds(Bound, finite, finite, finite)
units = counts.map(lambda n: n + 1)
nulls = (
    st.none() | finite,
    st.none() | st.sampled_from(["chance", "public model", "held-out", "blind"]),
)
three_bounds = st.lists(bounds, max_size=3).map(tuple)
estimates = st.builds(
    Estimate, names, *[finite] * 3, units, names, units, names, *nulls, finite, three_bounds
)
unresolved = st.builds(Unresolved, names, names, counts, st.none() | counts)
measurements = st.lists(estimates | unresolved, max_size=4).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | finite | names,
    lambda inner: st.lists(inner),
    max_leaves=4,
)
points = st.lists(st.builds(CurvePoint, finite, finite, finite, finite, counts), max_size=3).map(
    tuple
)
reasons = st.builds(
    Reason, st.sampled_from(["model", "data", "missing", "weak", "left out", "error"]), names, names
)
heights = st.dictionaries(names, st.tuples(counts, counts), max_size=2)
parts = (
    st.builds(Count, names, counts, names),
    st.builds(Diagnostic, names, finite, names),
    st.builds(Histogram, names, names, st.tuples(finite, finite, finite), heights),
    st.builds(Curve, names, names, names, st.dictionaries(names, points, max_size=2)),
)
statuses = st.sampled_from(["completed", "inapplicable", "skipped", "failed", "left out"])
parameters = st.dictionaries(names, json_values, max_size=3)
found = [st.lists(part, max_size=2).map(tuple) for part in parts]
results = st.builds(
    Result,
    names,
    statuses,
    st.none() | reasons,
    parameters,
    measurements,
    *found,
    st.none() | names,
    names,
)

ESTIMATE = Estimate(
    "leak",
    0.1,
    0.0,
    0.2,
    9,
    "fields",
    3,
    "made up",
    0.0,
    "held-out",
    bounds=(Bound(0.05, 0.0, 0.2),),
)
HISTOGRAM = Histogram("hamming", "distance", (0.0, 0.5, 1.0), {"member": (1, 2)})
MEASURED = {"measurements": (ESTIMATE, Unresolved("x", "few", 1, 20)), "histograms": (HISTOGRAM,)}
EXAMPLE = tiny.record(
    Result("a", parameters={"n": 128}, power="leak", **MEASURED),
    Result("b", status="inapplicable", reason=Reason("model", "no head")),
    Result("c", status="skipped", reason=Reason("missing", "no reference", "give one")),
    Result("d", status="failed", reason=Reason("error", "KeyError at audit/x.py:1")),
    battery=("a", "b", "c", "d"),
)


@given(st.lists(results, max_size=3))
@settings(deadline=None)
def test_what_was_written_is_read_again(attacks):
    record = dataclasses.replace(tiny.record(*attacks), utility=())
    text = dumps(record)
    again = loads(text)
    assert (again, dumps(again)) == (record, text)


@given(st.lists(results, max_size=2))
@settings(deadline=None, max_examples=25)
def test_every_record_fits_the_schema(attacks):
    VALIDATOR.validate(json.loads(dumps(tiny.record(*attacks))))


VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_the_text_is_plain_json_with_keys_in_a_fixed_order():
    text = dumps(EXAMPLE)
    assert text.endswith("}\n")
    content = json.loads(text)
    assert (list(content), dumps(EXAMPLE)) == (
        [field.name for field in dataclasses.fields(AuditRecord)],
        text,
    )
    assert content["attacks"][0]["measurements"][0]["value"] == 0.1


def test_the_schema_is_the_committed_one():
    expected = json.dumps(schema(), indent=1) + "\n"
    assert COMMITTED.is_file() and COMMITTED.read_text() == expected, (  # noqa: PT018
        "audit/record.schema.json is not what audit/record.py says; if the change is meant, write it again:\n"
        "python -c \"import json, pathlib, audit.record as r; pathlib.Path('audit/record.schema.json')"
        ".write_text(json.dumps(r.schema(), indent=1) + '\\n')\""
    )


def test_the_schema_is_valid_and_closed():
    jsonschema.Draft202012Validator.check_schema(schema())
    for name, definition in {**schema()["$defs"], "AuditRecord": schema()}.items():
        assert definition["additionalProperties"] is False, name


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("field", ["value", "low", "high", "null", "level"])
def test_a_number_that_is_none_cannot_enter_a_record(field, number):
    with pytest.raises(ValidationError, match="finite"):
        dataclasses.replace(ESTIMATE, **{field: number})
    broken = dumps(EXAMPLE).replace(
        f'"{field}": {json.dumps(getattr(ESTIMATE, field))}',
        f'"{field}": {number}'.replace("inf", "Infinity").replace("nan", "NaN"),
        1,
    )
    assert broken != dumps(EXAMPLE)
    with pytest.raises(RecordError, match=rf"attacks.0.measurements.0.estimate.{field}: .*finite"):
        loads(broken)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_parameter_that_is_no_number_is_not_written_as_null(number):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps(tiny.record(Result("a", parameters={"temperature": number}, measurements=())))


def test_other_numbers_must_be_finite_too():
    nan = float("nan")
    for make in (
        lambda: Bound(0.05, nan, 0.1),
        lambda: Diagnostic("x", nan, "meaning"),
        lambda: Histogram("x", "y", (0.0, nan), {}),
        lambda: dataclasses.replace(EXAMPLE, share=nan),
    ):
        with pytest.raises(ValidationError, match="finite"):
            make()


def put(*path: str | int) -> Callable[[dict[str, Any], Any], None]:
    def change(content: dict[str, Any], value: Any) -> None:
        inner: Any = content
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = value

    return change


FIRST = ("attacks", 0, "measurements", 0)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        pytest.param(
            (*FIRST, "value"),
            SECRET,
            "attacks.0.measurements.0.estimate.value",
            id="a value in words",
        ),
        pytest.param(
            (*FIRST, "n"), SECRET, "attacks.0.measurements.0.estimate.n", id="a count in words"
        ),
        pytest.param(
            (*FIRST, "n"), "9", "attacks.0.measurements.0.estimate.n", id="a count as text"
        ),
        pytest.param(
            (*FIRST, "n"), True, "attacks.0.measurements.0.estimate.n", id="a count that is a truth"
        ),
        pytest.param(
            (*FIRST, "n"), 9.5, "attacks.0.measurements.0.estimate.n", id="a count with a fraction"
        ),
        pytest.param(
            (*FIRST, "value"),
            "0.1",
            "attacks.0.measurements.0.estimate.value",
            id="a value as text",
        ),
        pytest.param(
            (*FIRST, "kind"),
            SECRET,
            "attacks.0.measurements.0",
            id="an unknown kind of measurement",
        ),
        pytest.param(
            (*FIRST, "null_kind"),
            SECRET,
            "attacks.0.measurements.0.estimate.null_kind",
            id="an unknown kind of null value",
        ),
        pytest.param(
            (*FIRST, "text"),
            SECRET,
            "attacks.0.measurements.0.estimate.text",
            id="an unknown key of an estimate",
        ),
        pytest.param(("attacks", 0, "status"), SECRET, "attacks.0.status", id="an unknown status"),
        pytest.param(
            ("attacks", 1, "extra"), SECRET, "attacks.1.extra", id="an unknown key of an attack"
        ),
        pytest.param(
            ("attacks", 3, "message"),
            SECRET,
            "attacks.3.message",
            id="an unknown key of a failed attack",
        ),
        pytest.param(("target", "name"), (SECRET,), "target.name", id="a list for a name"),
        pytest.param(
            ("corpus", "documents", "member"),
            SECRET,
            "corpus.documents.member",
            id="a count of documents in words",
        ),
        pytest.param(("schema_version",), 1, "schema_version", id="a schema that is a number"),
        pytest.param(("schema_version",), SECRET, "schema_version", id="an unknown schema"),
        pytest.param(("note",), SECRET, "note", id="an unknown key of the record"),
        pytest.param(("attacks",), SECRET, "attacks", id="attacks that are no list"),
        pytest.param(("timing",), None, "timing", id="no timing"),
    ],
)
def test_an_error_names_the_place_and_never_the_value(path, value, place):
    content = json.loads(dumps(EXAMPLE))
    put(*path)(content, value)
    with pytest.raises(RecordError) as raised:
        loads(json.dumps(content), "r.json")
    assert [problem.split(": ")[0] for problem in raised.value.problems] == [f"r.json {place}"]
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__  # pydantic's own message is not printed either
    assert raised.value.exit_code == 2


def test_every_problem_is_reported():
    content = json.loads(dumps(EXAMPLE))
    del content["seed"], content["budget"]
    content["target"]["parameters"] = "many"
    with pytest.raises(RecordError) as raised:
        loads(json.dumps(content))
    assert len(raised.value.problems) == 3


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        pytest.param(
            "0.7.0",
            "docaudit 0.7.0 wrote it: gate it with that version, or scan again",
            id="a version",
        ),
        pytest.param(
            "0.7.0; rm -rf",
            "give a record.json that this version of docaudit wrote",
            id="more than a version",
        ),
        pytest.param(
            None, "give a record.json that this version of docaudit wrote", id="no version"
        ),
    ],
)
def test_a_record_of_another_version_that_cannot_be_read_names_the_version(version, hint):
    content = json.loads(dumps(EXAMPLE)) | {"of_old": 1}
    content["environment"]["docaudit"] = version
    with pytest.raises(RecordError) as refused:
        loads(json.dumps(content))
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", b"\xff\xfe", b"\x00", "[" * 100_000, '{"a": 1}']
)
def test_what_is_no_record_is_refused(text):
    with pytest.raises(RecordError) as raised:
        loads(text)
    assert all("\n" not in problem for problem in raised.value.problems)


def test_a_record_is_read_from_its_file_or_its_folder(tmp_path):
    write(EXAMPLE, tmp_path / "record.json")
    assert read(tmp_path) == read(tmp_path / "record.json") == EXAMPLE
    for missing in (tmp_path / "none.json", tmp_path / "none"):
        with pytest.raises(RecordError, match="No such file"):
            read(missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match=r"empty/record\.json: No such file"):
        read(tmp_path / "empty")


def test_a_written_file_is_whole_and_of_the_mode_asked_for(tmp_path):
    for mode in (0o644, 0o600):
        write_atomically(tmp_path / "file", b"content", mode)
        assert (tmp_path / "file").read_bytes() == b"content"
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    path = tmp_path / "record.json"
    write(EXAMPLE, path)
    before = path.read_bytes()

    def fails(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, fails)
    with pytest.raises(EngineError, match=r"record\.json: No space left on device") as raised:
        write(dataclasses.replace(EXAMPLE, seed=7), path)
    assert (raised.value.exit_code, path.read_bytes()) == (1, before)
    assert [item.name for item in tmp_path.iterdir()] == ["record.json"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(EngineError, match="No such file"):
        write(EXAMPLE, tmp_path / "missing" / "record.json")


def text_fields(kind: Any, seen: set[Any]) -> Iterator[str]:
    """`Class.field` of every field below `kind` that can hold text."""
    if kind in seen:
        return
    seen.add(kind)
    for name, hint in get_type_hints(kind).items():
        parts = set(every_type(hint))
        if parts & {str, Any} or any(isinstance(part, str) for part in parts):
            yield f"{kind.__name__}.{name}"
        for part in parts:
            if dataclasses.is_dataclass(part):
                yield from text_fields(part, seen)


def every_type(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from every_type(part) if not isinstance(part, str) else [part]


def test_no_field_is_for_text_of_documents():
    content = tomllib.loads(TEXT_FIELDS.read_text(encoding="utf-8"))
    allowed = {f"{kind}.{field}" for kind, fields in content.items() for field in fields}
    assert set(text_fields(AuditRecord, set())) == allowed, f"see the comment in {TEXT_FIELDS.name}"


def test_an_older_record_without_policy_sheet_and_file_hashes_is_still_read():
    text = json.loads(dumps(EXAMPLE))
    del text["policy"], text["audit"], text["target"]["files"]
    again = loads(json.dumps(text))
    assert (again.policy, again.audit, again.target.files) == (None, cards.AuditSheet(), {})
