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

from audit import __version__
from audit.errors import UsageError
from audit.files import shipped_folder, table_beside, write_atomically
from audit.record import AuditRecord, read
from audit.report.files import HTML_NAME, PDF_NAME
from audit.report.leaks import leaks
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
_ERROR = re.compile(r"[\w.]*(?:Error|Exception): ")
INSTALL: Mapping[str, str] = _TEXTS["install"]
"""The commands that install what is no Python package."""


@dataclass(frozen=True)
class Check:
    """One thing that docaudit can use.

    Attributes:
        name: of the thing.
        state: "unknown" where this machine does not say.
        found: versions, sizes, names; nothing that says whose machine it is.
        needed: a scan that writes its PDF cannot do without it.
        without: what follows from its lack; empty when it is there.
        mend: the command, or what to do, then.
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


def examine() -> Examination:
    """Check everything.

    What may break down when it is loaded is loaded in processes of its own, at the same time.
    """
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check) for check in (_torch, _transformers, _pango, _tesseract)]
        extras = pool.map(_extra, EXTRAS)
        packages = _packages()
        tools = [check.result() for check in slow]
    system = f"docaudit {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    itself = Check("docaudit", "ok", f"{system}{cores} cores")
    return Examination((itself, packages, *tools, *filter(None, extras), _folder()))


def _requirements() -> list[Requirement]:
    try:
        return [Requirement(line) for line in importlib.metadata.requires("docaudit") or ()]
    except importlib.metadata.PackageNotFoundError:
        return []


def _installed(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


def _packages() -> Check:
    """Look for the packages that docaudit always takes."""
    wanted = [
        one for one in _requirements() if one.marker is None or one.marker.evaluate({"extra": ""})
    ]
    lacking = [str(one.name) + str(one.specifier) for one in wanted if not _installed(one)]
    if not wanted:
        return Check(
            "packages", "unknown", "not from an installed package: python -m pip install docaudit"
        )
    if not lacking:
        return Check("packages", "ok", f"{len(wanted)} required packages", needed=True)
    mend = f"python -m pip install {' '.join(map(repr, lacking))}"
    return Check("packages", "missing", ", ".join(lacking), True, "no scan", mend)


def _extra(extra: str) -> Check | None:
    """Look for the packages of an optional extra, and import them.

    None where docaudit is not installed.
    """
    optional = [
        one
        for one in _requirements()
        if one.marker is not None and not one.marker.evaluate({"extra": ""})
    ]
    own = [
        one for one in optional if one.marker is not None and one.marker.evaluate({"extra": extra})
    ]
    lacking = [one.name for one in own if not _installed(one)]
    name, without = f"extra {extra}", f"no {EXTRAS[extra]}"
    if not own:
        return None
    if lacking:
        mend = f"python -m pip install 'docaudit[{extra}]'"
        return Check(name, "missing", f"without {', '.join(lacking)}", without=without, mend=mend)
    versions = ", ".join(f"{one.name} {importlib.metadata.version(one.name)}" for one in own)
    return _imported(name, extra, versions, f"'docaudit[{extra}]'", without)


def _transformers() -> Check:
    """Load classes of models, which import all that transformers finds installed."""
    return _imported(
        "transformers",
        "models",
        "it loads models",
        "transformers",
        "no scan of a model",
        needed=True,
    )


def _imported(
    name: str, imports: str, found: str, package: str, without: str, *, needed: bool = False
) -> Check:
    """Import what a thing consists of.

    Where torchvision is at fault, it is what is to be mended.
    """
    said, why = _probe(["-c", f"{_TEXTS['imports'][imports]}; print(0)"])
    if said is not None:
        return Check(name, "ok", found, needed)
    usual = f"python -m pip install --force-reinstall {package}"
    return Check(
        name,
        "broken",
        why,
        needed,
        without,
        INSTALL["torchvision"] if "torchvision" in why else usual,
    )


def _torch() -> Check:
    """Load torch and name the devices that it can use."""
    said, why = _probe(["-m", "audit.targets.machine"])
    if said is None:
        state: State = "missing" if "No module named 'torch'" in why else "broken"
        mend = "python -m pip install --force-reinstall torch"
        return Check("torch", state, why, True, "no scan of a model", mend)
    found = json.loads(said)
    gpus = [f"{gpu['name']} ({gpu['memory'] / GIGABYTE:.0f} GB)" for gpu in found["cuda"]]
    devices = [
        *gpus,
        *(["Apple GPU (MPS)"] if found["mps"] else []),
        f"CPU ({found['threads']} threads)",
    ]
    shown = f"torch {found['version']}: {', '.join(devices)}"
    if not gpus and shutil.which("nvidia-smi") is not None:
        mend = "install a build of torch for CUDA that suits the driver: python -m pip install --force-reinstall torch"
        return Check(
            "torch", "ok", shown, True, "no use of the NVIDIA GPU: scans run on the CPU", mend
        )
    return Check("torch", "ok", shown, needed=True)


def _pango() -> Check:
    """Load the libraries that draw the PDF."""
    said, why = _probe(["-c", "import weasyprint; print(weasyprint.__version__)"])
    if said is not None:
        return Check("pango", "ok", f"weasyprint {said} with pango", needed=True)
    without = "no report.pdf; the verdict, report.html and record.json are written all the same"
    if "No module named" in why:
        return Check("pango", "missing", why, True, without, "python -m pip install weasyprint")
    lacks = "cannot load library" in why
    found = "its libraries cannot be loaded" if lacks else why
    return Check("pango", "missing" if lacks else "broken", found, True, without, INSTALL["pango"])


def _tesseract() -> Check:
    """Ask the program that reads pages for its version and languages."""
    without = "no words for pages that have none (docaudit ocr), no proof that a removed answer cannot be read any more"
    if shutil.which("tesseract") is None:
        return Check(
            "tesseract", "missing", "not on the PATH", False, without, INSTALL["tesseract"]
        )
    version = _lines(["tesseract", "--version"])
    languages = [name for name in _lines(["tesseract", "--list-langs"])[1:] if name != "osd"]
    found = f"{version[0] if version else 'it does not start'}, languages: {', '.join(languages) or 'none'}"
    if not version or not languages:
        return Check("tesseract", "broken", found, False, without, INSTALL["tesseract"])
    return Check("tesseract", "ok", found)


def _folder() -> Check:
    """Look whether this folder takes reports; it is not named, as that would name its owner."""
    mend = "cd to a folder of your own, or give --out another one"
    if not os.access(Path.cwd(), os.W_OK):
        return Check("this folder", "missing", "cannot be written", True, "no reports in it", mend)
    free = shutil.disk_usage(Path.cwd()).free
    found = f"can be written, {free / GIGABYTE:.1f} GB free"
    if free < LEAST_DISK:
        return Check("this folder", "missing", found, True, "a scan may not finish", mend)
    return Check("this folder", "ok", found, needed=True)


def _probe(arguments: Sequence[str]) -> tuple[str | None, str]:
    """Return the last line that a Python program prints.

    None with the last line of its error where it fails.
    """
    # Without this folder, which may hold a torch.py of somebody else; with the folder that docaudit
    # itself is from.
    paths = [
        *filter(None, [os.environ.get("PYTHONPATH")]),
        str(Path(__file__).resolve().parents[2]),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = _run([sys.executable, "-P", *arguments], environment)
    if isinstance(done, Exception):
        return None, type(done).__name__
    said, why = done.stdout.strip().splitlines(), done.stderr.strip().splitlines()
    if done.returncode == 0 and said:
        return said[-1], ""
    # The first error is the cause of those that follow it.
    causes = [line for line in why if _ERROR.match(line)] or why[-1:]
    if not causes or done.returncode <= 0:
        return None, f"it ended with code {done.returncode}"
    # Folders name their owner.
    return None, " ".join(word.rpartition("/")[2].rpartition("\\")[2] for word in causes[0].split())


def _lines(command: Sequence[str]) -> list[str]:
    """Run a program and return the lines it prints; none where it fails."""
    done = _run(command)
    return (
        []
        if isinstance(done, Exception) or done.returncode
        else (done.stdout or done.stderr).splitlines()
    )


def _run(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | Exception:
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
    with writing(out):
        held = {path.name for path in out.iterdir()} if out.exists() else set()
    if not held:
        return None
    record = read(out) if "record.json" in held else None
    if not (out / SAMPLE / MODEL).is_dir() or (record is not None and record.corpus.name != NAME):
        raise UsageError(*wording("no_demo", out=out))
    if record is None or record.environment.docaudit != __version__ or not held.issuperset(REPORTS):
        return None
    return record


def open_demo(out: Path, documents: int = DOCUMENTS, only: tuple[str, ...] = ()) -> Session:
    """Copy the sample into the folder of the reports, and open a scan of it on the CPU.

    Args:
        out: the folder of the reports.
        documents: that are tried.
        only: the attacks to run; all when empty.

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
    folders = copied / MODEL, copied / "data", out
    return open_session(
        ScanOptions(*folders, budget="quick", documents=documents, only=only, device="cpu")
    )


