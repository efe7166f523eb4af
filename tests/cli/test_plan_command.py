"""`docaudit plan`, the command: what it prints, writes, times and refuses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import asked_pages
import pytest
import tiny
from commands import docaudit
from strange_models import checkpoint

from audit import policy as policies
from audit.attacks.budget import SHARES, sample
from audit.attacks.interface import why
from audit.case import Case
from audit.cli import console
from audit.workflows.options import ScanOptions
from audit.workflows.plan import at_most
from audit.workflows.session import open_session

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_candidates")]
SAMPLES = Path(__file__).parents[2] / "sample_models"


# On the command line


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.corpus(tmp_path_factory.mktemp("plan") / "data", kind="mlm", members=3, heldout=3)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Little is timed."""
    monkeypatch.setattr("audit.workflows.planning.TRIALS", 1)


def listing(folder):
    return sorted((str(path), path.stat().st_mtime_ns) for path in folder.rglob("*"))


def test_a_plan_without_a_model_exits_0_and_loads_no_torch(data):
    command = [sys.executable, "-X", "importtime", "-m", "audit", "plan", "-v", str(data)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    for name in ("torch", "transformers", "weasyprint"):
        assert f" {name}\n" not in found.stderr
    limits = policies.load("default").limits
    assert f"can confirm 0 of {len(limits)} limits as met" in found.stdout
    assert all(one.metric in found.stdout for one in limits)


def test_a_model_s_trials_are_counted_and_timed_and_nothing_is_written(data, checkpoints, tmp_path):
    model = checkpoints("layoutlm", "mlm", 1)
    public = checkpoints("layoutlm", "mlm", 3)
    before = [listing(folder) for folder in (data, model, public, tmp_path)]
    for budget, extra in (
        ("quick", ()),
        ("quick", ("--reference", f"pretrained={public}")),
        ("standard", ("--reference", f"auxiliary={public}")),
    ):
        out = tmp_path / f"{budget}.json"
        asked = ("--budget", budget, "--out", out, "-v", "--device", "cpu", *extra)
        result = docaudit("plan", data, "--model", model, *asked)
        assert result.exit_code == 0, result.output
        costs = {one["attack"]: one for one in json.loads(out.read_text())["costs"]}
        opened = open_session(ScanOptions(model, data, Path(), budget=budget, device="cpu"))
        everything = opened.attacks[0].trials(Case(opened.target, opened.corpus))
        tried = sample(everything, SHARES[budget], 0)
        assert costs["reconstruction"]["exact"]
        assert costs["reconstruction"]["trials"] == len(tried) > 0
        assert sum(costs["reconstruction"]["reached"]) == len({trial.cluster for trial in tried})
        assert costs["memorisation"]["inapplicable"]
        out.unlink()
        seconds = costs["reconstruction"]["seconds"]
        memory = costs["reconstruction"]["memory"]
        shown = " ".join(result.output.split())
        if budget == "standard":
            assert seconds > 0
            assert memory > 100_000_000
            assert "waiting time peak memory" in shown
            assert f"{console.duration(seconds)} {memory / 1e9:.1f} GB" in shown
        else:
            assert seconds is memory is None
            assert (
                "first trains the public model" if extra else "it needs a reference (auxiliary)"
            ) in shown
        assert ("Training auxiliary takes" in shown) == (budget != "standard" and bool(extra))
    assert [listing(folder) for folder in (data, model, public, tmp_path)] == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--policy", "nosuch"], "policy nosuch"),
        (["--reference", "auxiliary=somewhere"], "add --model"),
        (["--out", "no/such/folder/plan.json"], "no file can be written there"),
        (["--model", "nowhere"], "nowhere"),
        (["--device", "abacus", "--model", "MODEL"], "abacus"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(data, arguments, problem, tmp_path):
    model = checkpoint(tmp_path / "model")
    result = docaudit("plan", data, *(part.replace("MODEL", str(model)) for part in arguments))
    assert result.exit_code == 2
    assert problem in result.output
    assert len([line for line in result.output.splitlines() if line.startswith("error:")]) == 1
    assert "can confirm" not in result.output


# The others are of the same architectures, and are put to the same.
MODELS = sorted(folder.relative_to(SAMPLES) for folder in SAMPLES.glob("*/model"))


def agrees(model, data):
    """Before there is a model the task alone tells; `Attack.inapplicable` asks the model."""
    opened = open_session(ScanOptions(model, data, model / "nothing is written"))
    case = opened.case
    costs = {cost.attack: cost for cost in at_most(opened.corpus, "standard")}
    for attack in opened.attacks:
        told = costs[attack.name].inapplicable
        found = why(attack, case, "model")
        if attack.name == "memorisation" and found is not None:
            # A model that does not answer is not asked questions: that the data set has none is
            # said instead.
            assert costs[attack.name].lacks.startswith("no question with an answer")
        elif attack.name == "reconstruction" and attack.unlimited(case) is not None:
            # Limits are held against candidates alone: the task does not tell who proposes them.
            assert told.endswith("give --model")
        else:
            assert (told is None) == (found is None), attack.name
    return costs


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_what_no_model_of_a_task_is_put_to_is_what_the_samples_models_say(model):
    agrees(SAMPLES / model, SAMPLES / model.parent / "data")


@pytest.mark.parametrize("head", [*tiny.HEADS, *tiny.SPADE_HEADS])
def test_what_no_model_of_a_task_is_put_to_is_what_a_model_with_each_head_says(
    head, checkpoints, tmp_path
):
    costs = agrees(checkpoints("layoutlm", head, 1), tiny.corpus(tmp_path / "data", kind=head))
    assert (costs["canaries"].inapplicable is not None) == (head in tiny.SPADE_HEADS)


def test_a_reference_from_the_command_line_is_one_and_no_text_is_printed(tmp_path):
    data = tmp_path / "data"
    made = asked_pages.corpus(tmp_path / "data")
    model, baseline = (
        asked_pages.donut(tmp_path / name, seed) for seed, name in enumerate(("model", "baseline"))
    )
    for extra, lacks in (((), True), (("--reference", f"baselines={baseline}"), False)):
        out = tmp_path / "plan.json"
        result = docaudit("plan", data, "--model", model, "--budget", "quick", "--out", out, *extra)
        assert result.exit_code == 0, result.output
        found = json.loads(out.read_text())
        (cost,) = (one for one in found["costs"] if one["attack"] == "memorisation")
        assert (cost["lacks"] is not None, cost["seconds"] is None) == (lacks, lacks)
        (net,) = (one for one in found["limits"] if one["metric"] == "net")
        assert ("MODEL_DIR DATA_DIR --train" in net["reason"]) == lacks
    assert made.documents[0].questions[0].answers[0] not in out.read_text() + result.output


def test_a_broken_data_set_and_a_model_that_does_not_fit_exit_2(data, checkpoints, tmp_path):
    broken = shutil.copytree(data, tmp_path / "broken")
    (broken / "documents.jsonl").write_text("{}\n")
    assert (
        docaudit("plan", broken).exit_code,
        docaudit("plan", tmp_path / "nothing").exit_code,
    ) == (2, 2)
    spade = tiny.corpus(tmp_path / "spade", kind="spade-extraction")
    unfit = docaudit("plan", spade, "--model", checkpoints("layoutlm", "token-classification", 2))
    assert (
        unfit.exit_code,
        len([line for line in unfit.output.splitlines() if line.startswith("error:")]),
    ) == (2, 1)


def test_a_plan_warns_of_too_few_public_documents_for_membership(data, tmp_path):
    """A scan leaves membership undecided there, however many members the data set holds."""
    warned = "public documents to show that training used no unseen ones"
    assert warned in " ".join(docaudit("plan", data).stderr.split())
    enough = tiny.corpus(tmp_path / "data", kind="mlm", members=3, heldout=3, public=20)
    assert warned not in " ".join(docaudit("plan", enough).stderr.split())
