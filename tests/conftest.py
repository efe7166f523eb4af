"""Fixtures that many tests share.

Tiny checkpoints are made once a session; tests must not write into them.
"""

import functools
import gc
import os
import re
import tomllib

# Before anything imports huggingface_hub: a test that would reach for the network fails instead.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# The models are so small that a second thread only waits, for seconds where the machine is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Workers of pytest-xdist are told of a terminal; tests read what commands print into a log, but for
# those that say so.
os.environ.pop("COLUMNS", None)

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny
import typer.testing
import vision_operators
from hypothesis import settings

from audit.attacks import TEXTS

vision_operators.declare_when_imported()
# Neither collecting tests nor running them leaves much behind: garbage is sought seldom.
gc.set_threshold(100_000, 20, 20)

# Typer makes every command from its signature again at each call, for hundreds of calls in the
# tests.
_make_command = typer.testing._get_command
typer.testing._get_command = functools.cache(_make_command)

# How long an example takes depends on what else the machine does. Each run draws others; the nights
# draw many.
settings.register_profile("docaudit", deadline=None, max_examples=15)
settings.register_profile("night", deadline=None, max_examples=250)
settings.load_profile("docaudit")

Checkpoints = Callable[..., Path]

TESTS = Path(__file__).parent
AT_NIGHT: dict[str, dict[str, str]] = tomllib.loads((TESTS / "at_night.toml").read_text())
"""By file and test, in which `*` stands for anything: why it need not run at every push."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs at night.

    Files with a slow test come first, so that no worker begins one at the end.
    """
    left = _mark_for_the_night(items)
    whole_files = not config.getoption("lf", False) and not any(
        "::" in argument for argument in config.args
    )
    if left and whole_files:
        raise pytest.UsageError(f"tests/at_night.toml: there is no test {', '.join(left)}")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def _mark_for_the_night(items: list[pytest.Item]) -> list[str]:
    """Mark them, and return the names in `AT_NIGHT` that no test of a collected file has."""
    of_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_file.setdefault(item.path.relative_to(TESTS).as_posix(), []).append(item)
    left = []
    for file in of_file.keys() & AT_NIGHT.keys():
        for name in AT_NIGHT[file]:
            pattern = re.compile(".*".join(re.escape(part) for part in name.split("*")))
            found = [item for item in of_file[file] if pattern.fullmatch(item.name)]
            for item in found:
                item.add_marker(pytest.mark.night)
            left += [] if found else [f"{file}::{name}"]
    return sorted(left)


@pytest.fixture(scope="module", autouse=True)
def _older_objects_are_kept() -> None:
    """What is imported stays: every training, which begins by seeking garbage, would seek it there for long."""
    gc.freeze()


@pytest.fixture
def commands_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that change what a command's help says."""
    monkeypatch.setattr(typer.testing, "_get_command", _make_command)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """`checkpoints(family, head, seed)`: the folder of a tiny checkpoint with its head's labels, made when asked."""
    root = tmp_path_factory.mktemp("checkpoints")

    def folder(family: tiny.FamilyName, head: tiny.HeadName, seed: int = 0) -> Path:
        place = root / f"{family}-{head}-{seed}"
        return place if place.exists() else tiny.checkpoint(place, family, head, seed)

    return folder


@pytest.fixture(scope="session")
def vlms(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`vlms(family)`: the folder of a tiny image-text-to-text model, made when asked; read only."""
    import vlm_zoo

    root = tmp_path_factory.mktemp("vlms")

    def folder(family: str) -> Path:
        vlm_zoo.skip_unless_readable(family)
        return (
            root / family if (root / family).exists() else vlm_zoo.write_vlm(root / family, family)
        )

    return folder


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny data set with images; read only."""
    return tiny.corpus(tmp_path_factory.mktemp("corpus") / "data", images=True)


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Reports without the drawing of PDF and diagrams, most of a small scan's time, for tests of something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit.report.files.pdf", lambda *_: b"%PDF-1.7\n")
        patch.setattr(
            "audit.report.svg.as_svg", lambda figure, name, *_: f'<svg id="{name}"></svg>'
        )
        yield


@pytest.fixture(scope="module", autouse=True)
def _only_tests_of_reports_draw_them(request: pytest.FixtureRequest) -> None:
    if request.path.parent.name not in ("report", "samples"):
        request.getfixturevalue("undrawn")


@pytest.fixture(scope="module")
def few_candidates() -> Iterator[None]:
    """Reconstruction with few candidates and attempts, where a test is about something else.

    It takes most of a small scan's time.
    """
    with pytest.MonkeyPatch.context() as patch:
        for budget, n_candidates in {"quick": 4, "standard": 8, "full": 16}.items():
            n_pages = 0 if budget == "quick" else 2
            few = {"n_candidates": n_candidates, "n_attempts": 2, "n_pages": n_pages}
            patch.setitem(TEXTS["reconstruction"].budgets, budget, few)
        yield


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many threads of torch."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
