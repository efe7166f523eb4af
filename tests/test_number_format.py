"""The number format of the encoder, which a scan settles on before any trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny

from audit.attacks.reconstruction import Reconstruction
from audit.engine.interface import SILENT
from audit.errors import UsageError
from audit.record import Result
from audit.workflows import execution
from audit.workflows.options import ScanOptions
from audit.workflows.scan import claim_folder, run_scan
from audit.workflows.setup import open_scan

pytestmark = pytest.mark.usefixtures("few_candidates")


@pytest.fixture(scope="module")
def scanned(checkpoints: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Scans the same tagger and corpus with an option changed; gives the attack's result."""
    data = tiny.corpus(tmp_path_factory.mktemp("corpus"))

    def scan(**changed: Any) -> Result:
        out = tmp_path_factory.mktemp("out")
        options = ScanOptions(
            checkpoints("layoutlm", "token-classification"),
            data,
            out,
            budget="quick",
            only=("reconstruction",),
            references={"auxiliary": [checkpoints("layoutlm", "mlm")]},
            **changed,
        )
        with claim_folder(out):
            (result,) = run_scan(open_scan(options), SILENT).attacks
        assert result.status == "completed", result
        return result

    return scan


def agreement(result: Result) -> float | None:
    return next((item.value for item in result.diagnostics if item.name == "bfloat16 agreement"), None)


def test_a_cpu_computes_in_float32_unless_it_is_asked(scanned: Any) -> None:
    result = scanned()
    assert (result.dtype, agreement(result)) == ("float32", None)


@pytest.mark.parametrize(("needed", "dtype"), [(0.0, "bfloat16"), (1.01, "float32")])
def test_bfloat16_is_kept_only_when_the_preflight_agrees(
    scanned: Any, needed: float, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "MIN_AGREEMENT", needed)
    result = scanned(dtype="bfloat16")
    found = agreement(result)
    assert found is not None
    assert 0 <= found <= 1
    assert result.dtype == dtype


def test_the_preflight_takes_members_and_held_out_fields_in_turn(scanned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    taken = Reconstruction.preflight

    def noted(self: Reconstruction, case: Any, rounded: Any, trial: Any, rng: Any) -> Any:
        seen.append(trial.stratum)
        return taken(self, case, rounded, trial, rng)

    monkeypatch.setattr(Reconstruction, "preflight", noted)
    scanned(dtype="bfloat16")
    assert abs(seen.count("member") - seen.count("heldout")) <= 1


def test_an_unknown_number_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such number format"):
        open_scan(ScanOptions(tmp_path, tmp_path, tmp_path, dtype="float8"))
