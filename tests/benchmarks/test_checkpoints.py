"""`python -m benchmarks.checkpoints`: its list, rows from a Hub and local ones, and resuming."""

import json
import re
import shutil
from pathlib import Path

import hub
import pytest
import strangers
import tiny
import tomli_w
from commands import docaudit

from audit.errors import UsageError
from benchmarks.checkpoints.__main__ import HERE, main
from benchmarks.checkpoints.results import results_type
from benchmarks.checkpoints.rows import load
from benchmarks.checkpoints.running import NO_NETWORK, NO_SAFETENSORS

pytestmark = pytest.mark.usefixtures("few_candidates")

LIST = HERE / "checkpoints.toml"
REAL_WORDS = (*tiny.VENDORS, *tiny.CLERKS)


def row(name, **changes):
    """A row whose model and data lie on this machine."""
    data = {
        "name": "receipts",
        "licence": "none",
        "source": "unused",
        "format": "docaudit",
        "split": "Made by a test.",
    }
    return {
        "name": name,
        "model": "unused",
        "publisher": "nobody",
        "licence": "none",
        "task": "token-classification",
        "wrong": ["The documents are invented."],
        **changes,
        "data": {**data, **changes.get("data", {})},
    }


class Desk:
    """A folder with a list, and the commands that were run for it in this process."""

    def __init__(self, folder):
        self.folder = folder
        self.ran = []

    def audit(self, rows, *options, run=None):
        """Run the rows, and return the exit code, the results by name and the page."""
        listed = self.folder / "list.toml"
        listed.write_text(tomli_w.dumps({"checkpoints": rows}))
        out = self.folder / "out"
        places = ("--list", listed, "--work", self.folder / "work", "--out", out)
        code = main([*map(str, places), "--data", str(self.folder), *options], run or self.run)
        results = json.loads((out / "checkpoints.json").read_text())
        page = (out / "checkpoints.md").read_text()
        return code, {result["name"]: result for result in results}, page

    def run(self, words, log):
        """Run a command of docaudit in this process."""
        module, *arguments = words
        assert module == "audit"
        self.ran.append(arguments[0])
        ended = docaudit(*arguments)
        log.write_text(ended.output)
        return ended.exit_code


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def report(checkpoints, tiny_corpus, tmp_path_factory):
    """The report of a scan, for tests that need some report."""
    folder = tmp_path_factory.mktemp("scanned") / "report"
    model = checkpoints("layoutlm", "token-classification")
    ended = docaudit("scan", model, tiny_corpus, "--only", "membership", "--out", folder)
    assert ended.exit_code == 11, ended.output
    return folder


def copying(report, ran, stopped_at=()):
    """Return a runner that does nothing but leave a report, or stops at some commands."""

    def run(words, log):
        command = words[1]
        ran.append(command)
        log.write_text("")
        if command in stopped_at:
            raise KeyboardInterrupt
        if command == "scan":
            shutil.copytree(report, words[words.index("--out") + 1])
            return 11
        return 0

    return run


def line_of(page, name):
    """Return the row of a model in the page's table."""
    return next(line for line in page.splitlines() if line.startswith(f"| [{name}]"))


def test_the_list_names_commits_or_main_and_the_claim_behind_each_split() -> None:
    rows = load(LIST)

    published = [row for row in rows if row.is_published]
    assert len(published) >= 6
    assert [row.name for row in rows if not row.is_published] == [
        "receipt-tagger",
        "letters-sample",
    ]
    for row in published:
        _, _, revision = row.model.partition("@")
        assert re.fullmatch("main|[0-9a-f]{40}", revision), row.name
        assert row.checked
        assert row.wrong


def test_the_page_has_each_row_of_the_list_and_no_row_that_was_not_run_looks_met() -> None:
    page = (HERE / "checkpoints.md").read_text()

    for checkpoint in load(LIST):
        line = line_of(page, checkpoint.name)
        if checkpoint.is_published:
            assert f"not run: {NO_NETWORK}" in line or "(exit code " in line
        else:
            assert "not published" in line


