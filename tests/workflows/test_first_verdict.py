"""The first verdict: bounded scans, what an undecided one found, references, one check."""

import json
import re
from dataclasses import replace

import example_records
import pytest
import tiny
from commands import docaudit
from hypothesis import given
from hypothesis import strategies as st

from audit import cards
from audit import record as records
from audit.attacks.budget import halves, sample, side_of
from audit.cli import console
from audit.engine.interface import Trial
from audit.engine.journal import Journal
from audit.references import training
from audit.report.answer import decides_most, findings
from audit.report.facts.build import facts_of
from audit.workflows import planning

pytestmark = [pytest.mark.usefixtures("few_candidates")]


def flat(text):
    return " ".join(text.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("first") / "data", members=5, heldout=5)


# Bounds


sides = st.lists(
    st.tuples(st.sampled_from(["member", "heldout", "member long"]), st.integers(1, 5)), max_size=14
)


def trials_of(units):
    return [
        Trial(f"{number}/{index}", f"u{number}", stratum)
        for number, (stratum, count) in enumerate(units)
        for index in range(count)
    ]


def units_of(trials):
    found = {}
    for trial in trials:
        found.setdefault(side_of(trial.stratum), set()).add(trial.cluster)
    return found


@given(sides, st.integers(2, 12), st.integers(0, 99), st.sampled_from([0.25, 1.0]))
def test_so_many_documents_are_tried_half_of_each_side(units, documents, seed, share):
    trials = trials_of(units)
    there = units_of(trials)
    taken = units_of(sample(trials, share, seed, documents))
    expected = dict(
        zip(
            sorted(there),
            halves(documents, [len(there[side]) for side in sorted(there)]),
            strict=True,
        )
    )
    assert {side: len(own) for side, own in taken.items()} == {
        side: n for side, n in expected.items() if n
    }
    more = units_of(sample(trials, share, seed, documents + 2))
    assert all(
        own <= more[side] for side, own in taken.items()
    )  # a larger number goes on where a smaller one ended


def bounded_scan(data, checkpoints, out, *more):
    arguments = (
        "scan",
        checkpoints("layoutlm", "token-classification", 2),
        data,
        "--out",
        out,
        "--only",
        "membership",
    )
    result = docaudit(*arguments, *more)
    assert result.exit_code == 11, result.output
    return records.read(out)


def test_a_scan_of_few_documents_goes_on_with_more(data, checkpoints, tmp_path):
    record = bounded_scan(data, checkpoints, tmp_path / "out", "--documents", 4)
    assert (record.bounds, record.timing.outcomes) == (cards.Bounds(4, None, 1.0), 4)
    (journal,) = (tmp_path / "out" / "evidence").glob("journal-*.jsonl")
    first = Journal(journal).outcomes
    larger = bounded_scan(data, checkpoints, tmp_path / "out", "--documents", 8)
    assert larger.timing.outcomes == 8
    assert first.items() <= Journal(journal).outcomes.items()


def test_the_part_that_fits_is_fixed_before_any_trial(data, checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "part_in", lambda *_: 0.4)
    record = bounded_scan(data, checkpoints, tmp_path / "out", "--time", "1h")
    assert (record.bounds, record.timing.outcomes) == (cards.Bounds(None, 3600.0, 0.4), 4)
    monkeypatch.setattr(planning, "part_in", lambda *_: 1.0)
    again = bounded_scan(data, checkpoints, tmp_path / "out", "--time", "1h")
    assert (again.bounds, again.timing.resumed) == (record.bounds, 4)
    assert (
        bounded_scan(data, checkpoints, tmp_path / "out", "--time", "1h", "--fresh").bounds.part
        == 1.0
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--time", "soon"], "--time soon"),
        (["--time", "-3m"], "--time -3m"),
        (["--time", "5s"], "too short"),
        (["--time", "1h", "--engine", "ray"], "--documents with another engine"),
    ],
)
def test_bounds_that_cannot_be_kept_are_refused(options, problem, data, checkpoints, tmp_path):
    result = docaudit(
        "scan",
        checkpoints("layoutlm", "token-classification", 2),
        data,
        "--out",
        tmp_path,
        *options,
    )
    assert result.exit_code == 2
    assert problem in flat(result.output)


