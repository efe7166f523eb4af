"""Run docaudit of a checkout on a model and a data set, once for each content of both and of the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.calibration.false_passes.store import Store, digest_of_files, key_of

VERDICT = "verdict.json"
OUTCOME = "outcome.json"
RAN = (0, 10, 11)
"""Exit codes of an audit that came to a verdict."""
Numbers = dict[str, float]


@dataclass(frozen=True)
class Policy:
    """A policy of this benchmark.

    Attributes:
        name: a shipped policy where `text` is empty.
        text: of a policy file.
    """

    name: str
    text: str = ""


@dataclass(frozen=True)
class Audit:
    """A command of docaudit, and the numbers of a direct attack on the same model.

    Attributes:
        command: what is run; "gate" judges the record of `record_of` anew.
        model, data: their folders.
        policy: that decides.
        references: folders by docaudit's name of the reference.
        only: attacks that are run; (): all.
        options: more words of the command line.
        ids: of the documents that were to be forgotten, for forget-check.
        direct: numbers of the direct attack, by their names.
        record_of: the audit whose record a gate reads.
    """

    command: Literal["scan", "forget-check", "gate"]
    model: Path
    data: Path
    policy: Policy
    references: Mapping[str, Path] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    direct: Numbers = field(default_factory=dict)
    record_of: Audit | None = None


class Docaudit:
    """docaudit of a checkout.

    Args:
        checkout: its folder.
        store: keeps the scans.
    """

    def __init__(self, checkout: Path, store: Store) -> None:
        """Take a checkout of docaudit, and hash its sources."""
        self.checkout = checkout.resolve()
        self.store = store
        files: list[Path] = []
        for name in ("audit", "docaudit", "policies"):
            files += filter(_is_source, (self.checkout / name).rglob("*"))
        self.digest = digest_of_files(files, self.checkout)

    @property
    def commit(self) -> str:
        """The commit of the checkout, with "+" where files differ from it."""
        command = [
            "git",
            "-C",
            str(self.checkout),
            "describe",
            "--always",
            "--abbrev=8",
            "--dirty=+",
            "--exclude=*",
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def policy_text(self, name: str) -> str:
        """Return the text of a policy that the checkout ships."""
        return (self.checkout / "policies" / f"{name}.toml").read_text(encoding="utf-8")

    def run(self, audit: Audit, name: str) -> dict[str, Any]:
        """Return what docaudit says of the audit: exit code, limits, seconds, and the words of an error."""
        outcome: dict[str, Any] = json.loads(
            (self._folder(audit, name) / OUTCOME).read_text(encoding="utf-8")
        )
        return outcome

    def _folder(self, audit: Audit, name: str) -> Path:
        """Return the folder of an audit's results; the audit runs where it is not stored yet."""
        record = None
        if audit.record_of is not None:
            record = self._folder(audit.record_of, f"{name}-scan") / "report"
        settings = [
            audit.command,
            audit.only,
            audit.options,
            audit.ids,
            audit.policy.name,
            audit.policy.text,
        ]
        places = [audit.model, audit.data, sorted(audit.references.items()), record]
        key = key_of(self.digest, *settings, *places)
        return self.store.folder(
            "scans", name, key, lambda folder: self._carry_out(audit, record, folder)
        )

    def _carry_out(self, audit: Audit, record: Path | None, folder: Path) -> None:
        """Run the audit in a process, and write its exit code, time and summary."""
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "audit", *_words(audit, record, folder)]
        environment = os.environ | {"PYTHONPATH": str(self.checkout), "HF_HUB_OFFLINE": "1"}
        began = time.monotonic()
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environment, cwd=folder
        )
        seconds = round(time.monotonic() - began, 1)
        outcome: dict[str, Any] = {"exit": ended.returncode, "seconds": seconds}
        if ended.returncode in RAN:
            outcome |= _summary(json.loads((folder / VERDICT).read_text(encoding="utf-8")))
        else:
            outcome["error"] = (ended.stderr or ended.stdout).strip()[-800:]
        (folder / OUTCOME).write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")


def _is_source(path: Path) -> bool:
    """Test whether a path is a file that is not compiled."""
    return path.is_file() and "__pycache__" not in path.parts


def _words(audit: Audit, record: Path | None, folder: Path) -> list[str]:
    """Return the words of the command line, and write the files that they name."""
    policy = audit.policy.name
    if audit.policy.text:
        policy_file = folder / "policy.toml"
        policy_file.write_text(audit.policy.text, encoding="utf-8")
        policy = str(policy_file)
    words: list[str] = [audit.command]
    if record is not None:
        words.append(str(record))
    else:
        words += [str(audit.model), str(audit.data), "--out", str(folder / "report")]
    for attack in audit.only:
        words += ["--only", attack]
    for name, place in audit.references.items():
        words += ["--reference", f"{name}={place}"]
    if audit.ids:
        ids_file = folder / "ids.txt"
        ids_file.write_text("".join(f"{name}\n" for name in audit.ids), encoding="utf-8")
        words += ["--ids", str(ids_file)]
    return [*words, *audit.options, "--policy", policy, "--format", f"json={folder / VERDICT}"]


def _summary(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return of a verdict what the table prints, without the limits on what was not examined."""
    limits = []
    for limit in verdict["limits"]:
        measured = limit["measured"]
        number = None
        if measured is not None:
            number = [round(measured[name], 3) for name in ("value", "low", "high")]
        if limit["outcome"] != "unexamined" or limit["counts"]:
            chosen = {
                name: limit[name]
                for name in ("attack", "metric", "outcome", "counts", "cause", "reason")
            }
            limits.append(chosen | {"number": number})
    return {"verdict": verdict["verdict"], "reason": verdict["reason"], "limits": limits}
