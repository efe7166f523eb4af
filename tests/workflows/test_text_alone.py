"""`docaudit scan --no-model`: the text has a verdict, and nothing that needs a model looks passed."""

from dataclasses import replace
from pathlib import Path

import example_records
import pytest
import redacted
from commands import docaudit
from policy_texts import write_policy

from audit import policy as policies
from audit import record as records
from audit.corpus import manifest

REASON = "no model was audited"


def write(folder: Path, *, told: bool, mask: bool = True) -> Path:
    data = redacted.texts(60, told=told)
    settings = data.manifest if mask else replace(data.manifest, redaction=None)
    manifest.write(folder, replace(settings, name="letters"), data.documents)
    return folder


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    """Folders of scans of a text that tells the kinds, and of one that does not, with their exit codes."""
    root = tmp_path_factory.mktemp("text")
    found = {}
    for name, told in (("telling", True), ("silent", False)):
        ran = docaudit(
            "scan", "--no-model", write(root / name, told=told), "--out", root / f"{name}-out"
        )
        found[name] = (root / f"{name}-out", ran)
    return found


def test_a_text_that_tells_is_violated_and_one_that_does_not_passes(scanned):
    for name, code, word in (("telling", 10, "EXCEEDED"), ("silent", 0, "MET")):
        _, ran = scanned[name]
        assert ran.exit_code == code, ran.output
        assert f"{word}  on the text alone" in ran.output
        assert REASON in ran.output


def test_nothing_that_needs_a_model_looks_passed(scanned):
    folder, _ = scanned["silent"]
    record = records.read(folder)
    assert not record.target.is_model
    assert (record.subject, record.utility, record.references) == ("letters", (), ())
    for result in record.attacks:
        if result.attack == "redaction":
            assert result.status == "completed"
        else:
            assert (result.status, result.why) == ("inapplicable", REASON)
    verdict = policies.evaluate(record, policies.load("default"), policies.today())
    for decision in verdict.decisions:
        if not decision.about_text:
            assert (decision.outcome, decision.reason) == ("inapplicable", REASON)
    assert {item.limit.metric for item in verdict.decisions if item.outcome == "passed"} == {
        "lift_share",
        "worst_class",
    }


def test_gate_and_report_work_on_the_record(scanned):
    for name, code in (("telling", 10), ("silent", 0)):
        folder, _ = scanned[name]
        assert (
            docaudit("gate", "--no-model", folder).exit_code,
            docaudit("report", folder).exit_code,
        ) == (code, 0)
    page = (scanned["silent"][0] / "report.html").read_text().partition("</section>")[0]
    assert "no model was audited" in page
    assert "<h1>Redacted text of a data set" in page, "the name of a folder is no title"
    assert "It says nothing about a model" in page
    assert "trained on, " not in page
    page = (scanned["telling"][0] / "report.html").read_text().partition("</section>")[0]
    assert "Someone who reads a redacted copy can find out what it hides" in page
    assert "The redacted copies do not meet the" in page


def test_a_gate_that_is_not_told_so_lets_no_record_without_a_model_through(scanned, tmp_path):
    lenient = write_policy(
        tmp_path / "lenient.toml", "membership auc max = 0.6", more='undecided = "warn"\n'
    )
    for name, policy, code in (
        ("silent", "default", 11),
        ("silent", lenient, 11),
        ("telling", "default", 10),
    ):
        ran = docaudit("gate", scanned[name][0], "--policy", policy)
        assert ran.exit_code == code, ran.output
        assert f"exit code {code}" in ran.output
        if code == 11:
            said = " ".join(ran.output.split())
            assert "no model was audited" in said
            assert "give --no-model" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "membership"], "without a model there is redaction"),
        (["--defence", "random-string"], "--defence says how a model is asked"),
        (["--checkpoints", "x*"], "--no-model audits none"),
        (["--reference", "baselines=."], "--reference says how a model is asked"),
    ],
)
def test_options_that_need_a_model_are_refused(tmp_path, options, message):
    ran = docaudit(
        "scan",
        "--no-model",
        write(tmp_path / "data", told=True),
        "--out",
        tmp_path / "out",
        *options,
    )
    assert ran.exit_code == 2
    assert message in " ".join(ran.output.split())
    assert not (tmp_path / "out").exists()


def test_two_folders_and_data_without_redactions_are_refused(tmp_path):
    data = write(tmp_path / "data", told=True, mask=False)
    ran = docaudit("scan", "--no-model", data, "--out", tmp_path / "out")
    assert ran.exit_code == 2
    assert "does not declare redacted values" in ran.output
    ran = docaudit("scan", "--no-model", "model", data)
    assert ran.exit_code == 2
    assert "takes DATA_DIR alone, not 2 folders" in " ".join(ran.output.split())


def test_a_gate_of_text_alone_takes_no_record_of_a_model(tmp_path):
    records.write(example_records.record(), tmp_path / "record.json")
    ran = docaudit("gate", "--no-model", tmp_path)
    assert ran.exit_code == 2
    assert "the record is of a model" in " ".join(ran.output.split())


def test_a_policy_without_limits_on_text_decides_nothing(scanned):
    record = records.read(scanned["silent"][0])
    policy = policies.load("default")
    others = tuple(limit for limit in policy.limits if limit.attack != "redaction")
    verdict = policies.evaluate(record, replace(policy, limits=others), policies.today())
    assert (verdict.overall, verdict.exit_code) == ("undecided", 11)
    assert "no limit of the policy could be checked on the text alone" in verdict.reason
