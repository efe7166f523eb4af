"""Licences of the locked packages, as their metadata state them, and the page that lists them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

PAGE = Path(__file__).with_name("licences.md")
UNKNOWN = "not stated"
WITHOUT = (
    "pip states no licence of {names}: run `python -m pip install --upgrade pip`, then this script "
    "again. If the licence stays unknown, read it, and add it to READ in locks/licences.py."
)
"""An old pip leaves the field `License-Expression` out of its report."""
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
FIELDS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "ISC License": "ISC",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
    "NVIDIA Proprietary Software": "LicenseRef-NVIDIA-Proprietary",
}
"""Ways to write a licence in the old metadata field, and the identifier of each."""
READ = {
    "cuda-toolkit": "LicenseRef-NVIDIA-Proprietary",
    "pyphen": "GPL-2.0-or-later OR LGPL-2.1-or-later OR MPL-1.1",
}
"""Licences that no field states: pyphen's from its description, cuda-toolkit's from the packages
that it stands for."""
PERMISSIVE = (
    {"0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0"}
    | {"CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Python-2.0", "Zlib"}
)  # fmt: skip
BY_FILE = {"LGPL", "LGPL-2.1-or-later", "MPL-1.1", "MPL-2.0"}
"""Of the package's own files alone; docaudit imports them unchanged and ships none of them."""
PROPRIETARY = {"LicenseRef-NVIDIA-Proprietary"}
"""NVIDIA's libraries, which torch's build for its GPUs loads."""
HEAD = """# Licences

<!-- Written by locks/write.py; change constraints.txt or that script, then run it again. -->

docaudit is under Apache-2.0. Its wheel carries the fonts of the reports, Liberation Sans and Mono (OFL-1.1), and of a
model's questions, DejaVu Sans (Bitstream-Vera). It carries uPlot (MIT), which draws the charts of `docaudit view`. All
are unchanged, with their licences beside them. It also carries a sample model and documents that were made here.

What pip installs beside it is listed below, with the licence that each package's metadata state; `BSD` is what some say
without a number of clauses. Those under MPL and LGPL are imported as they are; of pyphen's three licences MPL-1.1 is
enough. What begins with `nvidia-` or `cuda-` comes with torch's build for NVIDIA's GPUs alone, most of it under its own
terms: where these will not do, install a build for CPUs ([how](../docs/trust.md#another-build-of-torch)).

Not installed by pip: WeasyPrint loads the system's pango (LGPL), which draws the PDF, and what pango needs; Tesseract
(Apache-2.0) runs as a program of its own. In the container image both are Debian's packages, whose licences stand in
`/usr/share/doc/*/copyright`. The tests alone use more, such as axe-core (MPL-2.0) in the package axe-playwright-python;
no installation and no wheel has it.

| package | version | licence | for |
| --- | --- | --- | --- |
"""


def page(locks: Mapping[str, Iterable[tuple[str, str]]]) -> str:
    """The page, of names and versions by what needs them; the first that does is named.

    Raises:
        SystemExit: pip states no licence of a package.
    """
    owners = {name: (version, lock) for lock in reversed(locks) for name, version in locks[lock]}
    stated = dict(ask_index([f"{name}=={version}" for name, (version, _) in owners.items()]))
    unstated = sorted(name for name in owners if stated[name] == UNKNOWN)
    if unstated:
        sys.exit(WITHOUT.format(names=", ".join(unstated)))
    rows = [
        f"| {name} | {owners[name][0]} | {stated[name]} | {owners[name][1]} |"
        for name in sorted(owners)
    ]
    return HEAD + "\n".join(rows) + "\n"


def ask_index(requirements: Collection[str]) -> Iterator[tuple[str, str]]:
    """The licences that the package index's metadata state; nothing is installed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--quiet",
        ]
        subprocess.run([*command, "--report", str(report), *requirements], check=True)
        for one in json.loads(report.read_text(encoding="utf-8"))["install"]:
            known = one["metadata"]
            name = canonicalize_name(known["name"])
            yield (
                name,
                licence(
                    name,
                    known.get("license_expression"),
                    known.get("license"),
                    known.get("classifier"),
                ),
            )


def installed(name: str) -> str:
    """The licence that the metadata of an installed package state."""
    known = metadata.metadata(name)
    return licence(
        name, known.get("License-Expression"), known.get("License"), known.get_all("Classifier")
    )


def licence(
    name: str, expression: str | None, field: str | None, classifiers: Iterable[str] | None
) -> str:
    """An expression of SPDX identifiers: as stated, else from the older fields, the more exact one first."""
    if expression or name in READ:
        return expression or READ[name]
    words = [
        one.rsplit(" :: ", 1)[1]
        for one in classifiers or ()
        if one.startswith("License :: OSI Approved :: ")
    ]
    stated = FIELDS.get(field or "", field or "")
    if stated and all(is_known(part) for part in parts(stated)):
        return stated
    return CLASSIFIERS.get(words[0], UNKNOWN) if len(words) == 1 else UNKNOWN


def parts(expression: str) -> list[str]:
    """The single licences of an expression."""
    return [one for choice in expression.split(" OR ") for one in choice.split(" AND ")]


def is_known(identifier: str) -> bool:
    """Whether docaudit says something of this licence."""
    return identifier in PERMISSIVE | BY_FILE | PROPRIETARY


def is_compatible(expression: str, *, proprietary: bool) -> bool:
    """Whether an Apache-2.0 program may depend on it: one choice of the expression must do in all its parts."""
    fine = PERMISSIVE | BY_FILE | (PROPRIETARY if proprietary else set())
    return any(fine.issuperset(choice.split(" AND ")) for choice in expression.split(" OR "))