def test_a_plan_takes_the_same_bounds(data, checkpoints, tmp_path):
    out = tmp_path / "plan.json"
    assert docaudit("plan", data, "--documents", 4, "--out", out).exit_code == 0
    (cost,) = (one for one in json.loads(out.read_text())["costs"] if one["attack"] == "membership")
    assert (cost["trials"], cost["reached"]) == (4, [2, 2])
    model = checkpoints("layoutlm", "token-classification", 2)
    assert docaudit("plan", data, "--model", model, "--documents", 4, "--out", out).exit_code == 0
    plan = json.loads(out.read_text())
    (cost,) = (one for one in plan["costs"] if one["attack"] == "membership")
    assert (cost["trials"], cost["exact"], plan["documents"]) == (4, True, 4)
    assert docaudit("plan", data, "--time", "1h").exit_code == 2


# Findings so far


@pytest.mark.parametrize(
    "made", [example_records.wide, example_records.unresolved, example_records.weak]
)
def test_an_undecided_verdict_says_what_was_found_and_what_would_decide_most(
    made, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    record, verdict, _ = made()
    lines = [*findings(facts_of(record, verdict))]
    assert lines
    assert all(line.split(":")[0] in record.battery for line in lines)
    assert any(" of " in line and "%" in line for line in lines)
    step = decides_most(facts_of(record, verdict))
    assert step.endswith(".")
    assert "undecided" in step
    console.show_verdict(verdict, None, record, verbose=True)
    printed = capsys.readouterr().out
    found, _, summary = printed[printed.index("Findings so far") :].partition("\n\n")
    assert len(found.splitlines()) <= 12
    assert len(summary.splitlines()) <= 11
    assert all(len(line) <= 80 for line in printed.splitlines())
    # Behind it stands what a reader puts in for the names in its command.
    assert flat(step.removesuffix(".")) in flat(printed)


def test_what_comes_back_stands_beside_what_comes_back_without_the_training():
    """A clean model puts back as many values of pages that it never saw: the count alone would accuse it."""
    record, verdict, _ = example_records.weak()
    (line,) = findings(facts_of(record, verdict))
    assert re.search(
        r": 12 of 600 fields \([^()]* %\), against 13 of 600 \([^()]* %\) declared as never seen",
        line,
    )
    (result,) = record.attacks
    kept = tuple(item for item in result.measurements if ".heldout." not in item.name)
    alone = replace(record, attacks=(replace(result, measurements=kept),))
    (line,) = findings(facts_of(alone, verdict))
    assert "%), against 2.0 % without the model" in line


# One check, and references


def test_inspect_refuses_what_a_scan_refuses(checkpoints, tmp_path):
    unlabelled = tiny.corpus(tmp_path / "mlm", kind="mlm")
    tagger = checkpoints("layoutlm", "token-classification", 2)
    masked = checkpoints("layoutlm", "mlm", 1)
    linked = tiny.corpus(tmp_path / "spade", kind="spade-linking")
    for model, folder, hint in (
        (tagger, unlabelled, "token-classification"),
        (masked, linked, "mlm"),
    ):
        answers = [
            docaudit("inspect", folder, "--model", model),
            docaudit("scan", model, folder, "--out", tmp_path / "out"),
            docaudit("plan", folder, "--model", model),
            docaudit("references", folder, model),
        ]
        assert [answer.exit_code for answer in answers] == [2] * 4
        said = {
            tuple(line for line in one.output.splitlines() if line[:5] in ("error", "hint:"))
            for one in answers
        }
        assert len(said) == 1
        assert f'kind = "{hint}"' in str(said)


def test_inspect_as_json(data, checkpoints):
    result = docaudit("inspect", data, "--model", checkpoints("layoutlm", "mlm", 1), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["data"]["name"] == "tiny-receipts"
    assert found["attacks"]["reconstruction"].startswith(
        "skipped without the reference auxiliary: "
    )
    assert ["membership", "member", 5] in found["model"]["trials"]
    assert any(
        "reconstruction: skipped without the reference auxiliary" in line
        for line in found["model"]["lacking"]
    )


def by_name(result):
    assert result.exit_code == 0, result.output
    return {one["name"]: one for one in json.loads(result.stdout)["references"]}


def test_references_are_found_or_made(data, checkpoints, tmp_path):
    model = checkpoints("layoutlm", "token-classification", 2)
    public = checkpoints("layoutlm", "mlm", 3)
    found = by_name(docaudit("references", data, model, "--json"))
    assert (found["auxiliary"]["state"], found["auxiliary"]["needed_by"]) == (
        "missing",
        ["reconstruction"],
    )
    assert "--reference auxiliary=PATH" in found["auxiliary"]["how"]
    assert found["baselines"]["state"] == "can be trained"
    command = f"docaudit references {model} {data} --train baselines --reference pretrained="
    assert found["baselines"]["how"].startswith(command)
    given = by_name(
        docaudit("references", data, model, "--json", "--reference", f"pretrained={public}")
    )
    assert given["auxiliary"]["state"] == "trained by the scan"
    assert 0 < given["auxiliary"]["seconds"][0] < given["auxiliary"]["seconds"][1]
    assert given["baselines"]["seconds"][0] > 0
    assert (given["splits"]["seconds"], given["splits"]["recommended"]) == (
        None,
        False,
    )  # under ten members
    enough = tiny.corpus(tmp_path / "data", members=10, heldout=1)
    given = by_name(
        docaudit("references", enough, model, "--json", "--reference", f"pretrained={public}")
    )
    assert 0 < given["baselines"]["seconds"][0] < given["splits"]["seconds"][0]
    assert (given["pretrained"]["state"], given["pretrained"]["source"]) == (
        "there",
        "command line",
    )
    table = docaudit("references", data, model).output
    assert "reconstruction" in table
    assert "can be trained" in flat(table)


@pytest.mark.parametrize(
    ("seconds", "made"), [(600.0, "baselines and splits"), (601.0, "baselines")]
)
def test_split_models_are_made_unasked_where_that_takes_ten_minutes_at_most(
    seconds, made, data, checkpoints, tmp_path, monkeypatch
):
    times = {"baselines": (1.0, 2.0), "splits": (9.0, seconds)}
    monkeypatch.setattr(training, "time_references", lambda *_: times)
    counts = []
    for kind in ("train_baseline", "train_splits"):
        monkeypatch.setattr(training, kind, lambda *_, count, **__: [counts.append(count)])
    model = checkpoints("layoutlm", "token-classification", 2)
    given = (data, model, "--reference", f"pretrained={checkpoints('layoutlm', 'mlm', 3)}")
    assert by_name(docaudit("references", *given, "--json"))["splits"]["recommended"] == (
        seconds == 600
    )
    assert ("recommended" in docaudit("references", *given).output) == (seconds == 600)
    assert (
        f"{made} made"
        in docaudit("references", *given, "--train", "--count", 3, "--out", tmp_path).output
    )
    assert counts == [3, 16][: len(counts)]
    planned = docaudit("plan", data, "--model", model, *given[2:], "--budget", "quick").output
    assert ("recommended" in planned) == (seconds == 600)


@pytest.mark.parametrize("family", ["layoutlmv3", "lilt"])
def test_families_without_a_masked_head_are_told_which_text_model_to_give(
    family, checkpoints, tmp_path
):
    data = tiny.corpus(tmp_path / "data", images=True)
    model = checkpoints(family, "token-classification", 2)
    need = by_name(docaudit("references", data, model, "--json"))["auxiliary"]
    assert need["state"] == "missing"
    assert "RoBERTa's" in need["how"]
    # Given as what the model was fine-tuned from it serves as well.
    given = (
        "references",
        data,
        model,
        "--json",
        "--reference",
        f"pretrained={checkpoints('roberta', 'mlm', 3)}",
    )
    need = by_name(docaudit(*given))["auxiliary"]
    assert (need["state"], need["source"]) == ("there", "pretrained, as it is")
    inspected = flat(docaudit("inspect", data, "--model", model).output)
    assert "roberta-base" in inspected
