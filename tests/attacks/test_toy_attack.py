"""A new attack is a class, its text and a line for each: every command sees it, and nothing else is touched."""

import json
import os
import re
from pathlib import Path

import pytest
import tiny
from commands import run_commands
from policy_texts import write_policy

from audit import record as records

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "sample_models" / "questions" / "data"
REGISTERED = "from audit.attacks import TEXTS, battery; from toy_attack import TEXT, LossGap; TEXTS[TEXT.name] = TEXT; "
REGISTERED += "battery.BATTERY = (*battery.BATTERY, LossGap)"
POLICIES = {"mine": {"gap": 9.5, "low": 0.95}, "misspelt": {"gab": 0.5}, "percent": {"low": 65}}
"""Limits by metric."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands work: data, two checkpoints, and files for the options."""
    place = tmp_path_factory.mktemp("toy")
    tiny.corpus(place / "data")
    for number in (1, 2):
        made = tiny.checkpoint(
            place / "run" / f"checkpoint-{number}", head="token-classification", seed=number
        )
        (made / "trainer_state.json").write_text(
            json.dumps({"epoch": number, "global_step": number})
        )
    for name, limits in POLICIES.items():
        bounds = [f"loss_gap {metric} max = {limit}" for metric, limit in limits.items()]
        write_policy(place / f"{name}.toml", *bounds, name=name)
    (place / "parameters.toml").write_text("[loss_gap]\nleast_words = 0\n")
    return place


@pytest.fixture(scope="module")
def said(folder):
    """Exit code and output of every command, by name."""
    model = folder / "run" / "checkpoint-1"
    data = folder / "data"
    out = folder / "out"
    policy = ("--policy", folder / "mine.toml")
    only = ("--only", "loss_gap")
    commands = {
        "inspect": ("inspect", data, "--model", model, "-v"),
        "plan": ("plan", data, *policy, "-v"),
        "plan, with the model": (
            "plan",
            data,
            *policy,
            "--model",
            model,
            "--out",
            folder / "plan.json",
        ),
        "plan, other task": ("plan", QUESTIONS, *policy, "-v"),
        "scan": ("scan", model, data, "--out", out, *policy, *only),
        "gate": ("gate", out, *policy),
        "gate, percent": ("gate", out, "--policy", folder / "percent.toml"),
        "report": ("report", out, *policy, "--reveal"),
        "sweep": (
            "scan",
            "--checkpoints",
            folder / "run" / "*",
            data,
            "--out",
            folder / "sweep",
            *policy,
            *only,
        ),
        "misspelt": (
            "scan",
            model,
            data,
            "--out",
            folder / "no",
            "--policy",
            folder / "misspelt.toml",
        ),
        "parameters": (
            "scan",
            model,
            data,
            "--out",
            folder / "no",
            "--attack-parameters",
            folder / "parameters.toml",
        ),
    }
    swept = [folder / "sweep" / f"checkpoint-{number}" for number in (1, 2)]
    commands["trend"] = ("report", *swept, "--out", folder / "trend", *policy)
    paths = os.pathsep.join(
        [str(ROOT / "tests" / "fakes"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    )
    return run_commands(
        commands, REGISTERED, env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"}
    )


def test_a_scan_measures_it_and_the_gate_reads_it(said, folder):
    code, output = said["scan"]
    assert code == 11, output  # a model that leaks nothing, but the attacker had no baseline
    (found,) = (one for one in records.read(folder / "out").attacks if one.status == "completed")
    assert (found.attack, found.parameters) == ("loss_gap", {"least_words": 1})
    assert [one.name for one in found.measurements] == ["low", "gap", "blind_auc"]
    assert found.ablations == ("no baseline to tell hard pages by",)
    for name in ("scan", "gate"):
        assert said[name][0] == code
        assert f"loss_gap {found.measurements[1].value:.2f} (" in said[name][1]


def test_a_report_shows_it_with_what_it_recovered(said, folder):
    assert said["report"][0] == 0, said["report"][1]
    page = (folder / "out" / "report.html").read_text()
    assert "loss_gap" in page
    assert "does not describe this attack" in page
    revealed = (folder / "out" / "evidence" / "report-revealed.html").read_text()
    assert "loss_gap" in revealed
    assert "m0" in revealed


def test_a_plan_says_what_it_can_decide_and_what_it_is_not_put_to(said, folder):
    assert [said[name][0] for name in ("plan", "plan, with the model", "plan, other task")] == [
        0,
        0,
        0,
    ]
    assert "loss_gap 6 + 6" in said["plan"][1]
    assert "loss_gap low: cannot pass: no baseline to tell hard pages by" in said["plan"][1]
    assert "loss_gap gap: no plan: no plan for this metric" in said["plan"][1]
    (cost,) = (
        one
        for one in json.loads((folder / "plan.json").read_text())["costs"]
        if one["attack"] == "loss_gap"
    )
    assert (cost["trials"], cost["reached"], cost["exact"]) == (12, [6, 6], True)
    assert cost["weakened"] == "no baseline to tell hard pages by"
    assert cost["seconds"] > 0
    assert (
        "loss_gap gap, low: inapplicable: a model that answers names no labels"
        in said["plan, other task"][1]
    )
    assert "loss_gap member 6" in said["inspect"][1]


def test_a_sweep_and_a_trend_show_its_own_summary(said, folder):
    code, output = said["sweep"]
    assert code == 11, output
    assert "checkpoint epoch verdict loss gap, nats" in output
    assert "IpF" not in output
    found = [
        records.read(folder / "sweep" / f"checkpoint-{number}").attacks[0] for number in (1, 2)
    ]
    assert all(f"{one.measurements[1].value:.3f} [" in output for one in found)
    # Counts of pages are no fields that tokens let it try, whatever they are.
    assert found[0].counts != found[1].counts
    assert "not attacked on the fields" not in output
    assert said["trend"][0] == 0, said["trend"][1]
    for page in (folder / "sweep" / "trend.html", folder / "trend" / "trend.html"):
        # Under its own label, which has no report of the toy's: that of the metric.
        assert re.search(r">loss_gap</th>.*<th scope=\"row\">gap<br>", page.read_text(), re.DOTALL)


def test_what_it_does_not_have_is_refused(said, folder):
    for name, problem in {
        "misspelt": "loss_gap has no metric 'gab'; did you mean 'gap'?",
        "gate, percent": "max 65: low lies between 0 and 1, so that 65 % is 0.65",
        "parameters": "[loss_gap] least_words: Input should be greater than or equal to 1",
    }.items():
        assert said[name][0] == 2, said[name][1]
        assert problem in said[name][1]
    assert not (folder / "no").exists()
