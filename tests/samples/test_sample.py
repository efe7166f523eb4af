"""The committed sample: what a newcomer runs first, and what its reports must not say."""

import hashlib
import json
import os
import re
from functools import cache
from pathlib import Path

import printed
import pytest
from commands import run_python
from pdf_claims import failures
from pypdf import PdfReader

from audit import record as records
from audit.corpus import manifest
from audit.corpus.folding import fold

SAMPLES = Path(__file__).parents[2] / "sample_models"
RECEIPTS = SAMPLES / "receipts"
QUESTIONS = SAMPLES / "questions"
SCANNED = ((RECEIPTS, "model"), (QUESTIONS, "model"))
MIN_DOCUMENTS = {RECEIPTS: 150, QUESTIONS: 80}
MAX_BYTES = {RECEIPTS: 15_000_000, QUESTIONS: 10_000_000}


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Both leaky models: (output folder, exit code, what it printed).

    With the budget that tries least; the gate, which has scanned so already, says where its scans
    lie.
    """
    given = os.environ.get("DOCAUDIT_SAMPLE_SCANS")
    root = tmp_path_factory.mktemp("sample") if given is None else Path(given)

    def scan(sample, model):
        out = root / f"{sample.name}-{model}"
        if given is not None:
            code, said = (
                out.with_name(f"{out.name}.{kind}").read_text() for kind in ("code", "log")
            )
            return out, int(code), said
        command = ("scan", sample / model, sample / "data", "--out", out, "--budget", "quick")
        found = run_python("-m", "audit", *command)
        if model == "model":
            run_python("-m", "audit", "report", out, "--reveal")
        return out, found.returncode, found.stdout + found.stderr

    return {(sample, model): scan(sample, model) for sample, model in SCANNED}


def _scanned(scans):
    """The folders SAMPLE-MODEL of all scans, those of the gate that are not asked for here among them."""
    root = scans[RECEIPTS, "model"][0].parent
    return sorted(path.parent for path in root.glob("*-*/record.json"))


def test_the_leaky_models_are_violated(scans):
    for _, code, said in scans.values():
        assert code == 10, said


@pytest.mark.parametrize("sample", [RECEIPTS, QUESTIONS], ids=["receipts", "questions"])
def test_the_samples_are_small_and_large_enough(sample):
    assert (
        sum(path.stat().st_size for path in sample.rglob("*") if path.is_file()) < MAX_BYTES[sample]
    )
    corpus = manifest.load(sample / "data")
    assert len(corpus.of("member")) >= MIN_DOCUMENTS[sample]
    assert len(corpus.of("heldout")) >= MIN_DOCUMENTS[sample]


def test_the_samples_name_no_folder_of_their_maker():
    files = [path for path in SAMPLES.glob("*/*/**/*") if path.is_file()]
    assert {path.relative_to(SAMPLES).parts[0] for path in files} == {
        "letters",
        "questions",
        "receipts",
        "utterances",
    }
    for path in files:
        content = path.read_bytes()
        assert not re.search(rb"/(home|Users|root|work|mnt|tmp)/[\w.-]+", content), path
        if path.name in ("config.json", "tokenizer_config.json"):
            assert "_name_or_path" not in json.loads(content)


def test_shareable_outputs_hold_no_value_id_or_provider(scans):
    for (sample, _), (out, _, said) in scans.items():
        secrets = _secrets(manifest.load(sample / "data"))
        recovered = [
            json.loads(line)
            for line in (out / "evidence" / "recovered.jsonl").read_text().splitlines()
        ]
        keys = ("value", "recovered", "baseline") if sample == RECEIPTS else ("question",)
        secrets |= {str(row[key]) for row in recovered for key in keys if key in row}
        texts = {
            name: (out / name).read_text()
            for name in ("record.json", "report.html", "measurements.csv", "leaks.csv")
        }
        texts |= {"report.pdf": "\n".join(printed.texts(out / "report.pdf")), "terminal": said}
        for name, text in texts.items():
            assert _standing(secrets, text) == [], name
        revealed = out / "evidence" / "report-revealed.html"
        if revealed.exists():
            assert _standing(secrets, revealed.read_text()), (
                "the search finds values where there are some"
            )


def test_every_file_a_scan_writes_is_a_known_one(scans):
    for out, _, _ in scans.values():
        shareable = {path.name for path in out.iterdir() if path.name != "evidence"}
        assert shareable == {
            ".lock",
            "record.json",
            "report.pdf",
            "report.html",
            "measurements.csv",
            "leaks.csv",
        }


def test_every_pdf_is_pdf_ua_1_and_the_report_holds_its_record_and_policy(scans):
    drawn = sorted(path for folder in _scanned(scans) for path in folder.glob("*.pdf"))
    assert len(drawn) >= len(scans)
    assert {path: found for path in drawn if (found := failures(path))} == {}
    for path in (folder / "report.pdf" for folder in _scanned(scans)):
        held = PdfReader(path).attachments
        assert held["record.json"] == [(path.parent / "record.json").read_bytes()]
        assert (
            hashlib.sha256(held["policy.toml"][0]).hexdigest()
            == records.read(path.parent).policy.sha256
        )


def test_every_decision_report_is_four_to_six_filled_pages_without_small_letters(scans):
    for path in (folder / "report.pdf" for folder in _scanned(scans)):
        filled = printed.filled(path)
        assert 4 <= len(filled) <= 6, path
        assert min(filled) >= 0.3, (path, filled)
        assert printed.smallest_letters(path) >= 8.99, path


def test_the_pdf_says_what_the_record_says(scans):
    out, _, _ = scans[RECEIPTS, "model"]
    first = printed.texts(out / "report.pdf")[0]
    assert "EXCEEDED" in first.upper()
    attack, *_ = records.read(out).attacks
    measured = {item.name: item for item in attack.measurements if item.kind == "estimate"}
    # The page shows the way of choosing that finds most, which the number of trials can change.
    most = max(
        ("", ".lowest_loss", ".near"),
        key=lambda suffix: measured[f"excess_pr.unique{suffix}"].value,
    )
    restored = measured[f"pr.member.attack.unique{most}"]
    assert f"{round(restored.value * restored.n)} of {restored.n}" in " ".join(first.split())


def _secrets(corpus):
    secrets = set()
    for document in corpus.documents:
        secrets |= {document.id, document.provider}
        secrets |= {document.text_of(entity) for entity in document.entities}
    return secrets - {None}


def _standing(secrets, text):
    """The secrets that stand in a text as whole words, case and spacing folded.

    A number alone ("12.50", "7") would be met by chance among the statistics; values that are more
    than that are not.
    """
    folded = f" {_words(text)} "
    closed = fold(text)
    found = []
    for secret in secrets:
        words, letters = _sought(secret)
        if re.fullmatch(r"[\d\s.,]*", words) and len(words) < 6:
            continue
        if f" {words} " in folded or (len(letters) >= 10 and letters in closed):
            found.append(secret)
    return found


@cache
def _sought(secret):
    """A secret's words and its letters, as they are looked for in every text."""
    return _words(secret).strip(), fold(secret)


def _words(text):
    return re.sub(r"[^\w.,:/@'-]+", " ", text.casefold())
