"""Look the locked packages up in an advisory database: `python .ci/advisories.py [--required]`.

Needs pip-audit (locks/tools.txt). Ends with 1 on a known vulnerability, and with --required where
not every package could be looked up, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

LOCKS = Path(__file__).parent.parent / "locks"
PATIENCE = 90.0
"""Seconds; over a hundred packages are asked for, one by one."""
ACCEPTED: dict[str, str] = {}
"""Advisories that touch nothing that docaudit does: the reason, by the identifier."""


def main() -> None:
    """Ask, say what was found, and end as it demands."""
    files = [
        word
        for name in ("torch", "docaudit", "extras")
        for word in ("-r", str(LOCKS / f"{name}.txt"))
    ]
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--disable-pip",
        "--require-hashes",
        "--format=json",
    ]
    command += ["--progress-spinner=off", "--timeout=10", *files]
    said, code = judge(ask(command, PATIENCE), required="--required" in sys.argv[1:])
    print(f"advisories: {said}")
    sys.exit(code)


def ask(command: Sequence[str], timeout: float) -> list[dict[str, Any]]:
    """The packages of pip-audit's report; none where it has no answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        return list(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return []


def judge(packages: Sequence[dict[str, Any]], *, required: bool) -> tuple[str, int]:
    """A sentence and the exit code.

    pip-audit itself ends with 0 when its database knows none of the packages.
    """
    looked_up = [one for one in packages if "skip_reason" not in one]
    if not looked_up:
        return "not checked: no advisory database reachable", int(required)
    found = [
        (f"{one['name']} {one['version']}", flaw) for one in looked_up for flaw in one["vulns"]
    ]
    open_ones = [told(package, flaw) for package, flaw in found if flaw["id"] not in ACCEPTED]
    if open_ones:
        return "\n".join(open_ones), 1
    lines = [
        f"accepted: {package}: {flaw['id']} ({ACCEPTED[flaw['id']]})" for package, flaw in found
    ]
    none = "no other known vulnerability" if found else "no known vulnerability"
    lines.append(f"{len(looked_up)} of {len(packages)} packages looked up: {none}")
    return "\n".join(lines), int(required and len(looked_up) < len(packages))


def told(package: str, flaw: dict[str, Any]) -> str:
    """One vulnerability of a package, and the versions without it."""
    return f"{package}: {flaw['id']}, {mended(flaw['fix_versions'])}"


def mended(versions: Iterable[str]) -> str:
    """Versions without a vulnerability, in words."""
    listed = ", ".join(versions)
    return f"mended in {listed}" if listed else "mended in no version yet"


if __name__ == "__main__":
    main()
