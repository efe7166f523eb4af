"""A scan of a data set whose splits hold copies of each other, or pages that cannot be decoded."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
from commands import docaudit
from scanned_by_engines import opened_elsewhere, work_of

from audit import policy as policies
from audit.attacks.reconstruction import Reconstruction
from audit.corpus import manifest as manifests
from audit.corpus.images import open_image
from audit.corpus.near_copies import find_copies
from audit.engine.interface import SILENT
from audit.errors import EngineError
from audit.record import AuditRecord
from audit.workflows import plan
from audit.workflows.attacking import fill_references
from audit.workflows.options import ScanOptions, claim_folder
from audit.workflows.plan import at_most
from audit.workflows.run import run_scan
from audit.workflows.session import open_session

LETTERS = Path(__file__).parents[2] / "sample_models" / "letters"
pytestmark = pytest.mark.usefixtures("few_candidates")


def scanned(model: Path, data: Path, out: Path, **changed: Any) -> AuditRecord:
    with claim_folder(out):
        return run_scan(open_session(ScanOptions(model, data, out, **changed)), SILENT)


def with_copies(data: Path, out: Path, share: float) -> Path:
    """A copy of a data set in which that share of the held-out documents are member documents under another id."""
    shutil.copytree(data, out, ignore=shutil.ignore_patterns("documents.jsonl"))
    corpus = manifests.load(data)
    members = corpus.of("member")
    heldout = corpus.of("heldout")
    count = round(share * len(heldout))
    copies = [
        replace(one, id=two.id, split="heldout")
        for one, two in zip(members, heldout[:count], strict=False)
    ]
    manifests.write(
        out, corpus.manifest, [*members, *copies, *heldout[len(copies) :], *corpus.of("public")]
    )
    return out


def decided(record: AuditRecord, attack: str, metric: str) -> policies.Decision:
    verdict = policies.evaluate(record, policies.load("default"), policies.today())
    return next(
        one for one in verdict.decisions if (one.limit.attack, one.limit.metric) == (attack, metric)
    )


@pytest.mark.slow
def test_a_leaky_model_does_not_pass_because_held_out_documents_are_copies_of_members(tmp_path):
    data = with_copies(LETTERS / "data", tmp_path / "data", 1.0)
    record = scanned(
        LETTERS / "model", data, tmp_path / "out", only=("membership",), budget="standard"
    )
    (result,) = record.attacks
    assert result.status == "completed"
    assert result.confounded is not None
    assert "75 of 75 unseen documents are copies of training documents" in result.confounded
    decision = decided(record, "membership", "auc")
    assert decision.measured is not None
    assert decision.measured.value == pytest.approx(
        0.5, abs=0.01
    )  # the model has 0.93 against true held-out letters
    assert decision.outcome == "undecided"
    unaware_result = replace(result, confounded=None, checks=(), conditions=())
    unaware = replace(record, attacks=(unaware_result,), checks=(), conditions=())
    assert decided(unaware, "membership", "auc").outcome == "passed"


def options(checkpoints: Any, data: Path, out: Path, **changed: Any) -> ScanOptions:
    given = {
        "only": ("reconstruction",),
        "references": {"auxiliary": [checkpoints("layoutlm", "mlm")]},
        **changed,
    }
    return ScanOptions(
        checkpoints("layoutlm", "token-classification"), data, out, budget="quick", **given
    )


def test_a_few_copies_are_left_out_and_counted(checkpoints, tmp_path):
    data = with_copies(
        tiny.corpus(tmp_path / "own", members=8, heldout=40), tmp_path / "data", 0.05
    )
    opened = open_session(options(checkpoints, data, tmp_path / "out"))
    assert {document.id for document in opened.data.whole.documents} - {
        document.id for document in opened.corpus.documents
    } == {  # type: ignore[union-attr]
        "h0",
        "h1",
    }
    assert "2 held-out documents are copies, or nearly, of 2 member ones." in opened.warnings
    with claim_folder(opened.options.out):
        record = run_scan(opened, SILENT)
    assert (record.corpus.near_copies, record.corpus.documents["heldout"]) == ({"heldout": 2}, 38)
    assert record.corpus.sha256 == manifests.load(data).sha256
    (result,) = record.attacks
    assert result.status == "completed"
    assert result.confounded is None


def test_a_plan_says_that_copies_confound_what_is_compared(tmp_path):
    corpus = manifests.load(with_copies(LETTERS / "data", tmp_path / "data", 1.0))
    policy = policies.load("default")
    found = plan.plan_limits(
        corpus, policy, "standard", at_most(corpus, "standard"), {}, find_copies(corpus)
    )
    outcomes = {(one.attack, one.metric): (one.outcome, one.reason) for one in found.limits}
    assert outcomes["membership", "auc"][0] == "confounded"
    assert "unseen documents are copies of training documents" in outcomes["membership", "auc"][1]
    assert outcomes["canaries", "excess"][0] != "confounded"  # compares canaries with each other


def cut(image: Path) -> None:
    image.write_bytes(image.read_bytes()[: image.stat().st_size // 2])


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_pages_that_cannot_be_decoded_are_all_named_before_a_scan(command, tmp_path):
    data = tiny.corpus(tmp_path / "data", images=True)
    for name in ("m1", "h2"):
        cut(data / manifests.load(data).document(name).image)  # type: ignore[operator]
    result = docaudit(command, data)
    assert result.exit_code == 2
    (line,) = [
        line for line in result.output.replace("\n  ", " ").splitlines() if line.startswith("error")
    ]
    assert re.search(r"document m1: .*\(2 times, also document h2\)", line), line


def test_a_page_that_is_damaged_during_a_scan_ends_its_attack_and_no_other(
    checkpoints, tmp_path, monkeypatch
):
    # So dear that the time allows no more than a quarter, in which membership does not compare the
    # page.
    monkeypatch.setattr("audit.workflows.planning.estimate", lambda *_: 1e6)
    data = tiny.corpus(tmp_path / "data", images=True)
    opened = open_session(
        options(checkpoints, data, tmp_path / "out", only=("reconstruction", "membership"))
    )
    cut(data / opened.corpus.document("m1").image)  # type: ignore[operator]

    def looks(self: Reconstruction, case: Any, *others: Any) -> None:
        open_image(case.corpus, case.corpus.document("m1"))

    monkeypatch.setattr(Reconstruction, "measure", looks)
    with claim_folder(opened.options.out):
        record = run_scan(opened, SILENT)
    reconstruction, membership = record.attacks
    assert reconstruction.status == "failed"
    assert reconstruction.reason.why.startswith("ManifestError at ")
    assert membership.status == "completed"
    assert "document m1" in (opened.options.evidence / "failure-reconstruction.txt").read_text()


def test_a_disk_that_cannot_be_written_ends_the_scan(checkpoints, tmp_path, monkeypatch):
    opened = open_session(options(checkpoints, tiny.corpus(tmp_path / "data"), tmp_path / "out"))

    def full(*_: Any) -> None:
        raise EngineError("no space")

    monkeypatch.setattr(Reconstruction, "measure", full)
    with claim_folder(opened.options.out), pytest.raises(EngineError):
        run_scan(opened, SILENT)


def test_a_worker_elsewhere_leaves_out_the_same_documents(checkpoints, tmp_path):
    data = with_copies(
        tiny.corpus(tmp_path / "own", members=8, heldout=40, images=True), tmp_path / "data", 0.05
    )
    opened = open_session(options(checkpoints, data, tmp_path / "out"))
    (attack,) = opened.attacks
    source = work_of(opened, fill_references(opened, SILENT), attack=attack)
    work = opened_elsewhere(source, tmp_path / "elsewhere")
    assert work.case.corpus.documents == opened.corpus.documents
    assert len(opened.corpus.documents) == len(manifests.load(data).documents) - 2


def test_inspect_warns_of_copies(tmp_path):
    said = " ".join(
        docaudit("inspect", with_copies(LETTERS / "data", tmp_path / "data", 0.5)).output.split()
    )
    assert "38 held-out documents are copies, or nearly, of 38 member ones" in said
    assert "38 of 75 unseen documents are copies of training documents" in said
