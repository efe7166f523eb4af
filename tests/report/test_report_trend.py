"""Several checkpoints side by side: what the page says, what it refuses, and the command that draws it."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import example_records as examples
import printed
import pytest
import tiny
from example_records import Stops
from pdf_claims import failures
from pypdf import PdfReader
from shown_pages import HOSTILE, Seen, check_text
from typer.testing import CliRunner

from audit import attacks
from audit import policy as policies
from audit import record as records
from audit.attacks import TEXTS
from audit.cli import app
from audit.errors import EngineError, RecordError
from audit.measurements import Unresolved
from audit.policy import Limit, Verdict
from audit.policy.checks import settle
from audit.report import svg, trend
from audit.report.checkpoints import Stop, answer, axis_positions, check_comparable, weaknesses
from audit.report.files import pdf
from audit.report.labels import LABELS
from audit.report.numbers import NBSP
from audit.report.trend import panels_of

pytestmark = pytest.mark.slow

GROWING = (0.0, 0.0, 0.03, 0.1, 0.4, 0.6)
METRIC = "“Values restored because of training: in one document only”"


def stops(entries: Stops) -> list[Stop]:
    return [Stop(*entry) for entry in entries]


def text_of(entries: Stops, axis: str = "epoch") -> str:
    return Seen(trend.html(stops(entries), axis)).text


def judged(*overalls: str) -> list[tuple[float, str, Verdict | None]]:
    codes = {"passed": 0, "waived": 0, "violated": 10, "undecided": 11, "warned": 0}
    made = {
        name: Verdict(
            "default", name.replace("warned", "undecided"), (), code, "", settle(tiny.record(), ())
        )
        for name, code in codes.items()
    }  # type: ignore[arg-type]
    return [
        (4.0 * place, f"checkpoint-{place}", made.get(name))
        for place, name in enumerate(overalls, start=1)
    ]


@pytest.mark.parametrize(
    ("overalls", "headline", "outcome"),
    [
        (
            ["passed", "passed", "violated"],
            "The last checkpoint that passes is checkpoint-2 (epoch 8).",
            "passed",
        ),
        (
            ["violated", "passed", "waived", "undecided"],
            "The last checkpoint that passes is checkpoint-3 (epoch 12), where exceeded limits "
            "are waived.",
            "waived",
        ),
        (["undecided", "violated", "undecided"], "None of 3 checkpoints passes.", "violated"),
        # A policy that lets undecided ones through with a warning does not make them pass.
        (["warned", "undecided"], "None of 2 checkpoints passes.", "undecided"),
        (["violated"], "The checkpoint does not pass.", "violated"),
        (["none", "none"], "None of 2 checkpoints passes.", "undecided"),
    ],
)
def test_the_answer_is_the_last_checkpoint_that_passes(
    overalls: tuple[str, ...], headline: str, outcome: str
) -> None:
    found = answer("epoch", judged(*overalls))
    assert (found.headline, found.outcome) == (headline, outcome)


def test_the_answer_lists_every_checkpoint_by_its_verdict() -> None:
    overalls = ("passed", "none", "undecided", "passed", "violated")
    said = "Met: step 4, 16; undecided: step 12; exceeded: step 20; not audited: step 8."
    assert answer("training step", judged(*overalls)).details == said


def test_what_no_checkpoint_has_and_limits_that_apply_to_none_are_left_out() -> None:
    entries = stops(examples.training(0.0, 0.6))
    policy = policies.load("default")
    entries = [
        replace(stop, verdict=policies.evaluate(stop.record, policy, policies.today()))
        for stop in entries
    ]
    outcomes = {one.limit: one.outcome for one in entries[0].verdict.decisions}
    absent = [
        limit for limit, outcome in outcomes.items() if outcome in ("not run", "inapplicable")
    ]
    assert len(absent) > 5
    text = Seen(trend.html(entries, "epoch")).text
    # Two attacks count values, and documents, under one name.
    labels = {limit: attacks.text_of(limit.attack).label(limit.metric) for limit in outcomes}
    shown = {label for limit, label in labels.items() if limit not in absent}
    for limit in absent:
        assert labels[limit] in shown or labels[limit] not in text
    assert text.count("is confirmed over its limit") == len(outcomes) - len(absent)
    assert "not measured" not in text


def test_no_number_is_drawn_twice_and_a_limit_is_drawn_where_its_number_is() -> None:
    entries = stops(examples.training(0.0, 0.6))
    limits = [
        Limit("reconstruction", "pr.member.attack", "", max=0.3),
        entries[0].verdict.decisions[0].limit,
    ]
    reports = {"reconstruction": TEXTS["reconstruction"]}
    panels = panels_of(entries, "epoch", reports, limits, ["masked_token_accuracy"])
    assert [(panel.title, panel.limit) for panel in panels if panel.limit is not None] == [
        ("One attempt: restored word for word\n(PR)", 0.3),
        ("Values restored because of training:\nin one document only", 0.05),
    ]
    assert len(panels) == len({panel.title for panel in panels}) == 4


def test_many_checkpoints_stay_legible(tmp_path: Path) -> None:
    page = trend.html(stops(examples.training(*[0.01 * number for number in range(13)])), "epoch")
    heads = [
        row.count("<th")
        for row in re.findall(r"<thead>\s*<tr>(.*?)</tr>", page.partition('id="table"')[2], re.S)
    ]
    assert heads == [6, 6, 4]
    (tmp_path / "trend.pdf").write_bytes(pdf(page))
    sizes: set[float] = set()

    def note(
        text: str, cm: Sequence[float], tm: Sequence[float], font: object, size: float
    ) -> None:
        if text.strip():
            sizes.add(round(size * abs(cm[0] * tm[0]), 2))

    for sheet in PdfReader(tmp_path / "trend.pdf").pages:
        sheet.extract_text(visitor_text=note)
    assert min(sizes) >= 9
    # Those in figures too: of 9 points where the figure is as wide as it was made, and it is drawn
    # wider.
    assert svg.FONT_SIZE >= 9
    assert {float(width) for width in re.findall(r'<svg [^>]*width="([\d.]+)pt"', page)} == {
        72 * svg.WIDTH
    }
    assert 72 * svg.WIDTH <= (210 - 2 * 16) / 25.4 * 72


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
        return dataclasses.replace(
            verdict, decisions=(dataclasses.replace(first, outcome=outcome), *rest)
        )  # type: ignore[arg-type]

    return [
        (x, label, audited, put(verdict, outcome))
        for (x, label, audited, verdict), outcome in zip(entries, wanted, strict=True)
    ]


@pytest.mark.parametrize(
    ("wanted_outcomes", "words"),
    [
        (["passed", "undecided", "not run"], "none of 3 checkpoints."),
        (["passed", "violated", "waived"], "2 of 3 checkpoints (epoch 8, 12)."),
        (["violated", "passed", "violated"], "2 of 3 checkpoints (epoch 4, 12)."),
    ],
)
def test_the_sentence_on_a_limit_claims_what_the_verdicts_say_and_no_more(
    wanted_outcomes: tuple[str, ...], words: str
) -> None:
    entries = stops(outcomes(*wanted_outcomes))
    sentence = trend.limit_sentence(
        entries[0].verdict.decisions[0].limit, TEXTS["reconstruction"], entries, "epoch"
    )
    assert (
        sentence.replace(NBSP, " ")
        == f"{METRIC} is confirmed over its limit of 5 points at {words}"
    )


def gap() -> Stops:
    """A checkpoint whose attack broke down, and whose usefulness could not be measured."""
    missing = Unresolved("masked_token_accuracy", "no held-out document to measure on", 0)
    return changed(
        examples.training(0.0, 0.2, 0.4),
        1,
        attacks=examples.failed()[0].attacks,
        utility=(missing,),
    )


def mixed() -> Stops:
    """Checkpoints of which one was computed in another number format, with another reference."""
    entries = examples.training(0.0, 0.4)
    (result,) = entries[1][2].attacks
    (reference,) = entries[1][2].references
    other = replace(reference, card=replace(reference.card, sha256="a" * 64))
    return changed(entries, 1, attacks=(replace(result, dtype="bfloat16"),), references=(other,))


TRENDS = {
    "growing": examples.training(*GROWING),
    "gap": gap(),
    "mixed": mixed(),
    "one": examples.training(0.6),
    "nothing": changed(examples.training(0.6), 0, attacks=examples.failed()[0].attacks, utility=()),
}


@pytest.mark.parametrize("name", TRENDS)
def test_the_page_says_what_it_said(name: str) -> None:
    check_text(f"trend-{name}", trend.html(stops(TRENDS[name]), "epoch"))


def test_what_is_not_alike_is_a_warning() -> None:
    (alike, both) = (
        weaknesses(stops(entries)) for entries in (examples.training(0.0, 0.4), mixed())
    )
    assert (alike, {*both}) == ([], {*LABELS["weaknesses"].values()})


def test_the_files_hold_every_checkpoint_with_its_verdict_and_numbers_in_order(
    tmp_path: Path,
) -> None:
    entries = examples.training(*GROWING)
    assert trend.write(entries[::-1], "epoch", tmp_path) == []
    page = (tmp_path / "trend.html").read_text()
    assert page == trend.html(stops(entries), "epoch"), "in the order of the axis"
    assert failures(tmp_path / "trend.pdf") == []
    first, second, *_ = printed.texts(tmp_path / "trend.pdf")
    assert "The last checkpoint that passes is checkpoint-150 (epoch 12)." in first
    assert "3 of 6 checkpoints (epoch 16, 20, 24)" in first
    assert "Figure 1." in second


def test_the_same_records_give_the_same_files_and_nothing_is_loaded(tmp_path: Path) -> None:
    kept = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
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
    entries = changed(
        entries, 2, attacks=(dataclasses.replace(result, parameters={"n_candidates": 64}),)
    )
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


def test_another_policy_is_refused(tmp_path: Path) -> None:
    entries = examples.training(0.0, 0.4)
    x, label, audited, verdict = entries[1]
    fewer = dataclasses.replace(verdict, decisions=verdict.decisions[:1])
    with pytest.raises(RecordError, match="the policy"):
        trend.write([entries[0], (x, label, audited, fewer)], "epoch", tmp_path)


def test_hostile_names_are_escaped() -> None:
    ((x, _, audited, verdict),) = examples.training(0.6)
    corpus = dataclasses.replace(audited.corpus, name=HOSTILE)
    page = trend.html(
        [Stop(x, HOSTILE, dataclasses.replace(audited, corpus=corpus), verdict)], HOSTILE
    )
    assert "<script" not in page
    assert HOSTILE in Seen(page).text


def test_no_older_page_stays_beside_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        return [
            dataclasses.replace(item, target=dataclasses.replace(item.target, **fields))
            for item in found
        ]  # type: ignore[arg-type]

    assert axis_positions(found) == ("epoch", [4.0, 8.0, 12.0])
    assert axis_positions(put(epoch=None)) == ("training step", [50.0, 100.0, 150.0])
    assert axis_positions([*put(epoch=None)[:2], found[2]])[0] == "training step"
    assert axis_positions(put(epoch=3.0, step=None)) == (
        "record, in the order given",
        [1.0, 2.0, 3.0],
    )


def test_several_records_on_the_command_line_draw_a_trend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.report.files.pdf", lambda *_: b"%PDF-1.7")
    paths = []
    for _, label, audited, _ in examples.training(0.0, 0.6):
        (tmp_path / label).mkdir()
        records.write(audited, tmp_path / label / "record.json")
        paths.append(str(tmp_path / label))
    runner = CliRunner()
    out = tmp_path / "out"
    done = runner.invoke(app, ["report", *paths, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "checkpoint-100" in done.output
    assert sorted(item.name for item in out.iterdir()) == ["trend.html", "trend.pdf"]
    assert runner.invoke(app, ["report", *paths]).exit_code == 2
    assert runner.invoke(app, ["report", *paths, "--out", str(out), "--reveal"]).exit_code == 2
    other = dataclasses.replace(examples.violated()[0], seed=1)
    records.write(other, tmp_path / "other.json")
    refused = runner.invoke(
        app, ["report", *paths, str(tmp_path / "other.json"), "--out", str(out)]
    )
    assert refused.exit_code == 2
    assert "the seed" in refused.output
