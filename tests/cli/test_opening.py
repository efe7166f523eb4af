"""Commands that open a model say so before they load torch, which takes seconds or minutes."""

import os
from pathlib import Path

import pytest
from commands import run_python

SAMPLE = Path(__file__).parents[2] / "sample_models" / "receipts"
MODEL = str(SAMPLE / "model")
DATA = str(SAMPLE / "data")
LOADS_TORCH = """
import sys
print("torch is loaded", file=sys.stderr)
raise SystemExit(3)
"""


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["scan", MODEL, DATA], id="scan"),
        pytest.param(["scan", DATA, "--checkpoints", f"{SAMPLE}/mod*"], id="checkpoints"),
        pytest.param(["inspect", MODEL, DATA], id="inspect"),
        pytest.param(["plan", MODEL, DATA], id="plan"),
        pytest.param(["references", MODEL, DATA], id="references"),
        pytest.param(["references", MODEL, DATA, "--train"], id="train references"),
        pytest.param(["fix", "."], id="fix"),
        pytest.param(["fix", ".", "--confirm", "scrub"], id="confirm a fix"),
        pytest.param(["defend", "scrub", MODEL, DATA], id="defend"),
    ],
)
def test_a_command_says_what_it_opens_before_it_loads_torch(
    command: list[str], tmp_path: Path
) -> None:
    instead = tmp_path / "instead"
    instead.mkdir()
    (instead / "torch.py").write_text(LOADS_TORCH)
    root = str(SAMPLE.parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(instead), root])}
    ran = run_python("-m", "audit", *command, cwd=tmp_path, env=environment)
    lines = ran.stderr.splitlines()
    assert "torch is loaded" in lines, ran.stderr
    before = lines[lines.index("torch is loaded") - 1]
    assert before.startswith("opening the "), ran.stderr
