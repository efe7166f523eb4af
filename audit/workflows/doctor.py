"""What this machine can do: each check says what was found, what one does without, and the command that mends it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from audit import __version__
from audit.resources import folder

State = Literal["ok", "missing", "broken", "unknown"]
SECONDS = 120.0
"""How long a probe may take (ours; on a busy machine torch takes 20 to import)."""
LEAST_DISK = 1e9
"""Bytes that should be free for a scan (ours: journals, reports and trained references of a large one)."""
GIGABYTE = 1e9
_UNINSTALLED = "not from an installed package: python -m pip install docaudit"
EXTRAS: Mapping[str, str] = {
    "attest": "docaudit attest, and verify of its signature",
    "datasets": "import from data sets of Hugging Face's library",
    "pdf": "import of PDF files",
    "peft": "models that are adapters, such as LoRA",
    "quantised": "models with bitsandbytes' weights",
    "ray": "scans on several workers (--engine ray)",
    "sentencepiece": "models whose tokenizer is a SentencePiece file",
    "vision": "vision-language models that need torchvision",
}
"""What each extra of the package is for."""
_PACKAGES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "apt install": {
        "pango": ["libpango-1.0-0", "libpangoft2-1.0-0", "libharfbuzz-subset0"],
        "tesseract": ["tesseract-ocr"],
        "fonts": ["fonts-noto-core", "fontconfig"],
    },
    "dnf install": {
        "pango": ["pango"],
        "tesseract": ["tesseract"],
        "fonts": ["google-noto-sans-fonts", "fontconfig"],
    },
    "brew install": {"pango": ["pango"], "tesseract": ["tesseract"], "fonts": ["fontconfig"]},
}
_SYSTEMS = {"debian": "apt install", "ubuntu": "apt install", "fedora": "dnf install", "rhel": "dnf install"}


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
        """Whether a scan with its report can run."""
        return all(check.state == "ok" for check in self.checks if check.needed)

    def json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"schema_version": 1, "ready": self.ready, "checks": [asdict(check) for check in self.checks]}


def examine() -> Examination:
    """Check everything. What may break down when it is loaded is loaded in processes of its own, at the same time."""
    with ThreadPoolExecutor() as pool:
        slow = [pool.submit(check) for check in (_torch, _pango, _tesseract, _fonts)]
        quick = [_python(), _required(), *_extras(), _shipped(), *_places(), _offline()]
        torch, *tools = (check.result() for check in slow)
    return Examination((*quick[:2], torch, _computer(), *tools, *quick[2:]))


def _python() -> Check:
    found = f"docaudit {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return Check("docaudit", "ok", found)


def _required() -> Check:
    """The packages that docaudit always takes."""
    try:
        wanted = [one for one in _requirements() if one.marker is None or one.marker.evaluate({"extra": ""})]
    except importlib.metadata.PackageNotFoundError:
        return Check("packages", "unknown", _UNINSTALLED)
    lacking = [str(one.name) + str(one.specifier) for one in wanted if not _installed(one)]
    if not lacking:
        return Check("packages", "ok", f"{len(wanted)} required packages", needed=True)
    return Check(
        "packages",
        "missing",
        ", ".join(lacking),
        needed=True,
        without="no scan",
        mend=f"python -m pip install {' '.join(map(repr, lacking))}",
    )


def _extras() -> Iterator[Check]:
    """The optional extras; a word on one that cannot be told, where docaudit runs from its sources."""
    try:
        wanted = _requirements()
    except importlib.metadata.PackageNotFoundError:
        return
    for extra, use in EXTRAS.items():
        of_extra = [one for one in wanted if one.marker is not None and not one.marker.evaluate({"extra": ""})]
        own = [one for one in of_extra if one.marker is not None and one.marker.evaluate({"extra": extra})]
        lacking = [one.name for one in own if not _installed(one)]
        if own and not lacking:
            versions = ", ".join(f"{one.name} {importlib.metadata.version(one.name)}" for one in own)
            yield Check(f"extra {extra}", "ok", versions)
        elif own:
            mend = f"python -m pip install 'docaudit[{extra}]'"
            yield Check(f"extra {extra}", "missing", f"without {', '.join(lacking)}", without=f"no {use}", mend=mend)


def _requirements() -> list[Requirement]:
    return [Requirement(line) for line in importlib.metadata.requires("docaudit") or ()]


def _installed(wanted: Requirement) -> bool:
    try:
        return wanted.specifier.contains(importlib.metadata.version(wanted.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


def _torch() -> Check:
    """Torch and the devices that it can use."""
    said, why = _probe(["-m", "audit.targets.machine"])
    if said is None:
        state: State = "missing" if "No module named 'torch'" in why else "broken"
        mend = "python -m pip install --force-reinstall torch"
        return Check("torch", state, why, needed=True, without="no scan of a model", mend=mend)
    try:
        told = json.loads(said)
        gpus = [f"{gpu['name']} ({gpu['memory'] / GIGABYTE:.0f} GB)" for gpu in told["cuda"]]
        devices = [*gpus, *(["Apple GPU (MPS)"] if told["mps"] else []), f"CPU ({told['threads']} threads)"]
        found = f"torch {told['version']}: {', '.join(devices)}"
    except (ValueError, KeyError, TypeError):
        return Check("torch", "unknown", "torch gave no answer that can be read", needed=True)
    if not gpus and shutil.which("nvidia-smi") is not None:
        mend = "install a build of torch for CUDA that suits the driver: python -m pip install --force-reinstall torch"
        return Check("torch", "ok", found, True, "no use of the NVIDIA GPU: scans run on the CPU", mend)
    return Check("torch", "ok", found, needed=True)


def _pango() -> Check:
    """The libraries that draw the PDF."""
    code = "import weasyprint as w; from weasyprint.text.ffi import pango as p; print(w.__version__, p.pango_version())"
    said, why = _probe(["-c", code])
    if said is not None:
        version, _, number = said.partition(" ")
        whole = int(number) if number.isdigit() else 0
        pango = f"{whole // 10000}.{whole // 100 % 100}.{whole % 100}"
        return Check("pango", "ok", f"weasyprint {version}, pango {pango}", needed=True)
    without = "no report.pdf; the verdict, report.html and record.json are written all the same"
    if "No module named" in why:
        return Check("pango", "missing", why, True, without, "python -m pip install weasyprint")
    if "cannot load library" in why:
        return Check("pango", "missing", "its libraries cannot be loaded", True, without, _install("pango"))
    mend = f"python -m pip install --force-reinstall weasyprint; else {_install('pango')}"
    return Check("pango", "broken", why, True, without, mend)


def _tesseract() -> Check:
    """The program that reads pages, and its languages."""
    without = "no words for pages that have none (docaudit ocr), no proof that a removed answer cannot be read any more"
    if shutil.which("tesseract") is None:
        return Check("tesseract", "missing", "not on the PATH", without=without, mend=_install("tesseract"))
    version, languages = _lines(["tesseract", "--version"]), _lines(["tesseract", "--list-langs"])[1:]
    if not version:
        return Check("tesseract", "broken", "it does not start", without=without, mend=_install("tesseract"))
    known = [name for name in languages if name != "osd"]
    found = f"{version[0]}, languages: {', '.join(known) or 'none'}"
    if not known:
        mend = f"{_install('tesseract')}; data of a language besides, such as tesseract-ocr-eng (Debian)"
        return Check("tesseract", "broken", found, without=without, mend=mend)
    return Check("tesseract", "ok", found)


def _fonts() -> Check:
    """Fonts of the machine, for letters that the shipped typeface lacks."""
    if shutil.which("fc-list") is None:
        return Check("fonts", "unknown", "the shipped typeface; fc-list, which would name others, is not installed")
    families = {line.strip() for line in _lines(["fc-list", ":", "family"]) if line.strip()}
    if families:
        return Check("fonts", "ok", f"the shipped typeface, {len(families)} families of this machine")
    without = "letters beyond Latin, Greek and Cyrillic stand in a PDF as their numbers"
    return Check("fonts", "missing", "the shipped typeface alone", without=without, mend=_install("fonts"))


def _shipped() -> Check:
    """The files that come with docaudit."""
    try:
        parts = [folder("templates") / "fonts", folder("policies") / "default.toml"]
    except FileNotFoundError:
        parts = []
    if parts and all(part.exists() for part in parts):
        return Check("files", "ok", "templates, typeface and policies", needed=True)
    mend = "python -m pip install --force-reinstall docaudit"
    return Check("files", "missing", "templates, typeface or policies", True, "no report, no verdict", mend)


def _places() -> Iterator[Check]:
    """The folders that docaudit writes into; none is named, as that would name their owner."""
    mend = "cd to a folder of your own, or give --out another one"
    if not os.access(Path.cwd(), os.W_OK):
        yield Check("this folder", "missing", "cannot be written", True, "no reports in it", mend)
    else:
        free = shutil.disk_usage(Path.cwd()).free
        found = f"can be written, {free / GIGABYTE:.1f} GB free"
        enough = free >= LEAST_DISK
        yield Check(
            "this folder",
            "ok" if enough else "missing",
            found,
            True,
            "" if enough else "a scan may not finish",
            "" if enough else mend,
        )
    try:
        with tempfile.TemporaryFile():
            yield Check("temporary folder", "ok", "can be written", needed=True)
    except OSError:
        mend = "export TMPDIR=FOLDER, one that can be written"
        yield Check("temporary folder", "missing", "cannot be written", True, "no scan", mend)
    if _cache_writable():
        yield Check("cache", "ok", "can be written")
    else:
        mend = "export MPLCONFIGDIR=FOLDER, one that can be written"
        yield Check(
            "cache",
            "missing",
            "cannot be written",
            without="each run loses seconds: figures search the fonts anew",
            mend=mend,
        )


def _cache_writable() -> bool:
    """Whether matplotlib can keep its list of fonts where it looks for it."""
    given = os.environ.get("MPLCONFIGDIR")
    try:
        place = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return False
    existing = next((one for one in (place, *place.parents) if one.exists()), None)
    return existing is not None and existing.is_dir() and os.access(existing, os.W_OK)


def _offline() -> Check:
    """Whether the libraries may reach for the network."""
    names = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
    # The command sets both unless they are set already.
    off = [name for name in names if os.environ.get(name, "1").upper() not in ("1", "ON", "YES", "TRUE")]
    if not off:
        return Check("network", "ok", "libraries are kept offline")
    without = "libraries may reach for the network, which docaudit never needs"
    return Check(
        "network", "missing", f"{', '.join(off)} let them online", without=without, mend=f"unset {' '.join(off)}"
    )


def _computer() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = ""
    with suppress(ValueError, OSError, AttributeError):
        memory = f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / GIGABYTE:.1f} GB of memory"
    return Check("machine", "ok", f"{cores} cores{memory}")


def _install(thing: str) -> str:
    """The command that installs something on this kind of system; for each kind, where this one is another."""
    commands = {how: f"{how} {' '.join(things[thing])}" for how, things in _PACKAGES.items()}
    if platform.system() == "Darwin":
        return commands["brew install"]
    with suppress(OSError):
        system = platform.freedesktop_os_release()
        for name in (system.get("ID", ""), *system.get("ID_LIKE", "").split()):
            if name in _SYSTEMS:
                return commands[_SYSTEMS[name]]
    return f"Debian: {commands['apt install']}; Fedora: {commands['dnf install']}; macOS: {commands['brew install']}"


def _probe(arguments: Sequence[str]) -> tuple[str | None, str]:
    """The last line that a Python program prints; None with the last line of its error where it fails."""
    # Without this folder, which may hold a torch.py of somebody else; with the folder that docaudit itself is from.
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(__file__).resolve().parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return None, type(error).__name__
    said, why = done.stdout.strip().splitlines(), done.stderr.strip().splitlines()
    if done.returncode == 0 and said:
        return said[-1], ""
    return None, _without_paths(why[-1]) if why and done.returncode > 0 else f"it ended with code {done.returncode}"


def _without_paths(line: str) -> str:
    """An error without the folders that it names: they name their owner."""
    return " ".join(word.rpartition("/")[2].rpartition("\\")[2] for word in line.split())


def _lines(command: Sequence[str]) -> list[str]:
    """The lines that a program prints; none where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return (done.stdout or done.stderr).splitlines() if done.returncode == 0 else []
