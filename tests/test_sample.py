"""The committed sample: what a newcomer runs first, and what its reports must not say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pypdf import PdfReader

from audit import record as records
from audit.corpus import manifest
from audit.corpus.folding import fold

SAMPLE = Path(__file__).parents[1] / "sample_models" / "receipts"
MIN_DOCUMENTS = 150
MAX_BYTES = 15_000_000
pytestmark = pytest.mark.xdist_group("sample")  # two scans serve all of these tests: one worker runs them


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """The leaky model on a quarter of the fields, the clean one on all: (output folder, exit code, what it printed)."""
    root = tmp_path_factory.mktemp("sample")

    def scan(model, *more):
        command = [sys.executable, "-m", "audit", "scan", SAMPLE / model, SAMPLE / "data", "--out", root / model, *more]
        found = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        return root / model, found.returncode, found.stdout + found.stderr

    return {"model": scan("model", "--budget", "quick", "--reveal"), "clean": scan("clean")}


def test_the_leaky_model_is_violated_and_the_clean_one_passes(scans):
    assert scans["model"][1] == 10, scans["model"][2]
    assert scans["clean"][1] == 0, scans["clean"][2]


def test_the_sample_is_small_and_large_enough():
    assert sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()) < MAX_BYTES
    corpus = manifest.load(SAMPLE / "data")
    assert len(corpus.of("member")) >= MIN_DOCUMENTS
    assert len(corpus.of("heldout")) >= MIN_DOCUMENTS


def test_shareable_outputs_hold_no_value_id_or_provider(scans):
    secrets = _secrets(manifest.load(SAMPLE / "data"))
    for out, _, printed in scans.values():
        recovered = [json.loads(line) for line in (out / "evidence" / "recovered.jsonl").read_text().splitlines()]
        secrets |= {str(row[key]) for row in recovered for key in ("value", "recovered", "baseline")}
        texts = {
            "record.json": (out / "record.json").read_text(),
            "report.html": (out / "report.html").read_text(),
            "report.pdf": "\n".join(page.extract_text() for page in PdfReader(out / "report.pdf").pages),
            "terminal": printed,
        }
        for name, text in texts.items():
            assert _standing(secrets, text) == [], name
        revealed = out / "evidence" / "report-revealed.html"
        if revealed.exists():
            assert _standing(secrets, revealed.read_text()), "the search finds values where there are some"


def test_every_file_a_scan_writes_is_a_known_one(scans):
    for out, _, _ in scans.values():
        shareable = {path.name for path in out.iterdir() if path.name != "evidence"}
        assert shareable == {".lock", "record.json", "report.html", "report.pdf"}


def test_the_pdf_says_what_the_record_says(scans):
    out, _, _ = scans["model"]
    first = PdfReader(out / "report.pdf").pages[0].extract_text()
    assert "VIOLATED" in first.upper()
    (attack,) = records.read(out).attacks
    found = next(item for item in attack.measurements if item.name == "pr.member.attack.unique")
    assert f"{round(found.value * found.n)} of {found.n}" in " ".join(first.split())


def _secrets(corpus):
    secrets = set()
    for document in corpus.documents:
        secrets |= {document.id, document.provider}
        secrets |= {document.text_of(entity) for entity in document.entities}
    return secrets - {None}


def _standing(secrets, text):
    """The secrets that stand in a text as whole words, case and spacing folded.

    A number alone ("12.50", "7") would be met by chance among the statistics; values that are more than that are not.
    """
    folded = " " + re.sub(r"[^\w.,:/@'-]+", " ", text.casefold()) + " "
    closed = fold(text)
    found = []
    for secret in secrets:
        words = re.sub(r"[^\w.,:/@'-]+", " ", secret.casefold()).strip()
        if re.fullmatch(r"[\d\s.,]*", words) and len(words) < 6:
            continue
        if f" {words} " in folded or (len(fold(secret)) >= 10 and fold(secret) in closed):
            found.append(secret)
    return found
