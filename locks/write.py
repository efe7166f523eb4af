"""Write the lock files, what constraints.txt lacks and locks/licences.md: `python locks/write.py`.

constraints.txt is the one place where versions are chosen; a lock adds the SHA-256 of every file of
each version that the package index lists, for all systems. Needs uv, a pip that reports
`License-Expression` (26.3 does), and a package index.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent))
import licences

LOCKS = Path(__file__).parent
ROOT = LOCKS.parent
CONSTRAINTS = ROOT / "constraints.txt"
LEFT_OUT = ("dev",)
"""Extras without a lock: they are no part of an installation."""
INSTALLED = ("pdf", "scan")
"""Extras that docaudit.txt holds, as the image does."""
TOOLS = ("build", "cyclonedx-bom", "hatchling", "pip-audit", "twine")
"""What the gate and the release run beside docaudit, in an environment of their own."""
ONLY_WITH_TORCH = ("torch", "triton")
ONLY_WITH_TORCH_STARTS = ("nvidia-", "cuda-")
SYSTEMS = (
    ("linux", "Linux", "posix", "x86_64"),
    ("linux", "Linux", "posix", "aarch64"),
    ("darwin", "Darwin", "posix", "arm64"),
    ("win32", "Windows", "nt", "AMD64"),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WITHOUT_WHEELS = ("docopt",)
"""Released as sources alone; only the extra `vision` needs it."""

Blocks = dict[str, str]
"""Lines of a lock file by the package's normalized name: version, marker, hashes."""


def main() -> None:
    """Resolve anew under constraints.txt, then write every file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = [name for name in project["project"]["optional-dependencies"] if name not in LEFT_OUT]
    whole = resolve("pyproject.toml", *_options("--extra", extras), wheels=False)
    tools = resolve("-", lines=TOOLS)
    complete_constraints([*whole.values(), *tools.values()])
    needed = resolve("pyproject.toml", *_options("--extra", INSTALLED))
    torch = {name: block for name, block in needed.items() if belongs_to_torch(name)}
    docaudit = {name: block for name, block in needed.items() if name not in torch}
    light = resolve("pyproject.toml")
    paired = resolve("pyproject.toml", *_options("--extra", ["diff"]))
    write("torch", "torch, and what only its builds of the default index need", torch)
    write("docaudit", "all that docaudit[pdf,scan] needs beside torch.txt", docaudit)
    write(
        "extras",
        "what the other extras need beside these two",
        {k: v for k, v in whole.items() if k not in needed},
    )
    write("light", "all that docaudit needs without an extra", light)
    write(
        "diff",
        "what docaudit[diff] needs beside light.txt",
        {name: block for name, block in paired.items() if name not in light},
    )
    write("build", "the build backend", resolve("-", lines=project["build-system"]["requires"]))
    write("tools", "what checks and releases docaudit", tools)
    listed = {"torch": torch, "docaudit": docaudit, "extras": whole}
    text = licences.page(
        {lock: [pin(block) for block in blocks.values()] for lock, blocks in listed.items()}
    )
    licences.PAGE.write_text(text, encoding="utf-8")


def _options(option: str, values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (option, value)


def belongs_to_torch(name: str) -> bool:
    """Whether an installation with another build of torch does without this package."""
    return name in ONLY_WITH_TORCH or name.startswith(ONLY_WITH_TORCH_STARTS)


def resolve(source: str, *arguments: str, lines: Iterable[str] = (), wheels: bool = True) -> Blocks:
    """The packages that `source` needs on any supported system, as uv finds them under constraints.txt."""
    command = [
        "uv",
        "pip",
        "compile",
        "--no-config",
        "--quiet",
        "--universal",
        "--generate-hashes",
        "--no-header",
    ]
    command += [
        "--no-annotate",
        f"--python-version={PYTHONS[0]}",
        f"--constraints={CONSTRAINTS}",
        *arguments,
        source,
    ]
    if wheels:
        command += ["--only-binary", ":all:"]
    done = subprocess.run(
        command, cwd=ROOT, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return {name: block for name, block in split(done.stdout).items() if is_wanted(block)}


def split(text: str) -> Blocks:
    """The content of a lock file, package by package."""
    blocks: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            blocks[-1] += f"\n{line}"
        elif line and not line.startswith(("#", "-")):
            blocks.append(line)
    return {canonicalize_name(requirement(block).name): block for block in blocks}


def requirement(block: str) -> Requirement:
    """The first line of a package in a lock file: its name, version and marker."""
    return Requirement(block.splitlines()[0].removesuffix("\\").strip())


def pin(block: str) -> tuple[str, str]:
    """Name and version of a package in a lock file."""
    found = requirement(block)
    (version,) = found.specifier
    return canonicalize_name(found.name), version.version


def is_wanted(block: str) -> bool:
    """Whether some supported system needs the package: CPython on Linux, macOS and Windows."""
    marker = requirement(block).marker
    return marker is None or any(marker.evaluate(environment) for environment in environments())


def environments() -> Iterator[dict[str, str]]:
    """The markers of each supported system."""
    for (system, name, kind, machine), python in product(SYSTEMS, PYTHONS):
        yield {
            "sys_platform": system,
            "platform_system": name,
            "os_name": kind,
            "platform_machine": machine,
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }


def complete_constraints(blocks: Iterable[str]) -> None:
    """Add what constraints.txt does not pin yet, and leave the rest as it is."""
    head, *lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines}
    found = map(requirement, blocks)
    lines += {
        f"{one.name}{one.specifier}" for one in found if canonicalize_name(one.name) not in pinned
    }
    lines.sort(key=lambda line: canonicalize_name(line.split("==")[0]))
    CONSTRAINTS.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def write(name: str, content: str, blocks: Blocks) -> None:
    """Write one lock file."""
    sources = [one for one in WITHOUT_WHEELS if one in blocks]
    head = [
        f"# {content[0].upper()}{content[1:]}. Written by locks/write.py: versions of constraints.txt,",
        "# SHA-256 of every file that the package index lists of them. docs/trust.md says how it is installed.",
        "--only-binary :all:",
        *(f"--no-binary {one}" for one in sources),
    ]
    text = "\n".join([*head, *(blocks[one] for one in sorted(blocks))]) + "\n"
    (LOCKS / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
