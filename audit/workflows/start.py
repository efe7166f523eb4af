"""Say what this machine can do, and run the demonstration that comes with docaudit."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tomli_w
from packaging.requirements import Requirement

from audit import PROJECT, __version__
from audit.errors import UsageError
from audit.files import shipped_folder, table_beside, write_atomically
from audit.parts import DIFF, SCAN, missing_module, pip_install
from audit.policy.checks import SettledRecord
from audit.record import AuditRecord, read
from audit.report.facts.leaks import leaks
from audit.report.files import HTML_NAME, PDF_NAME
from audit.workflows import wording
from audit.workflows.options import ScanOptions, writing

if TYPE_CHECKING:  # It loads transformers, which may be broken.
    from audit.workflows.session import Session

State = Literal["ok", "missing", "broken", "unknown"]
SECONDS = 120.0
"""How long a probe may take; on a busy machine torch takes 20 to import."""
LEAST_DISK = 1e9
"""Bytes that should be free for a scan: journals, reports and trained references of a large one."""
GIGABYTE = 1e9
_TEXTS = table_beside(__file__, "start.toml")
EXTRAS: Mapping[str, str] = _TEXTS["extras"]
"""What each extra of the package is for."""
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_ERROR = re.compile(r"[\w.]*(?:Error|Exception): ")
INSTALL: Mapping[str, str] = _TEXTS["install"]
"""The commands that install what is no Python package."""


@dataclass(frozen=True)
class Check:
    """One thing that docaudit can use.

    Attributes:
        name: name of the thing.
        state: state of the thing; "unknown" where this machine does not say.
        found: versions, sizes, names; nothing that says whose machine it is.
        needed: whether a scan that writes its PDF cannot do without it.
        without: what follows from its lack; empty when it is there.
        mend: command that mends it, or what to do.
    """

    name: str
    state: State
    found: str
    needed: bool = False
    without: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Examination:
    """Everything that was checked, in order."""

    checks: tuple[Check, ...]

    @property
    def ready(self) -> bool:
        """Return whether a scan with its report can run."""
        return all(check.state == "ok" for check in self.checks if check.needed)


def examine() -> Iterator[Check]:
    """Yield each check of what docaudit can use on this machine, as soon as it ends.

    What may break down when it is loaded is loaded in processes of its own, at the same time.
    """
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check) for check in (_torch, _transformers, _pango, _tesseract)]
        extras = pool.map(_extra, EXTRAS)
        yield _itself()
        yield _packages()
        yield from _other_owners()
        for check in slow:
            yield check.result()
        yield from filter(None, extras)
    yield _folder()


def _itself() -> Check:
    """Check docaudit itself: name its version, and what it runs on."""
    if hasattr(os, "sched_getaffinity"):
        cores: int | None = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    versions = f"docaudit {__version__}, Python {platform.python_version()}"
    return Check("docaudit", "ok", f"{versions}, {system}, {cores} cores")


def _requirements() -> list[Requirement]:
    """Read the packages that docaudit names; none where it is not installed."""
    try:
        return [Requirement(line) for line in importlib.metadata.requires("docaudit") or ()]
    except importlib.metadata.PackageNotFoundError:
        return []


def _installed(requirement: Requirement) -> bool:
    """Test whether a package is installed in a version that will do."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _is_always_needed(requirement: Requirement) -> bool:
    """Test whether docaudit takes a package without any extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _is_of_extra(requirement: Requirement, extra: str) -> bool:
    """Test whether docaudit takes a package for an extra alone."""
    if requirement.marker is None or _is_always_needed(requirement):
        return False
    return requirement.marker.evaluate({"extra": extra})


def _packages() -> Check:
    """Check the packages that every command needs: those of the light part."""
    required = [requirement for requirement in _requirements() if _is_always_needed(requirement)]
    if not required:
        return Check(
            "packages", "unknown", "not from an installed package: python -m pip install docaudit"
        )
    lacking = [
        f"{requirement.name}{requirement.specifier}"
        for requirement in required
        if not _installed(requirement)
    ]
    if not lacking:
        return Check("packages", "ok", f"{len(required)} required packages", needed=True)
    mend = f"python -m pip install {' '.join(map(repr, lacking))}"
    return Check("packages", "missing", ", ".join(lacking), True, "no command", mend)


def _other_owners() -> Iterator[Check]:
    """Yield a check of each other distribution that brings a package `audit` too."""
    for name in sorted({*importlib.metadata.packages_distributions().get("audit", [])}):
        if name != PROJECT:
            found = f"{name} brings a package audit too, whose files mix with docaudit's"
            again = "python -m pip install --force-reinstall --no-deps docaudit"
            mend = f"python -m pip uninstall {name}; {again}"
            yield Check("audit", "broken", found, True, "no command that can be trusted", mend)


def _packages_of(extra: str) -> list[Requirement]:
    """List the packages of an extra, but those of the extra `scan`, which is checked by itself."""
    packages = [requirement for requirement in _requirements() if _is_of_extra(requirement, extra)]
    if extra in (SCAN, DIFF):
        return packages
    scanning = {requirement.name for requirement in _packages_of(SCAN)}
    return [requirement for requirement in packages if requirement.name not in scanning]


def _extra(extra: str) -> Check | None:
    """Check the packages of an optional extra by importing them.

    None where docaudit is not installed.
    """
    packages = _packages_of(extra)
    if not packages:
        return None
    name = f"extra {extra}"
    needed = extra == SCAN
    without = f"no {EXTRAS[extra]}"
    lacking = [requirement.name for requirement in packages if not _installed(requirement)]
    if lacking:
        without_packages = f"without {', '.join(lacking)}"
        mend = f"python -m {pip_install(extra)}"
        return Check(name, "missing", without_packages, needed, without, mend)
    versions = ", ".join(
        f"{requirement.name} {importlib.metadata.version(requirement.name)}"
        for requirement in packages
    )
    return _imported(name, extra, versions, f"'docaudit[{extra}]'", without, needed=needed)


def _transformers() -> Check:
    """Check transformers by loading model classes, which import all that it finds installed."""
    return _imported(
        "transformers",
        "models",
        "it loads models",
        "transformers",
        "no scan of a model",
        needed=True,
    )


def _imported(
    name: str, imports: str, versions: str, package: str, without: str, *, needed: bool = False
) -> Check:
    """Check that Python can import something: `imports` names the lines of the test program.

    Where torchvision is at fault, it is what is to be mended.
    """
    printed, why = _probe(["-c", f"{_TEXTS['imports'][imports]}; print(0)"])
    if printed is not None:
        return Check(name, "ok", versions, needed)
    if _is_absent(why):
        return Check(name, "missing", why, needed, without, f"python -m {pip_install(SCAN)}")
    if "torchvision" in why:
        mend = INSTALL["torchvision"]
    else:
        mend = f"python -m pip install --force-reinstall {package}"
    return Check(name, "broken", why, needed, without, mend)


def _is_absent(why: str) -> bool:
    """Test whether a program failed for want of a module that an extra brings."""
    module = _NO_MODULE.search(why)
    return module is not None and missing_module(module[1]) is not None


def _torch() -> Check:
    """Check torch: load it and name the devices that it can use."""
    printed, why = _probe(["-m", "audit.targets.machine"])
    reinstall = "python -m pip install --force-reinstall torch"
    if printed is None:
        if _is_absent(why):
            mend = f"python -m {pip_install(SCAN)}"
            return Check("torch", "missing", why, True, "no scan of a model", mend)
        return Check("torch", "broken", why, True, "no scan of a model", reinstall)
    machine = json.loads(printed)
    gpus = [f"{gpu['name']} ({gpu['memory'] / GIGABYTE:.0f} GB)" for gpu in machine["cuda"]]
    devices = [*gpus]
    if machine["mps"]:
        devices.append("Apple GPU (MPS)")
    devices.append(f"CPU ({machine['threads']} threads)")
    summary = f"torch {machine['version']}: {', '.join(devices)}"
    if not gpus and shutil.which("nvidia-smi") is not None:
        without = "no use of the NVIDIA GPU: scans run on the CPU"
        mend = f"install a build of torch for CUDA that suits the driver: {reinstall}"
        return Check("torch", "ok", summary, True, without, mend)
    return Check("torch", "ok", summary, needed=True)


def _pango() -> Check:
    """Check the libraries that draw the PDF by loading them."""
    version, why = _probe(["-c", "import weasyprint; print(weasyprint.__version__)"])
    if version is not None:
        return Check("pango", "ok", f"weasyprint {version} with pango", needed=True)
    without = "no report.pdf; the verdict, report.html and record.json are written all the same"
    if _is_absent(why):
        mend = f"python -m {pip_install(SCAN)}"
        return Check("pango", "missing", why, True, without, mend)
    if "cannot load library" in why:
        why = "its libraries cannot be loaded"
        return Check("pango", "missing", why, True, without, INSTALL["pango"])
    return Check("pango", "broken", why, True, without, INSTALL["pango"])


def _tesseract() -> Check:
    """Check Tesseract: ask it for its version and languages."""
    without = (
        "no words for pages that have none (docaudit ocr), "
        "no proof that a removed answer cannot be read any more"
    )
    mend = INSTALL["tesseract"]
    if shutil.which("tesseract") is None:
        return Check("tesseract", "missing", "not on the PATH", False, without, mend)
    version = _lines(["tesseract", "--version"])
    languages = [name for name in _lines(["tesseract", "--list-langs"])[1:] if name != "osd"]
    program = version[0] if version else "it does not start"
    summary = f"{program}, languages: {', '.join(languages) or 'none'}"
    if not version or not languages:
        return Check("tesseract", "broken", summary, False, without, mend)
    return Check("tesseract", "ok", summary)


def _folder() -> Check:
    """Check that this folder takes reports; its name is left out, as it would name its owner."""
    mend = "cd to a folder of your own, or give --out another one"
    if not os.access(Path.cwd(), os.W_OK):
        return Check("this folder", "missing", "cannot be written", True, "no reports in it", mend)
    free = shutil.disk_usage(Path.cwd()).free
    space = f"can be written, {free / GIGABYTE:.1f} GB free"
    if free < LEAST_DISK:
        return Check("this folder", "missing", space, True, "a scan may not finish", mend)
    return Check("this folder", "ok", space, needed=True)


def _probe(arguments: Sequence[str]) -> tuple[str | None, str]:
    """Return the last line that a Python program prints, and an empty text.

    None and the last line of its error where it fails.
    """
    # Without this folder, which may hold a torch.py of somebody else; with the folder that docaudit
    # itself is from.
    paths = [str(Path(__file__).resolve().parents[2])]
    search_path = os.environ.get("PYTHONPATH")
    if search_path:
        paths.insert(0, search_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = _run([sys.executable, "-P", *arguments], environment)
    if isinstance(process, Exception):
        return None, type(process).__name__
    printed = process.stdout.strip().splitlines()
    if process.returncode == 0 and printed:
        return printed[-1], ""
    return None, _failure(process)


def _failure(process: subprocess.CompletedProcess[str]) -> str:
    """Say in a line why a Python program failed."""
    errors = process.stderr.strip().splitlines()
    # The first error is the cause of those that follow it.
    causes = [line for line in errors if _ERROR.match(line)] or errors[-1:]
    if not causes or process.returncode <= 0:
        return f"it ended with code {process.returncode}"
    # Folders name their owner.
    return " ".join(word.rpartition("/")[2].rpartition("\\")[2] for word in causes[0].split())


def _lines(command: Sequence[str]) -> list[str]:
    """Run a program and return the lines it prints; none where it fails."""
    process = _run(command)
    if isinstance(process, Exception) or process.returncode:
        return []
    return (process.stdout or process.stderr).splitlines()


def _run(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | Exception:
    """Run a program, and return what it printed, or why it could not be run."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, env=env
        )
    except (OSError, subprocess.SubprocessError) as error:
        return error


