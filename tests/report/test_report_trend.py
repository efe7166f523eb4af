"""Several checkpoints side by side: what the page says, what it refuses, and the command that draws it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import example_records as examples
import pytest
from example_records import Stops
from pdf_claims import failures
from pypdf import PdfReader
from test_report_html import HOSTILE, Seen
from typer.testing import CliRunner

from audit import record as records
from audit.attacks.reconstruction import Reconstruction
from audit.cli import app
from audit.errors import EngineError, RecordError
from audit.measurements import Unresolved
from audit.policy import Verdict
from audit.report import remembered, trend
from audit.report.numbers import NBSP
from audit.report.sweep_page import OTHER_FORMAT, OTHER_REFERENCE, Stop, axis_positions, check_comparable, weaknesses

pytestmark = pytest.mark.slow

GROWING = (0.0, 0.0, 0.03, 0.1, 0.4, 0.6)
METRIC = "“Recovered because of training, word for word: values of a single document”"


def stops(entries: Stops) -> list[Stop]:
    return [Stop(*entry) for entry in entries]


def text_of(entries: Stops, axis: str = "epoch") -> str:
    return Seen(trend.html(stops(entries), axis)).text


def changed(entries: Stops, place: int, **fields: object) -> Stops:
    """The same checkpoints with another record at one place."""
    x, label, audited, verdict = entries[place]
    other = dataclasses.replace(audited, **fields)  # type: ignore[arg-type]
    return [*entries[:place], (x, label, other, verdict), *entries[place + 1 :]]


def outcomes(*wanted: str) -> Stops:
    """Checkpoints whose first limit has these outcomes."""
    entries = examples.training(*[0.0] * len(wanted))

    def put(verdict: Verdict, outcome: str) -> Verdict:
        first, *rest = verdict.decisions
        return dataclasses.replace(verdict, decisions=(dataclasses.replace(first, outcome=outcome), *rest))  # type: ignore[arg-type]

    return [
        (x, label, audited, put(verdict, outcome))
        for (x, label, audited, verdict), outcome in zip(entries, wanted, strict=True)
    ]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (("passed", "passed", "passed"), "at none of 3 checkpoints; it is met at all 3."),
        (
            ("passed", "undecided", "passed"),
            "at none of 3 checkpoints; it is met at 2 and undecided or not checked at 1.",
        ),
        (("undecided", "not run", "undecided"), "at none of 3 checkpoints; it is undecided or not checked."),
        (("violated", "violated", "violated"), "at every checkpoint, from epoch 4 on (3 of 3 checkpoints)."),
        (("passed", "violated", "waived"), "from epoch 8 on (2 of 3 checkpoints); before that, it is met."),
        (
            ("passed", "undecided", "violated"),
            "at the last checkpoint, epoch 12 (1 of 3 checkpoints); before that, it is met at 1 and undecided",
        ),
        (("violated", "passed", "violated"), "at 2 of 3 checkpoints (epoch 4, 12); elsewhere, it is met."),
        (("violated", "undecided", "undecided"), "at 1 of 3 checkpoints (epoch 4); elsewhere, it is undecided"),
    ],
)
def test_the_sentence_on_a_limit_claims_what_the_verdicts_say_and_no_more(wanted: tuple[str, ...], said: str) -> None:
    entries = stops(outcomes(*wanted))
    sentence = trend.limit_sentence(entries[0].verdict.decisions[0].limit, Reconstruction.report, entries, "epoch")
    assert sentence.replace(NBSP, " ").startswith(f"{METRIC} is confirmed over its limit of 5 points {said}")


def test_the_page_holds_every_checkpoint_with_its_verdict_and_numbers_in_order(tmp_path: Path) -> None:
    entries = examples.training(*GROWING)
    assert trend.write(entries[::-1], "epoch", tmp_path) == []
    text = Seen((tmp_path / "trend.html").read_text()).text
    assert f"{METRIC} is confirmed over its limit of 5 points from epoch 16 on (3 of 6 checkpoints)" in text
    assert (
        "“Hidden words guessed correctly” is highest at epoch 16, 60 % (59 to 61), where the verdict is violated."
        in text.replace("59 to 61 %", "59 to 61")
    )
    table = text.partition("The checkpoints in numbers")[2]
    places_in_table = [table.index(f"checkpoint-{50 * number}") for number in range(1, 7)]
    assert places_in_table == sorted(places_in_table)
    last = table[places_in_table[-1] :]
    # Recovered 248 of 400 word for word, and the excess of the policy's first limit.
    assert "violated" in last
    assert "62 % 57 to 67" in last
    assert "60 points 57 to 63" in last
    assert failures(tmp_path / "trend.pdf") == []
    first, *_ = [" ".join(page.extract_text().split()) for page in PdfReader(tmp_path / "trend.pdf").pages]
    assert "from epoch 16 on" in first
    assert "Figure 1." in first


def test_the_same_records_give_the_same_files_and_nothing_is_loaded(tmp_path: Path) -> None:
    kept = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        remembered.forget()
        trend.write(examples.training(0.0, 0.4), "epoch", tmp_path / name)
        kept.append([(tmp_path / name / file).read_bytes() for file in ("trend.html", "trend.pdf")])
    assert kept[0] == kept[1]
    seen = Seen(kept[0][0].decode())
    assert not {"script", "link", "iframe", "img", "object", "base"} & set(seen.tags)
    assert "is private" not in seen.text.lower()
    assert "is safe" not in seen.text.lower()


def test_records_that_differ_in_more_than_training_are_refused_with_every_difference() -> None:
    entries = examples.training(0.0, 0.2, 0.4)
    corpus = dataclasses.replace(entries[1][2].corpus, sha256="f" * 64)
    entries = changed(changed(entries, 1, corpus=corpus, seed=7), 2, budget="quick")
    (result,) = entries[2][2].attacks
    entries = changed(entries, 2, attacks=(dataclasses.replace(result, parameters={"n_candidates": 64}),))
    with pytest.raises(RecordError) as refused:
        check_comparable(stops(entries))
    assert refused.value.problems == (
        "checkpoint-100 and checkpoint-50 differ in the data set",
        "checkpoint-100 and checkpoint-50 differ in the seed",
        "checkpoint-150 and checkpoint-50 differ in the budget",
        "checkpoint-150 and checkpoint-50 differ in the parameters of reconstruction",
    )
    with pytest.raises(RecordError, match="no record"):
        check_comparable([])


def test_another_policy_is_refused_and_another_reference_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.report.files.pdf", lambda *_: b"%PDF-1.7")
    entries = examples.training(0.0, 0.4)
    x, label, audited, verdict = entries[1]
    fewer = dataclasses.replace(verdict, decisions=verdict.decisions[:1])
    with pytest.raises(RecordError, match="the policy"):
        trend.write([entries[0], (x, label, audited, fewer)], "epoch", tmp_path)
    (reference,) = audited.references
    other = dataclasses.replace(reference, card=dataclasses.replace(reference.card, sha256="a" * 64))
    assert trend.write(changed(entries, 1, references=(other,)), "epoch", tmp_path) == [OTHER_REFERENCE]
    assert OTHER_REFERENCE in Seen((tmp_path / "trend.html").read_text()).text


def test_another_number_format_is_a_warning() -> None:
    entries = examples.training(0.0, 0.4)
    (result,) = entries[1][2].attacks
    rounded = dataclasses.replace(result, dtype="bfloat16")  # type: ignore[arg-type]
    mixed = changed(entries, 1, attacks=(rounded,))
    assert weaknesses(stops(entries)) == []
    assert weaknesses(stops(mixed)) == [OTHER_FORMAT]
    assert weaknesses(stops(changed(mixed, 0, attacks=(rounded,)))) == []
    assert OTHER_FORMAT in text_of(mixed)


def test_a_checkpoint_without_a_result_is_a_gap_and_not_a_zero() -> None:
    entries = examples.training(0.0, 0.2, 0.4)
    failed = examples.failed()[0].attacks
    text = text_of(changed(entries, 1, attacks=failed))
    row = text.partition("checkpoint-100")[2].partition("checkpoint-150")[0]
    assert "not measured" in row
    assert "0 %" not in row.replace("60 %", "")
    gap = Unresolved("masked_token_accuracy", "no held-out document to measure on", 0)
    assert "Not resolved: no held-out document to measure on (n = 0)" in text_of(changed(entries, 1, utility=(gap,)))


def test_one_checkpoint_is_a_trend_of_one_and_one_where_nothing_ran_says_so() -> None:
    assert "at every checkpoint, from epoch 4 on (1 of 1 checkpoints)" in text_of(examples.training(0.6))
    (entry,) = examples.training(0.6)
    nothing = changed([entry], 0, attacks=examples.failed()[0].attacks, utility=())
    assert "there is nothing to draw" in text_of(nothing)


def test_hostile_names_are_escaped() -> None:
    ((x, _, audited, verdict),) = examples.training(0.6)
    corpus = dataclasses.replace(audited.corpus, name=HOSTILE)
    page = trend.html([Stop(x, HOSTILE, dataclasses.replace(audited, corpus=corpus), verdict)], HOSTILE)
    assert "<script" not in page
    assert HOSTILE in Seen(page).text


def test_no_older_page_stays_beside_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise EngineError(f"{path}: No space left on device")

    monkeypatch.setattr("audit.report.files.write_atomically", full)
    for name in ("trend.html", "trend.pdf"):
        (tmp_path / name).write_bytes(b"another run")
    with pytest.raises(EngineError, match="No space left"):
        trend.write(examples.training(0.0, 0.4), "epoch", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_axis_is_the_epoch_else_the_step_else_the_order() -> None:
    found = [audited for _, _, audited, _ in examples.training(0.0, 0.2, 0.4)]

    def put(**fields: object) -> list[records.AuditRecord]:
        return [dataclasses.replace(item, target=dataclasses.replace(item.target, **fields)) for item in found]  # type: ignore[arg-type]

    assert axis_positions(found) == ("epoch", [4.0, 8.0, 12.0])
    assert axis_positions(put(epoch=None)) == ("training step", [50.0, 100.0, 150.0])
    assert axis_positions([*put(epoch=None)[:2], found[2]])[0] == "training step"
    assert axis_positions(put(epoch=3.0, step=None)) == ("record, in the order given", [1.0, 2.0, 3.0])


def test_several_records_on_the_command_line_draw_a_trend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.report.files.pdf", lambda *_: b"%PDF-1.7")
    paths = []
    for _, label, audited, _ in examples.training(0.0, 0.6):
        (tmp_path / label).mkdir()
        records.write(audited, tmp_path / label / "record.json")
        paths.append(str(tmp_path / label))
    runner, out = CliRunner(), tmp_path / "out"
    done = runner.invoke(app, ["report", *paths, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "checkpoint-100" in done.output
    assert sorted(item.name for item in out.iterdir()) == ["trend.html", "trend.pdf"]
    assert runner.invoke(app, ["report", *paths]).exit_code == 2
    assert runner.invoke(app, ["report", *paths, "--out", str(out), "--reveal"]).exit_code == 2
    other = dataclasses.replace(examples.violated()[0], seed=1)
    records.write(other, tmp_path / "other.json")
    refused = runner.invoke(app, ["report", *paths, str(tmp_path / "other.json"), "--out", str(out)])
    assert refused.exit_code == 2
    assert "the seed" in refused.output
