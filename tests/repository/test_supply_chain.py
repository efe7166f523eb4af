"""What is installed beside docaudit: locked by hash, licensed, looked up in advisories, and built twice alike."""

import hashlib
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import load

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
INSTALLED = ("torch", "docaudit", "extras")
AGAIN = (
    "constraints.txt, pyproject.toml and locks/ say different things: run `python locks/write.py`"
)


write = load(LOCKS / "write.py")
licences = load(LOCKS / "licences.py")
advisories = load(ROOT / ".ci" / "advisories.py")


def locked(*names):
    return {
        key: block
        for name in names
        for key, block in write.split((LOCKS / f"{name}.txt").read_text()).items()
    }


def pins(blocks):
    return dict(map(write.pin, blocks.values()))


def constraints():
    """Return the versions in constraints.txt by canonical package name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines)
    }


# Locks.


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_lock_gives_the_version_of_the_constraints_and_a_hash_of_each_package(path):
    blocks = locked(path.stem)
    assert pins(blocks).items() <= constraints().items(), AGAIN
    for block in blocks.values():
        hashes = block.split(" \\\n")[1:]
        assert hashes, block
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}", line) for line in hashes), block
    # Nothing of whoever wrote it: no index, no path.
    assert not re.search(r"://|index-url|find-links|file:", path.read_text(encoding="utf-8"))


def test_the_locks_hold_all_that_docaudit_and_its_extras_ask_for():
    extras = PROJECT["project"]["optional-dependencies"]
    light = PROJECT["project"]["dependencies"]
    assert lacking(light, pins(locked("light"))) == [], AGAIN
    assert lacking([*light, *extras["diff"]], pins(locked("light", "diff"))) == [], AGAIN
    asked = [*light, *extras["pdf"], *extras["diff"], *extras["scan"]]
    assert lacking(asked, pins(locked("torch", "docaudit"))) == [], AGAIN
    others = [
        line for name, lines in extras.items() if name not in write.LEFT_OUT for line in lines
    ]
    assert lacking(others, pins(locked(*INSTALLED))) == [], AGAIN
    assert lacking(PROJECT["build-system"]["requires"], pins(locked("build"))) == [], AGAIN


def lacking(lines, found):
    """Return the requirements that no pin meets, apart from those for extras of docaudit."""
    return [
        line
        for line in lines
        if not line.startswith("docaudit[")
        if (name := canonicalize_name((one := Requirement(line)).name)) not in found
        or not one.specifier.contains(found[name])
    ]


def test_what_the_locked_packages_need_is_locked_too():
    found = pins(locked(*INSTALLED))
    for name in found:
        try:
            needed = map(Requirement, metadata.requires(name) or [])
        except (
            metadata.PackageNotFoundError
        ):  # another system's, or an extra that the tests do without
            continue
        here = [
            str(one).split(";")[0]
            for one in needed
            if one.marker is None or one.marker.evaluate({"extra": ""})
        ]
        assert lacking(here, found) == [], name


# Licences.


def rows():
    lines = licences.PAGE.read_text(encoding="utf-8").splitlines()
    return {
        cells[0]: cells[1:]
        for cells in (line.strip("| ").split(" | ") for line in lines if line.startswith("| "))
    }


def test_every_locked_package_is_listed_with_its_version_and_a_licence_that_does():
    listed = {
        name: version for name, (version, *_) in rows().items() if name not in ("package", "---")
    }
    assert listed == pins(locked(*INSTALLED)), AGAIN
    assert licences.PAGE.read_text(encoding="utf-8").startswith(licences.HEAD), AGAIN
    for name in listed:
        _, stated, owner = rows()[name]
        assert licences.is_compatible(stated, proprietary=owner == "torch"), (name, stated)


def test_the_list_says_what_the_installed_packages_say():
    for name, (version, stated, _) in rows().items():
        try:
            same = metadata.version(name).split("+")[0] == version
        except metadata.PackageNotFoundError:
            continue
        # Another build of torch carries other libraries.
        assert not same or name == "torch" or licences.installed(name) == stated, name


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param(
            ("MIT OR Apache-2.0", "odd", ("License :: Other/Proprietary License",)),
            "MIT OR Apache-2.0",
            id="the expression comes first",
        ),
        pytest.param((None, "Apache 2.0", ()), "Apache-2.0", id="the licence in words"),
        pytest.param(
            (None, "MPL-2.0 AND MIT", ()),
            "MPL-2.0 AND MIT",
            id="an expression in the field of the licence",
        ),
        pytest.param(
            (None, "Copyright (c) 2021\n...", ("License :: OSI Approved :: BSD License",)),
            "BSD",
            id="the classifier where the licence is a text",
        ),
        pytest.param(
            (
                None,
                None,
                (
                    "License :: OSI Approved :: BSD License",
                    "License :: OSI Approved :: MIT License",
                ),
            ),
            "not stated",
            id="two classifiers state none",
        ),
        pytest.param((None, "Do what you like", ()), "not stated", id="a sentence"),
        pytest.param((None, None, None), "not stated", id="nothing stated"),
    ],
)
def test_a_licence_is_read_from_the_field_that_states_it_exactly(stated, expected):
    assert licences.licence("some", *stated) == expected


def test_no_list_is_written_where_pip_states_no_licence(monkeypatch):
    """An old pip leaves the field `License-Expression` out of its report."""
    stated = {"click": licences.UNKNOWN, "certifi": "MPL-2.0"}
    monkeypatch.setattr(licences, "ask_index", lambda requirements: stated.items())
    pinned = {"docaudit": [("click", "8.5.1"), ("certifi", "2026.10.18")]}
    with pytest.raises(SystemExit) as stopped:
        licences.page(pinned)
    message = str(stopped.value)
    assert "no licence of click:" in message
    assert "python -m pip install --upgrade pip" in message
    stated["click"] = "BSD-3-Clause"
    assert "| click | 8.5.1 | BSD-3-Clause | docaudit |\n" in licences.page(pinned)


def test_the_wheel_states_the_licences_of_what_it_carries():
    assert PROJECT["project"]["license"] == "Apache-2.0 AND Bitstream-Vera AND MIT AND OFL-1.1"
    fonts = ROOT / "templates" / "fonts"
    assert "SIL Open Font License" in (fonts / "LICENSE").read_text(encoding="utf-8")
    assert "Bitstream Vera" in (fonts / "LICENSE-DejaVu").read_text(encoding="utf-8")
    library = ROOT / "templates" / "vendor" / "uplot"
    assert "The MIT License" in (library / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "digest"),
    [
        ("uPlot.iife.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
        ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        ("LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    ],
)
def test_the_library_of_charts_is_the_one_that_its_readme_names(file, digest):
    library = ROOT / "templates" / "vendor" / "uplot"
    assert hashlib.sha256((library / file).read_bytes()).hexdigest() == digest
    assert f"`{file}` | `{digest}`" in (library / "README.md").read_text(encoding="utf-8")


# Advisories.

FOUND = {
    "name": "torch",
    "version": "2.13.0",
    "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["2.13.1"]}],
}
FINE = {"name": "click", "version": "8.4.2", "vulns": []}
SKIPPED = {"name": "numpy", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "message", "code_if_optional", "code_if_required"),
    [
        pytest.param(
            (FINE, FOUND), "torch 2.13.0: PYSEC-2026-1, mended in 2.13.1", 1, 1, id="an advisory"
        ),
        pytest.param(
            (FINE, FINE),
            "2 of 2 packages looked up: no known vulnerability",
            0,
            0,
            id="all looked up",
        ),
        pytest.param(
            (FINE, SKIPPED),
            "1 of 2 packages looked up: no known vulnerability",
            0,
            1,
            id="one not looked up",
        ),
        pytest.param(
            (SKIPPED, SKIPPED),
            "not checked: no advisory database reachable",
            0,
            1,
            id="none looked up",
        ),
        pytest.param((), "not checked: no advisory database reachable", 0, 1, id="no packages"),
    ],
)
def test_a_package_that_was_not_looked_up_is_not_called_safe(
    packages, message, code_if_optional, code_if_required
):
    assert advisories.judge(packages, required=False) == (message, code_if_optional)
    assert advisories.judge(packages, required=True) == (message, code_if_required)


def test_an_accepted_advisory_is_named_and_fails_nothing(monkeypatch):
    monkeypatch.setitem(advisories.ACCEPTED, "PYSEC-2026-1", "docaudit never loads a pickle")
    said, code = advisories.judge([FOUND], required=True)
    assert code == 0
    assert said.splitlines() == [
        "accepted: torch 2.13.0: PYSEC-2026-1 (docaudit never loads a pickle)",
        "1 of 1 packages looked up: no other known vulnerability",
    ]


@pytest.mark.parametrize(
    "script", ["print('broken')", "raise SystemExit(1)", "import time; time.sleep(60)"]
)
def test_a_database_that_does_not_answer_lets_the_gate_go_on(script, capsys):
    assert advisories.ask([sys.executable, "-c", script], timeout=1) == []


# Releases.


def test_two_builds_of_one_commit_are_equal_byte_for_byte(tmp_path, monkeypatch):
    first, second = (build(tmp_path / name, monkeypatch) for name in ("first", "second"))
    assert (len(first), first) == (2, second)


def build(folder, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_licence_does_when_one_choice_does_in_all_its_parts():
    assert licences.is_compatible("GPL-2.0-or-later OR MPL-1.1", proprietary=False)
    assert not licences.is_compatible("MIT AND GPL-3.0-only", proprietary=True)
    assert not licences.is_compatible(licences.UNKNOWN, proprietary=True)
    assert not licences.is_compatible("LicenseRef-NVIDIA-Proprietary", proprietary=False)


def test_a_lock_holds_the_files_of_every_system_and_torch_apart_from_the_rest():
    torch = locked("torch")
    assert torch["torch"].count("--hash") >= len(write.SYSTEMS) * len(write.PYTHONS)
    assert not any(
        write.belongs_to_torch(name)
        for name in locked("docaudit", "light", "diff", "build", "tools")
    )
    assert "colorama" in locked("docaudit")
    assert not any("emscripten" in name or "pypy" in name for name in locked(*INSTALLED))


def test_the_build_backend_is_pinned_where_constraints_do_not_reach():
    (line,) = PROJECT["build-system"]["requires"]
    name, version = line.split("==")
    assert constraints()[name] == version