def test_what_the_text_alone_reveals_is_not_said_of_the_model() -> None:
    results = results_type.validate_json((HERE / "checkpoints.json").read_bytes())
    (letters,) = [result for result in results if result.name == "letters-sample"]

    of_text = [item.attack for item in letters.findings if item.about_text]

    assert of_text == ["redaction"]
    assert "exceeded by the text alone, whatever the model" in (HERE / "checkpoints.md").read_text()


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([row("a"), row("a")], "two rows are called a"),
        ([row("a", model="")], "a: give either model or build"),
        ([row("a", budget="all")], "checkpoints.0.budget"),
        ([row("a", pages=3)], "checkpoints.0.pages"),
        ([row("../a")], "checkpoints.0.name"),
    ],
)
def test_a_wrong_list_names_its_row(rows, fault, tmp_path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(tomli_w.dumps({"checkpoints": rows}))

    with pytest.raises(UsageError, match=re.escape(fault)):
        load(path)


@pytest.mark.slow
def test_a_model_of_the_hub_is_audited_at_its_commit_on_imported_forms(desk, monkeypatch) -> None:
    model = tiny.checkpoint(
        desk.folder / "tagger", "layoutlm", "token-classification", labels=strangers.TAGS
    )
    strangers.write_forms(desk.folder / "forms", strangers.pages(6, 8))
    checkpoint = row(
        "tagger",
        model="hf://org/tagger@main",
        publisher="org",
        data={
            "source": "forms/train",
            "heldout": "forms/test",
            "format": "funsd",
            "public": 0.25,
        },
    )

    with hub.serve({"models/org/tagger": model}, desk.folder / "cache", monkeypatch):
        code, results, page = desk.audit([checkpoint], "--allow-network")

    result = results["tagger"]
    assert code == 0, result
    assert desk.ran == ["init", "plan", "scan"]
    assert result["commit"] == f"org/tagger@{hub.COMMIT}"
    assert result["documents"] == {"member": 6, "heldout": 6, "public": 2}
    membership = next(item for item in result["findings"] if item["attack"] == "membership")
    assert membership["low"] <= membership["value"] <= membership["high"]
    assert membership["sentence"] in page
    assert f"  - Undecided because {membership['why']}." in page
    assert result["seconds"].keys() == {"get", "init", "plan", "scan"}
    assert f"| `org/tagger@{hub.COMMIT}` | undecided (exit code 11) |" in line_of(page, "tagger")
    assert "published by org" in page
    assert "Address: unchecked." in page
    assert "May make a finding wrong: The documents are invented." in page
    reason = "Restoring blacked-out values: it needs a reference (auxiliary)"
    assert reason in result["not_tested"]
    assert f"Not tested: {reason}." in page


@pytest.mark.slow
def test_a_local_row_is_labelled_and_shows_no_text_of_documents(
    desk, checkpoints, tiny_corpus, capsys
) -> None:
    model = checkpoints("layoutlm", "token-classification")
    local = row("tiny", model=str(model), data={"source": str(tiny_corpus)})

    code, results, page = desk.audit([local])

    assert code == 0
    assert desk.ran == ["plan", "scan"]
    assert "built here, not published" in line_of(page, "tiny")
    assert results["tiny"]["commit"].startswith("sha256 ")
    everything = f"{page}{results}{capsys.readouterr().out}".lower()
    assert not [word for word in REAL_WORDS if word in everything]


def test_a_row_that_fails_is_named_and_the_others_go_on(
    desk, checkpoints, tiny_corpus, report
) -> None:
    empty = desk.folder / "empty"
    empty.mkdir()
    ran = []
    copy_report = copying(report, ran)

    def run(words, log):
        if str(empty) in words:
            return desk.run(words, log)
        return copy_report(words, log)

    model = str(checkpoints("layoutlm", "token-classification"))
    rows = [
        row("broken", model=str(empty), data={"source": str(tiny_corpus)}),
        row("missing", model=model, data={"source": "nowhere", "format": "funsd"}),
        row("sound", model=model, data={"source": str(tiny_corpus)}),
    ]
    code, results, page = desk.audit(rows, run=run)

    assert code == 1
    states = {name: result["state"] for name, result in results.items()}
    assert states == {"broken": "failed", "missing": "not run", "sound": "scanned"}
    assert "failed: plan ended with exit code 2; broken/plan.log" in line_of(page, "broken")
    assert "not run: nowhere is not in the folder that --data names" in line_of(page, "missing")
    assert "undecided (exit code 11)" in line_of(page, "sound")
    assert (desk.folder / "work" / "broken" / "plan.log").read_text()


def test_a_stopped_row_goes_on_and_a_finished_one_is_not_repeated(
    desk, checkpoints, tiny_corpus, report
) -> None:
    model = str(checkpoints("layoutlm", "token-classification"))
    rows = [row("tiny", model=model, data={"source": str(tiny_corpus)})]
    ran = []

    with pytest.raises(KeyboardInterrupt):
        desk.audit(rows, run=copying(report, ran, stopped_at=["scan"]))
    desk.audit(rows, run=copying(report, ran))
    _, results, _ = desk.audit(rows, run=copying(report, ran))

    assert ran == ["plan", "scan", "scan"]
    assert results["tiny"]["state"] == "scanned"


def test_a_row_that_has_changed_is_audited_anew(desk, checkpoints, tiny_corpus, report) -> None:
    model = str(checkpoints("layoutlm", "token-classification"))
    before = row("tiny", model=model, data={"source": str(tiny_corpus)})
    ran = []

    desk.audit([before], run=copying(report, ran))
    desk.audit([{**before, "budget": "standard"}], run=copying(report, ran))

    assert ran == ["plan", "scan", "plan", "scan"]


def test_without_a_network_a_row_says_so_and_keeps_what_an_earlier_call_measured(
    desk, checkpoints, tiny_corpus, report, monkeypatch
) -> None:
    model = checkpoints("layoutlm", "token-classification")
    rows = [
        row("tagger", model="hf://org/tagger", data={"source": str(tiny_corpus)}),
        row("pickle", model="hf://org/pickle", data={"source": str(tiny_corpus)}),
        row("none", model="hf://org/none", data={"source": str(tiny_corpus)}),
    ]
    pickle = desk.folder / "pickle"
    shutil.copytree(model, pickle, ignore=shutil.ignore_patterns("*.safetensors"))

    code, results, page = desk.audit(rows, run=copying(report, []))
    assert code == 0
    assert {result["reason"] for result in results.values()} == {NO_NETWORK}
    assert f"not run: {NO_NETWORK}" in line_of(page, "tagger")
    assert "met" not in line_of(page, "tagger")

    repositories = {"models/org/tagger": model, "models/org/pickle": pickle}
    with hub.serve(repositories, desk.folder / "cache", monkeypatch):
        stopped = copying(report, [], stopped_at=["scan"])
        with pytest.raises(KeyboardInterrupt):
            desk.audit(rows, "--allow-network", run=stopped)
    desk.audit(rows, run=copying(report, []))
    shutil.rmtree(desk.folder / "work")
    _, results, page = desk.audit(rows, run=copying(report, []))

    assert results["tagger"]["state"] == "scanned"
    assert results["pickle"]["reason"] == NO_NETWORK
    assert "undecided (exit code 11)" in line_of(page, "tagger")


def test_a_repository_without_safetensors_or_of_no_such_name_says_why(
    desk, checkpoints, tiny_corpus, monkeypatch
) -> None:
    model = checkpoints("layoutlm", "token-classification")
    pickle = desk.folder / "pickle"
    shutil.copytree(model, pickle, ignore=shutil.ignore_patterns("*.safetensors"))
    rows = [
        row("pickle", model="hf://org/pickle", data={"source": str(tiny_corpus)}),
        row("none", model="hf://org/none", data={"source": str(tiny_corpus)}),
    ]

    with hub.serve({"models/org/pickle": pickle}, desk.folder / "cache", monkeypatch):
        code, results, _ = desk.audit(rows, "--allow-network")

    assert code == 0
    assert results["pickle"]["reason"] == NO_SAFETENSORS
    assert results["none"]["reason"] == "org/none: the Hub shows no such model"


def test_only_chooses_rows_and_names_those_that_exist(desk, capsys) -> None:
    rows = [row("a"), row("b")]
    _, results, page = desk.audit(rows, "--only", "b")
    assert results.keys() == {"b"}
    assert "not run yet" in line_of(page, "a")

    listed = str(desk.folder / "list.toml")
    assert main(["--list", listed, "--only", "c", "--out", str(desk.folder / "out")]) == 2
    assert "--only: no row is called c; rows: a, b" in capsys.readouterr().out


def test_the_folders_of_the_samples_that_the_list_names_exist() -> None:
    for checkpoint in load(LIST):
        if checkpoint.model and not checkpoint.is_published:
            assert Path(checkpoint.model, "config.json").exists()