DOCUMENTS = 144
"""Documents that are tried (ours: as few as decide every limit that the sample can decide)."""
SAMPLE = "sample"
"""The folder of the sample's model and data, in the folder of the reports."""
MODEL = "leaky-model"
"""The folder of the model there, by which the report names it."""
NAME = "receipts-demo"
"""The name of its data set, by which a record tells that it is of the demonstration."""
REPORTS = (PDF_NAME, HTML_NAME)
"""What a demonstration that is done has drawn."""
_REFERENCE = "references/public-mlm"


def find_demo(out: Path) -> AuditRecord | None:
    """Read the record of a demonstration that this version finished.

    None where it is to be begun, or to go on.

    Raises:
        UsageError: the folder holds something else.
        EngineError: it is no folder.
    """
    names = _list_names(out)
    if not names:
        return None
    record = None
    if "record.json" in names:
        record = read(out)
    is_of_other_data = record is not None and record.corpus.name != NAME
    if is_of_other_data or not (out / SAMPLE / MODEL).is_dir():
        raise UsageError(*wording("no_demo", out=out))
    if record is None or record.environment.docaudit != __version__:
        return None
    return record if names.issuperset(REPORTS) else None


def _list_names(folder: Path) -> set[str]:
    """List the names of what a folder holds; none where it is not there.

    Raises:
        EngineError: it is no folder.
    """
    with writing(folder):
        if folder.exists():
            return {path.name for path in folder.iterdir()}
    return set()


