"""Every kind of model that people bring is inspected, planned and scanned, or is refused with a sentence.

What comes of each is kept in docs/reference/models.json, from which docs/generate.py makes the
tables of models in README and docs. Plain `pytest` runs one case of each mechanism, `pytest
tests/matrix -m ""` all; with DOCAUDIT_WRITE_MODELS=1 in the environment what came of them is
written down.
"""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from matrix_cases import COMMON, cases
from matrix_runs import run_case

from audit.attacks.battery import BATTERY

pytestmark = pytest.mark.usefixtures("few_pages", "few_providers", "few_folds")
RESULTS = Path(__file__).parents[2] / "docs" / "reference" / "models.json"
CASES = {case.id: case for case in cases()}
ALL = [
    pytest.param(case, id=name, marks=() if name in COMMON else pytest.mark.night)
    for name, case in CASES.items()
]


def known() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write_down(name: str, result: dict[str, Any], lock: Path) -> None:
    with FileLock(lock):
        found = {**known(), name: result}
        text = json.dumps(
            {one: found[one] for one in CASES if one in found}, indent=1, ensure_ascii=False
        )
        RESULTS.write_text(f"{text}\n")


@pytest.mark.parametrize("case", ALL)
def test_a_model_of_this_kind_is_audited_or_refused_as_the_reference_says(
    case, tmp_path, tmp_path_factory
):
    if missing := [name for name in case.needs if find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}: pip install 'docaudit[vision]'")
    result = run_case(case, tmp_path)
    if "DOCAUDIT_WRITE_MODELS" in os.environ:
        write_down(case.id, result, tmp_path_factory.getbasetemp().parent / "models.lock")
    assert result == known()[case.id]


@pytest.mark.parametrize("name", CASES)
def test_each_kind_completes_an_attack_or_is_refused_with_a_sentence(name):
    result = known()[name]
    status = {attack: found["status"] for attack, found in result["attacks"].items()}
    if result["refusal"] is None:
        assert ([*status], status["membership"]) == ([kind.name for kind in BATTERY], "completed")
        assert "failed" not in status.values()
    else:
        assert len(result["refusal"].split()) > 5
        assert not status


def test_the_reference_holds_these_kinds_and_no_others():
    assert [*known()] == [*CASES]
    assert set(CASES) >= COMMON
