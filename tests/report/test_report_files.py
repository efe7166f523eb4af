"""The files of a report: PDF and HTML together, a missing pango, a stale file, the revealed report."""

import builtins
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import example_records as examples
import pytest
from printed import texts
from pypdf import PdfReader
from shown_pages import check_text

from audit.attacks.text import CATEGORY_LABELS
from audit.cards import AuditSheet
from audit.errors import EngineError, RenderError
from audit.measurements import Count, Coverage, Histogram
from audit.policy import Limit, Policy
from audit.record import Result
from audit.report.files import write
from audit.report.revealed import write_revealed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    (out / "report.html").write_bytes(b"another verdict")
    assert write(*examples.violated(), out) == ()
    assert {path.name for path in out.iterdir()} == {
        "report.pdf",
        "report.html",
        "measurements.csv",
        "leaks.csv",
    }
    assert (out / "report.html").read_bytes() != b"another verdict"
    return out


def test_the_pdf_has_title_language_page_numbers_and_the_target_on_every_page(
    written: Path,
) -> None:
    pdf = PdfReader(written / "report.pdf")
    pages = texts(written / "report.pdf")
    named = (pdf.metadata.title, pdf.metadata.author) if pdf.metadata else None
    assert named == ("Privacy audit of LayoutLM model: exceeded", "docaudit 0.1.0")
    assert pdf.trailer["/Root"]["/Lang"] == "en"
    for number, text in enumerate(pages, start=1):
        assert f"Page {number} of {len(pages)}" in text
        assert "target 3fa94c1b3fa94c1b" in text


def test_page_one_is_one_page_however_much_there_is_to_say(tmp_path: Path) -> None:
    battery = ("reconstruction", "provider_membership", "canaries", "redaction_context")
    record = examples.record(
        examples.reconstruction(0.6),
        examples.gone(
            "provider_membership", "skipped", "missing", "no providers are named", "a provider each"
        ),
        examples.gone("canaries", "failed", "error", "RuntimeError at attacks/canaries.py:12"),
        examples.gone(
            "redaction_context", "inapplicable", "model", "the data set holds no redacted spans"
        ),
        battery=battery,
        name="layoutlm-base-uncased-finetuned-invoices-2026-checkpoint-" * 3,
    )
    metrics = examples.EXCESSES
    limits = tuple(
        Limit("reconstruction", metric, "why", max=0.05, min_power=0.5) for metric in metrics
    )
    write(*examples.judged(record, Policy(1, "a policy with a rather long name", limits)), tmp_path)
    first, second, *_ = texts(tmp_path / "report.pdf")
    assert all(words in first for words in (record.target.sha256[:16], "2 MARCH 2026"))
    assert "Scope and independence" in second


def leaking(name: str) -> Result:
    """An attack whose text has the longest question, and whose numbers fill every column."""
    gain = examples.mean("gain", 0.9, 0.01, 80, 0.1, "chance")
    coverage = (Coverage("all", 1_234, 123_456, "fields", 1_200),)
    return Result(name, measurements=(gain,), coverage=coverage)


@pytest.mark.parametrize("n_kinds", [0, 1, 8])
@pytest.mark.parametrize("n_attacks", [1, 3, 5, 9])
def test_page_one_is_one_page_whatever_came_back_and_however_long_the_owner_writes(
    tmp_path: Path, n_attacks: int, n_kinds: int
) -> None:
    kinds = [*CATEGORY_LABELS][:n_kinds]
    counts = tuple(Count(f"returned: {kind}", 1_000, "") for kind in kinds)
    restored = examples.reconstruction(0.6)
    histogram = Histogram(
        "returned", "values", (-0.5, 0.5, 1.5), {"member": (20, 140), "held-out": (160, 0)}
    )
    restored = dataclasses.replace(
        restored, counts=(*restored.counts, *counts), histograms=(histogram,)
    )
    attacks = [leaking(f"side_channel_of_a_plug_in_{index}") for index in range(n_attacks - 1)]
    battery = (restored.attack, *(attack.attack for attack in attacks))
    record = examples.record(restored, *attacks, battery=battery)
    long = "words of the owner that go on " * 5
    sheet = AuditSheet(
        model_name=long,
        model_version=long,
        system=long,
        purpose=long,
        controller=long,
        decides=long[:60],
        dpo=long[:60],
    )
    write(*examples.judged(dataclasses.replace(record, audit=sheet)), tmp_path)
    first, second, *_ = texts(tmp_path / "report.pdf")
    assert record.target.sha256[:16] in first
    assert "Scope and independence" in second


def test_the_same_record_gives_the_same_files_whatever_its_names_and_times_look_like(
    tmp_path: Path,
) -> None:
    record, verdict, policy = examples.inapplicable()
    odd = dataclasses.replace(
        record,
        target=dataclasses.replace(record.target, name="<script>"),
        audit=AuditSheet(model_name="<script>"),
        timing=dataclasses.replace(record.timing, finished="some day"),
    )
    kept = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert write(odd, verdict, policy, tmp_path / name) == ()
        kept.append(
            [(tmp_path / name / file).read_bytes() for file in ("report.html", "report.pdf")]
        )
    assert kept[0] == kept[1]
    assert "<script>" in texts(tmp_path / "one" / "report.pdf")[0]


@pytest.fixture
def without_pango(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "weasyprint":
            raise OSError("cannot load library 'libpango-1.0-0'")
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "weasyprint", raising=False)
    monkeypatch.setattr(builtins, "__import__", fail)


