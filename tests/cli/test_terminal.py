"""What a person sees: at 60 to 120 columns no name is broken, and the answer stands under the verdict."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import example_records
import judged
import pytest
import typer
from shown_pages import decision

from audit.attacks import TEXTS
from audit.cli import app, console
from audit.defenses.interface import DEFENSES
from audit.errors import UsageError
from audit.report.action import first_action
from audit.report.commands import Called
from audit.report.facts.build import facts_of

LIMITS = [(name, metric) for name, text in TEXTS.items() for metric in text.names]
NAMED = [text.label(metric) for text in TEXTS.values() for metric in text.names]


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def broken(names: list[str], text: str) -> list[str]:
    """The names that do not stand in the text as words of their own."""
    words = {*re.split(r"[\s,;:()]+", text)}
    return [name for name in names if name not in words]


@pytest.mark.parametrize("width", range(60, 121, 12))
def test_no_name_is_broken_in_any_table(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    names = [*DEFENSES, *TEXTS, "docaudit-report/evidence/recovered.jsonl", "--no-model"]
    rows = [
        (name, metric, label, "0.480 [0.396, 0.562]", 390)
        for name in names
        for _, metric in LIMITS[:3]
        for label in NAMED[:3]
    ]
    console.show_table("A table", ("name", "metric", "a sentence", "difference", "n"), rows)
    shown = capsys.readouterr().out
    assert broken([*names, *(metric for _, metric in LIMITS[:3])], shown) == []
    assert max(map(len, lines_of(shown))) <= width


def test_columns_become_lines_where_they_would_break_a_name(monkeypatch, capsys):
    columns = ("attack", "metric")
    rows = [("provider_membership", "balanced_accuracy")]
    for width, fits in {"38": True, "36": False}.items():
        monkeypatch.setenv("COLUMNS", width)
        assert console.show_table("", columns, rows) is fits
    table = "attack               metric\nprovider_membership  balanced_accuracy\n"
    lines = "provider_membership\n  metric: balanced_accuracy\n"
    assert "\n".join(lines_of(capsys.readouterr().out)) == f"{table}\n{lines}"


@pytest.mark.parametrize("case", ["violated", "passed", "wide", "waived"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_last_lines_hold_the_limits_the_fix_and_the_verdict(
    case, width, monkeypatch, capsys, tmp_path
):
    monkeypatch.setenv("COLUMNS", str(width))
    (tmp_path / "report.pdf").touch()
    monkeypatch.chdir(tmp_path)
    record, verdict, _ = example_records.CASES[case]()
    for verbose in (False, True):
        console.show_verdict(verdict, Path(), record, verbose=verbose)
        lines = lines_of(capsys.readouterr().out)
        above, _, last = " ".join(" ".join(lines[-11:]).split()).rpartition(" Report: report.pdf ")
        assert re.fullmatch(rf"{verdict.stamp} .*exit code {verdict.exit_code}\)", last), (
            "the verdict is the last line"
        )
        step = first_action(facts_of(record, verdict, called=Called({"SCAN_DIR": "."})))
        assert step.text in above
        for one in verdict.decisions:
            if one.outcome == verdict.overall != "passed" and width >= 80:
                shown = rf" {100 * one.measured.value:.2g}(\.0)? points( \([^)]*\))? {100 * one.limit.max:g} "
                assert re.search(shown, above)


def test_limits_that_do_not_fit_are_counted_and_the_verbose_form_names_them(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    record, verdict, _ = example_records.violated()
    many = replace(
        verdict, decisions=verdict.decisions * 6, counts=replace(verdict.counts, violated=12, met=3)
    )
    for verbose in (False, True):
        console.show_verdict(many, None, record, verbose=verbose)
        shown = capsys.readouterr().out
        assert re.search(r"\n(-v shows|Also) \d+ more \w+, 3 met\.\n", shown)
        assert ("[excess_hamming.unique]" in shown) == verbose, "names as in record.json are for -v"
    assert len(shown.rpartition("measured ")[2].splitlines()) <= 11


@pytest.mark.parametrize("width", [40, 60, 80])
def test_an_option_stays_on_the_line_of_its_value(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    command = (
        "docaudit scan a-model some-data --policy default --no-model --seed 0 --out a/folder-2"
    )
    console.show_commands("", [command])
    shown = capsys.readouterr().out
    assert re.sub(r" \\\n +", " ", shown).strip() == command
    for line in shown.splitlines():
        assert not re.search(r"--(policy|seed|out) \\$", line)


def test_a_folded_command_can_be_copied_into_a_shell(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    record, verdict, _ = example_records.violated()
    console.show_verdict(verdict, None, record)
    shown = capsys.readouterr().out
    assert f"\n  {first_action(facts_of(record, verdict)).command}\n" in re.sub(
        r" \\\n +", " ", shown
    )
    assert all(len(line) <= 60 for line in lines_of(shown))


def test_the_first_command_holds_the_paths_of_the_machine_and_can_be_pasted(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    record, verdict, _ = example_records.violated()
    called = Called({"SCAN_DIR": "/tmp/my scans/reader"}, references=[("pretrained", "base")])
    step = first_action(facts_of(record, verdict, called=called))
    words = shlex.split(step.command)
    assert words == ["docaudit", "fix", "/tmp/my scans/reader"]
    assert "put in" not in step.text
    console.show_verdict(verdict, None, record, called=called)
    assert "docaudit fix '/tmp/my scans/reader'" in capsys.readouterr().out
    assert first_action(facts_of(record, verdict)).text.endswith(
        " (put in for SCAN_DIR the folder of the scan)."
    )
    assert "my scans" not in decision(example_records.violated()), "paths stay on the terminal"
    # The command line takes what is printed: nothing is left that stands for something else.
    parsed = typer.main.get_command(app).commands["fix"].make_context("fix", words[2:])
    assert parsed.params["scan_dir"] == Path("/tmp/my scans/reader")
    assert not re.search(r"\b[A-Z]{3,}_?[A-Z]*\b", step.command)


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("CI", "true"), ("TERM", "dumb"), ("pipe", "")]
)
def test_a_log_has_no_colours(name, value, monkeypatch, capsys):
    for other in ("NO_COLOR", "CI", "FORCE_COLOR"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: name != "pipe", raising=False)
    if name.isupper():
        monkeypatch.setenv(name, value)
    record, verdict, _ = example_records.violated()
    console.show_verdict(verdict, None, record)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert not re.search("[\u2500-\u259f]", shown)


def test_a_name_between_colons_stays_as_it_is(capsys):
    console.show_error(UsageError("dp:-1: epsilon is a positive number", "see :x: instead"))
    printed = capsys.readouterr().err
    assert "dp:-1: epsilon" in printed
    assert ":x: instead" in printed


@pytest.mark.parametrize("verbose", [False, True])
def test_swapped_sides_are_never_shown_as_an_area_far_under_its_limit(
    verbose: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    number = replace(judged.area("auc", 0.17, 0.03), unit="documents")
    limit = judged.limit("auc", "membership", max=0.65)
    record, verdict = judged.judged([judged.completed(number, attack="membership")], limit)
    assert verdict.overall == "violated"
    console.show_verdict(verdict, None, record, verbose=verbose)
    shown = " ".join(capsys.readouterr().out.split())
    assert "AUC 0.17, as good as 0.83" in shown
    assert "Fix: The model knows the unseen documents better than those of training." in shown


@pytest.mark.parametrize(
    ("score", "shown"), [pytest.param(0.22, True, id="22 %"), pytest.param(0.6, False, id="60 %")]
)
def test_a_score_of_the_task_under_one_half_is_shown_without_being_asked_for(
    score: float, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    record, verdict, _ = example_records.CASES["wide"]()
    useful = replace(judged.normal("entity_f1", score, 0.03), null=0.1, null_kind="chance")
    console.show_verdict(verdict, None, replace(record, utility=(useful,)))
    printed = " ".join(capsys.readouterr().out.split())
    assert (f"Fields found (F1): {score:.0%}".replace("%", " %") in printed) is shown


def test_a_number_wholly_over_its_limit_says_why_it_is_undecided(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    over = judged.completed(judged.area("auc", 0.75, 0.043), attack="membership")
    limits = [judged.limit("auc", "membership", max=0.65), *judged.LIMITED, *judged.LIMITED]
    record, verdict = judged.judged([over, judged.completed(*judged.OTHERS)], *limits)
    assert verdict.overall == "undecided"
    console.show_verdict(verdict, None, record)
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search(r"AUC 0.75 \([^)]*\), not confirmed: p = 0\.\d+", shown), shown