def open_demo(out: Path, documents: int = DOCUMENTS, only: tuple[str, ...] = ()) -> Session:
    """Copy the sample into the folder of the reports, and open a scan of it on the CPU.

    Args:
        out: folder of the reports.
        documents: number of documents that are tried.
        only: names of the attacks to run; all when empty.

    Raises:
        DocauditError: the folder cannot be written.
    """
    from audit.targets.opening import use_threads
    from audit.workflows.session import open_session

    copied = out / SAMPLE
    with writing(out):
        copy_sample(copied)
    # The model is so small that a second thread only waits, for minutes where the machine is busy.
    use_threads(1)
    return open_session(
        ScanOptions(
            model_dir=copied / MODEL,
            data_dir=copied / "data",
            out=out,
            budget="quick",
            documents=documents,
            only=only,
            device="cpu",
        )
    )


def copy_sample(destination: Path) -> None:
    """Write model and data of the sample: the receipts without their pictures.

    This model does not see pictures.

    Raises:
        OSError: a file cannot be written.
    """
    for name, content in _files():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _files() -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of the sample."""
    source = shipped_folder("sample_models") / "receipts"
    data = source / "data"
    for path in sorted((source / "model").iterdir()):
        yield f"{MODEL}/{path.name}", path.read_bytes()
    for path in sorted((data / _REFERENCE).iterdir()):
        yield f"data/{_REFERENCE}/{path.name}", path.read_bytes()
    yield "data/documents.jsonl", _without_images(data / "documents.jsonl").encode()
    manifest = tomllib.loads((data / "manifest.toml").read_text(encoding="utf-8"))
    manifest |= {"name": NAME, "references": {"auxiliary": _REFERENCE}}
    yield "data/manifest.toml", tomli_w.dumps(manifest).encode()


def _without_images(path: Path) -> str:
    """Return the lines of a documents file, none of which names an image."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row.pop("image", None)
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)


def describe(settled: SettledRecord, *, verbose: bool = True) -> Iterator[str]:
    """Say what was done, and if `verbose` the worst that each attack found, a line each."""
    record = settled.record
    ran = [*record.completed]
    members = record.corpus.documents["member"]
    seconds = record.timing.seconds
    yield _TEXTS["demo"].format(members=members, attacks=len(ran), seconds=seconds)
    if not verbose:
        return
    worst: dict[str, str] = {}
    for leak in leaks(settled):
        worst.setdefault(leak.attack, leak.sentence)
    for attack in ran:
        yield f"{attack}: {worst.get(attack, 'no leak shown')}"