@pytest.mark.usefixtures("without_pango")
def test_without_pango_the_html_is_written_a_warning_names_the_packages_and_an_old_pdf_goes(
    tmp_path: Path,
) -> None:
    (tmp_path / "report.pdf").write_bytes(b"another verdict")
    (warning,) = write(*examples.skipped(), tmp_path)
    assert "libpango-1.0-0 libpangoft2-1.0-0" in warning
    assert "brew install pango" in warning
    assert "\n" not in warning
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html",
        "measurements.csv",
        "leaks.csv",
    }


def test_a_pdf_that_cannot_be_drawn_is_a_warning_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import weasyprint

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no glyph")

    monkeypatch.setattr(weasyprint.HTML, "render", fail)
    (tmp_path / "report.pdf").write_bytes(b"another verdict")
    (warning,) = write(*examples.skipped(), tmp_path)
    assert "weasyprint could not draw it (ValueError)" in warning
    assert not (tmp_path / "report.pdf").exists()


def test_when_the_html_cannot_be_written_no_older_report_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise EngineError(f"{path}: No space left on device")

    monkeypatch.setattr("audit.report.files.write_atomically", full)
    for name in ("report.html", "report.pdf"):
        (tmp_path / name).write_bytes(b"another verdict")
    with pytest.raises(EngineError, match="No space left"):
        write(*examples.skipped(), tmp_path)
    assert list(tmp_path.iterdir()) == []


FIELD_ROW = {
    "attack": "reconstruction",
    "document": "r017",
    "field": "e1",
    "category": "amount",
    "split": "member",
    "value": "<b>9.00</b>",
    "recovered": "9.10",
    "baseline": "1.00",
    "exact": False,
}
"""What an attack found of a field."""
QUESTION_ROW = {
    "attack": "memorisation",
    "document": "r021",
    "page": 4,
    "question_id": "q1",
    "question": "What is the <i>total</i>?",
    "category": "amount",
    "split": "member",
    "value": ["9.00", "RM9.00"],
    "status": "proven",
    "exact": {
        "target": "<b>9.00</b>",
        "baselines": ["1.00", "2.00"],
        "extracted": True,
    },
    "paraphrased": {
        "target": "9.00",
        "baselines": ["3.33"],
        "extracted": True,
    },
    "shuffled": {
        "target": "7.77",
        "baselines": ["8.88"],
        "extracted": False,
    },
}
"""What an attack found of the answer to a question."""
DOCUMENT_ROW = {
    "attack": "membership",
    "document": "r030",
    "split": "heldout",
    "scores": {"loss": -1.23456},
    "ranks": {"loss": 2},
}
"""What an attack found of a document."""


def test_the_revealed_report_shows_the_values_and_only_its_owner_can_read_it(
    tmp_path: Path,
) -> None:
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    exact = FIELD_ROW | {"document": "r018", "exact": True, "recovered": "<b>9.00</b>"}
    (evidence / "recovered.jsonl").write_text(
        json.dumps(FIELD_ROW) + "\n" + json.dumps(exact) + "\n"
    )
    case = examples.skipped()
    path = write_revealed(*case, tmp_path)
    text = path.read_text()
    assert (path, path.stat().st_mode & 0o777) == (evidence / "report-revealed.html", 0o600)
    assert evidence.stat().st_mode & 0o777 == 0o700
    assert text.index("r018") < text.index("r017")
    assert "&lt;b&gt;9.00&lt;/b&gt;" in text
    assert "<b>9.00" not in text
    assert "Confidential" in text
    assert [item.name for item in tmp_path.iterdir()] == ["evidence"]


def test_the_revealed_report_shows_question_context_and_what_each_model_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "evidence").mkdir()
    unread = {
        **{name: value for name, value in QUESTION_ROW.items() if not isinstance(value, dict)},
        "document": "r020",
    }
    unread |= {"status": "absent", "category": None}
    attempted = {**FIELD_ROW, "document": "r040", "exact_in_any_attempt": True}
    rows = [unread, QUESTION_ROW, DOCUMENT_ROW, FIELD_ROW, attempted]
    (tmp_path / "evidence" / "recovered.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    text = write_revealed(*examples.skipped(), tmp_path).read_text()
    check_text("revealed", text)
    assert "What is the &lt;i&gt;total&lt;/i&gt;?" in text
    assert "<b>9.00" not in text
    assert text.index("r021") < text.index("r020")
    assert text.index("r040") < text.index("r017")


def test_evidence_that_is_missing_or_damaged_is_said_without_quoting_it(tmp_path: Path) -> None:
    case = examples.skipped()
    with pytest.raises(RenderError, match="nothing to reveal") as missing:
        write_revealed(*case, tmp_path)
    assert "scan again" in missing.value.hint
    (tmp_path / "evidence").mkdir()
    secret = json.dumps(["secret-4711"])
    (tmp_path / "evidence" / "recovered.jsonl").write_text(
        f"{json.dumps(FIELD_ROW)}\n{secret}\nnot json secret-4712\n"
    )
    with pytest.raises(RenderError) as damaged:
        write_revealed(*case, tmp_path)
    assert [problem.split(" ")[0] for problem in damaged.value.problems] == [
        "recovered.jsonl:2",
        "recovered.jsonl:3",
    ]
    assert "secret" not in str(damaged.value)


def test_an_empty_scan_reveals_nothing_but_still_says_so(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "recovered.jsonl").write_text("")
    text = write_revealed(*examples.skipped(), tmp_path).read_text()
    assert "The evidence holds no recovered value" in text
    assert "Confidential" in text


def test_the_report_needs_neither_torch_nor_a_figure_library_to_be_imported() -> None:
    heavy = ("torch", "matplotlib", "weasyprint", "scipy")
    code = f"import audit.report, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
