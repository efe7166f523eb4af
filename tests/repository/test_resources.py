"""Templates and policies are found in a checkout and from an installed wheel, whatever the working directory."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from audit import policy
from audit.files import shipped_folder

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
import audit
from audit import policy
from audit import policy
from audit.files import shipped_folder
print(json.dumps({
    "package": audit.__file__,
    "templates": str(shipped_folder("templates")),
    "policies": str(shipped_folder("policies")),
    "limits": len(policy.load("default").limits),
    "strict": policy.load("strict").name,
}))
"""


def run_in(working_directory: Path, first_on_path: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=working_directory,
        env={"PYTHONPATH": str(first_on_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(target),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = target.glob("docaudit-*.whl")
    return built


def test_an_installed_wheel_finds_its_own_files(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    found = run_in(elsewhere, site)
    assert found["package"] == str(site / "audit" / "__init__.py")
    assert found["templates"] == str(site / "audit" / "templates")
    assert found["policies"] == str(site / "audit" / "policies")
    assert found["limits"] == len(policy.load("default").limits)
    assert found["strict"] == "strict"


def test_a_wheel_holds_what_the_checkout_does(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")
        }
    expected = {
        f"audit/{path.relative_to(REPOSITORY).as_posix()}"
        for name in ("templates", "policies")
        for path in (REPOSITORY / name).rglob("*")
        if path.is_file()
    }
    sample = REPOSITORY / "sample_models" / "receipts"
    expected |= {
        f"audit/{path.relative_to(REPOSITORY).as_posix()}"
        for part in ("model", "data/references/public-mlm")
        for path in (sample / part).iterdir()
    }
    expected |= {
        f"audit/sample_models/receipts/data/{name}" for name in ("manifest.toml", "documents.jsonl")
    }
    for name in ("audit", "docaudit"):
        expected |= {
            path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / name).rglob("*.py")
        }
    assert expected <= packed
    assert "audit/record.schema.json" in packed
    assert {name.split("/")[0] for name in packed} == {"audit", "docaudit"}


def test_a_wheel_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 7_500_000
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".png")]


def test_a_checkout_finds_its_own_files(tmp_path: Path) -> None:
    found = run_in(tmp_path, REPOSITORY)
    assert found["package"] == str(REPOSITORY / "audit" / "__init__.py")
    assert found["templates"] == str(REPOSITORY / "templates")
    assert found["policies"] == str(REPOSITORY / "policies")


def test_a_folder_that_is_missing_is_named() -> None:
    with pytest.raises(
        FileNotFoundError, match="docaudit's sounds/ folder is missing from this installation"
    ):
        shipped_folder("sounds")