def copy_sample(destination: Path) -> None:
    """Write model and data of the sample: the receipts without their pictures, which this model does not see.

    Raises:
        OSError: a file cannot be written.
    """
    for name, content in _files():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def _files() -> Iterator[tuple[str, bytes]]:
    source = shipped_folder("sample_models") / "receipts"
    for name, there in (("model", MODEL), (f"data/{_REFERENCE}", f"data/{_REFERENCE}")):
        for path in sorted((source / name).iterdir()):
            yield f"{there}/{path.name}", path.read_bytes()
    rows = map(
        json.loads, (source / "data" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    )
    pages = ({key: value for key, value in row.items() if key != "image"} for row in rows)
    yield (
        "data/documents.jsonl",
        "".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages).encode(),
    )
    manifest = tomllib.loads((source / "data" / "manifest.toml").read_text(encoding="utf-8"))
    manifest |= {"name": NAME, "references": {"auxiliary": _REFERENCE}}
    yield "data/manifest.toml", tomli_w.dumps(manifest).encode()


def describe(record: AuditRecord, *, verbose: bool = True) -> Iterator[str]:
    """Say what was done, and if `verbose` in a line for each attack the worst that it found."""
    ran = [*record.completed]
    members, seconds = record.corpus.documents["member"], record.timing.seconds
    yield _TEXTS["demo"].format(members=members, attacks=len(ran), seconds=seconds)
    if not verbose:
        return
    worst: dict[str, str] = {}
    for leak in leaks(record):
        worst.setdefault(leak.attack, leak.sentence)
    for attack in ran:
        yield f"{attack}: {worst.get(attack, 'no leak shown')}"
