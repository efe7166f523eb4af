"""All that docaudit reads, as a table: a folder that it takes, the files of it that are edited, the commands.

A surface is a way in for what somebody else has made. `broken` says what a command that was run on
an edited folder got wrong, so that every surface is held to the same: an exit code of the table,
errors of one line, no traceback, no character that steers a terminal, nothing written but what was
asked for, whole or not at all, in bounded time and memory.
"""

import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

import hostile_seeds as seeds
from hostile_edits import Edit, edits, whole_files
from hostile_hub import HostileHub
from hostile_server import Ended, Server
from hostile_sources import SOURCES
from hostile_tables import MARK
from hypothesis import strategies as st
from temporaries import left_in

from audit.errors import has_unseen_characters

USUAL = frozenset({0, 2})
VERDICTS = frozenset({0, 2, 10, 11})
_TREES = (".json", ".jsonl", ".toml", ".safetensors")
_SIGN = "\u26a0\ufe0f"
"""Of a warning, in Markdown."""
_PICTURES = (".png", ".jpg")


Kind = Literal["hang", "code", "outside", "network", "traceback", "steered", "printed", "left"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Fault(NamedTuple):
    """What a command got wrong."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Surface:
    """A way in.

    Attributes:
        name: of it.
        seed: writes what docaudit takes into a folder that is there.
        files: patterns of the files that are edited.
        commands: run one after the other, the later ones only while the exit code is below 2.
        share: of all cases, in thousandths.
        codes: exit codes that an edited folder may give.
        out: what the commands may write, and nobody else: a folder or a file.
        drawn: PDFs too.
        writes: the kind of file that is written in the place of one, "table", "template" or "hub";
            empty: files are edited.
        connects: host and port that it may connect to, as the events of the audit hook write them;
            empty: none.
        hub: that the commands ask.
    """

    name: str
    seed: Callable[[Path], None]
    files: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    share: int
    codes: frozenset[int] = USUAL
    out: tuple[str, ...] = ()
    drawn: bool = False
    writes: str = ""
    connects: str = ""
    hub: HostileHub | None = None
    _kept: dict[str, Path] = field(default_factory=dict, compare=False, repr=False)

    def cases(self) -> st.SearchStrategy[list[Edit]]:
        """Edits of its files."""
        if self.writes:
            return whole_files(self.writes)
        trees = any(pattern.endswith(_TREES) for pattern in self.files)
        return edits(trees, all(pattern.endswith(_PICTURES) for pattern in self.files))

    def folder(self, root: Path) -> Path:
        """A fresh copy of what docaudit takes, below `root`; it is made at the first call."""
        if "seed" not in self._kept:
            kept = root / f"seed-{self.name.replace(' ', '-')}"
            kept.mkdir()
            self.seed(kept)
            self._kept["seed"] = kept
        if self.hub is not None:
            self.hub.begin()
        place = root / "case"
        if place.exists():
            shutil.rmtree(place)
        return shutil.copytree(self._kept["seed"], place)

    def edited(self, folder: Path) -> list[Path]:
        """The files that are edited, sorted."""
        return sorted(path for pattern in self.files for path in folder.glob(pattern))


def attempt(server: Server, surface: Surface, root: Path, case: Sequence[Edit]) -> list[str]:
    """Run a surface's commands on an edited folder, and say what is wrong with what they did."""
    return [
        str(fault) for fault in faults_of(server, surface, edited_folder(surface, root, case), root)
    ]


def edited_folder(surface: Surface, root: Path, case: Sequence[Edit]) -> Path:
    """A fresh copy of a surface's folder, edited."""
    folder = surface.folder(root)
    files = surface.edited(folder)
    for edit in case:
        edit.apply(files)
    return folder


def run(server: Server, surface: Surface, folder: Path, root: Path) -> list[str]:
    """Run a surface's commands in a folder, and say what is wrong with what they did."""
    return [str(fault) for fault in faults_of(server, surface, folder, root)]


def faults_of(server: Server, surface: Surface, folder: Path, root: Path) -> list[Fault]:
    """Run a surface's commands in a folder; what the first that goes wrong did."""
    for arguments in surface.commands:
        scratch = fresh(root / "scratch")
        before = standing(folder)
        ended = server.run(folder, arguments, scratch, drawn=surface.drawn)
        faults = [*broken(ended, surface), *left(surface, before, standing(folder), ended, scratch)]
        if faults:
            printed = ascii(ended.stderr[-1_500:] or ended.stdout[-500:])
            return [
                Fault(fault.kind, f"{' '.join(arguments)}: {fault.text}: {printed}")
                for fault in faults
            ]
        if ended.code >= 2:
            break
    return []


def fresh(scratch: Path) -> Path:
    """An empty folder for what is printed and for temporary files."""
    if scratch.exists():
        shutil.rmtree(scratch)
    (scratch / "temporary").mkdir(parents=True)
    return scratch


def broken(ended: Ended, surface: Surface) -> Iterator[Fault]:
    """What a command got wrong, as far as it shows in its end and its words."""
    if ended.endless:
        yield Fault("hang", f"it does not end: {ended.seconds:.0f} s of the processor")
    elif ended.code not in surface.codes:
        yield Fault("code", f"exit code {ended.code}")
    yield from _reached(ended.reached, surface)
    yield from _misprinted(ended)


def _reached(reached: str, surface: Surface) -> Iterator[Fault]:
    """What a command connected to, or opened outside of its folder."""
    for line in reached.splitlines():
        if line.startswith("open "):
            yield Fault("outside", f"it opened {line[:200]}")
        elif not (surface.connects and surface.connects in line):
            yield Fault("network", f"it reached {line[:200]}")


def _misprinted(ended: Ended) -> Iterator[Fault]:
    """What is wrong with what a command printed."""
    printed = ended.stdout + ended.stderr
    if "Traceback (most recent call last)" in printed:
        yield Fault("traceback", "a traceback")
    if ended.code in (1, 2) and not any(word in ended.stderr for word in ("error: ", "Error")):
        yield Fault("code", "an exit code without an error")
    if any(has_unseen_characters(line) for line in printed.replace(_SIGN, "").split("\n")):
        yield Fault("steered", "a character that cannot be seen")
    if len(printed) > 100_000:
        yield Fault("steered", f"{len(printed)} characters printed")
    if ended.code in (1, 2) and MARK in printed:
        yield Fault("printed", "a value of the input")


def standing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """All that stands in a folder: kind, size and time of each."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path.relative_to(folder))] = (
            state.st_mode,
            *((state.st_size, state.st_mtime_ns) if path.is_file() else (0, 0)),
        )
    return found


def left(
    surface: Surface,
    before: Mapping[str, tuple[int, int, int]],
    after: Mapping[str, tuple[int, int, int]],
    ended: Ended,
    scratch: Path,
) -> Iterator[Fault]:
    """What a command changed or left behind that it should not have.

    Its private story is named in the hint.
    """
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    strange = [
        name
        for name in changed
        if not name.startswith(surface.out or ("/",)) or name.endswith(".tmp")
    ]
    if strange:
        yield Fault("left", f"it changed {', '.join(strange[:3])}")
    if ended.code >= 2 and ended.code not in (10, 11) and set(changed) - set(strange):
        yield Fault("left", f"it failed and left {', '.join(changed[:3])}")
    temporary = left_in(scratch / "temporary", told=ended.stderr)
    if temporary:
        yield Fault(
            "left", f"temporary files left: {', '.join(path.name for path in temporary[:3])}"
        )
    if surface.hub is not None and surface.hub.told:
        yield Fault("network", "it tells the Hub about the environment")
    strays = [] if surface.hub is None else surface.hub.strays()
    if strays:
        yield Fault("outside", f"it wrote {', '.join(strays[:3])}")


EVERYTHING = ("--member", "1", "--heldout", "0", "--public", "0")


def _source(name: str, share: int) -> Surface:
    commands = (("import", name.split()[0], "src", "dst", *EVERYTHING), ("inspect", "dst"))
    texts = (
        "json",
        "jsonl",
        "csv",
        "tsv",
        "xml",
        "hocr",
        "in",
        "out",
        "train",
        "testa",
        "label",
        "parquet",
        "arrow",
    )
    patterns = tuple(
        f"src/**/*{'' if one == 'label' else '.'}{one}" for one in (*texts, "pdf", "jpg", "png")
    )
    return Surface(
        f"import {name}", partial(seeds.source, name), patterns, commands, share, out=("dst",)
    )


def _model(kind: str, share: int, *more: str, planned: bool = False) -> Surface:
    commands = (("inspect", "data", "--model", "model", *more),)
    if planned:
        commands = (("plan", "data", "--model", "model", "--budget", "quick"),)
    files = ("model/*.json", "model/*.safetensors", "model/*.txt", "model/*.model")
    name = f"checkpoint {kind} planned" if planned else f"checkpoint {kind}"
    return Surface(name, partial(seeds.model, kind), files, commands, share)


def _read(
    name: str, seed: str, files: list[str], commands: list[str], verdict: bool = False, **more: Any
) -> Surface:
    lines = tuple(tuple(command.split()) for command in commands)
    more["out"] = tuple(more.get("out", ()))
    return Surface(
        name,
        getattr(seeds, seed),
        tuple(files),
        lines,
        codes=VERDICTS if verdict else USUAL,
        **more,
    )


_OPTIONS = (
    "--columns image=text,label=id --labels A,B --boxes shares",
    "--columns question=text,answers=label --task question-answering",
    "--columns words=text,tags=label --labels O,B-A --provider-column id",
    "--task document-classification --columns label=category",
)
"""Options of the owner, right or wrong for what they meet."""


def _tables(source: str, share: int, options: str = "") -> Surface:
    """An import of Parquet or Arrow of drawn columns and types."""
    name = f"import {source} of drawn types {options}".strip()
    commands = (("import", "hf", "src", "dst", *EVERYTHING, *options.split()), ("inspect", "dst"))
    files = ("src/**/*.parquet", "src/**/*.arrow")
    return Surface(
        name, partial(seeds.source, source), files, commands, share, out=("dst",), writes="table"
    )


def _chosen(source: str, share: int, options: str) -> Surface:
    """An import with options of the owner."""
    edited = _source(source, share)
    commands = (("import", source, "src", "dst", *EVERYTHING, *options.split()),)
    return Surface(
        f"import {source} {options}", edited.seed, edited.files, commands, share, out=("dst",)
    )


def served(address: str, share: int) -> Surface:
    """A server as the model; it answers as hostile servers do, whatever the data set."""
    commands = (("inspect", "data", "--model", f"{address}#m"),)
    connects = f"'127.0.0.1', {urlsplit(address).port}"
    return Surface(
        "model server", seeds.letters, ("data/documents.jsonl",), commands, share, connects=connects
    )


def hubs(hub: HostileHub, share: int) -> list[Surface]:
    """A Hub that offers a model and a data set, each asked for twice: the second time a part may be there."""
    imported = ("import", "chat", "hf://datasets/org/name")
    inspected = ("inspect", "data", "--model", "hf://org/model", "--allow-network")
    asked = {
        "data set": tuple(
            (*imported, out, "--allow-network", *EVERYTHING) for out in ("dst", "again")
        ),
        "model": (inspected, inspected),
    }
    return [
        Surface(
            f"Hub: {name}",
            partial(hub.stand_in, seeds.offered),
            ("plan.json",),
            commands,
            share,
            out=("dst", "again"),
            codes=frozenset({0, 1, 2}),
            writes="hub",
            connects=f"'127.0.0.1', {hub.port}",
            hub=hub,
        )
        for name, commands in asked.items()
    ]


_KINDS = (
    *(
        "layoutlm",
        "layoutlmv3",
        "bert",
        "utterances",
        "donut",
        "extractive",
        "t5",
        "vt5",
        "parsing",
    ),
    *("pix2struct", "idefics2"),
)
SURFACES: tuple[Surface, ...] = (
    *(
        _read(name, **table)
        for name, table in tomllib.loads(
            Path(__file__).with_name("surfaces.toml").read_text()
        ).items()
    ),
    *(
        _source(name, 8 if name in ("hf parquet", "hf saved", "tab official") else 12)
        for name in SOURCES
    ),
    *(_model(kind, 12) for kind in _KINDS),
    *(_model(kind, 3, planned=True) for kind in ("bert", "donut", "extractive", "utterances")),
    _model("adapter", 12, "--reference", "pretrained=base"),
    *(_tables(source, 20) for source in ("hf parquet", "hf saved")),
    *(_tables("hf parquet", 5, options) for options in _OPTIONS),
    *(
        _chosen(source, 3, options)
        for source in ("hf", "chat", "csv", "spans")
        for options in _OPTIONS[:3]
    ),
    Surface(
        "chat template",
        seeds.templated,
        ("model/chat_template.jinja",),
        (("inspect", "data", "--model", "model"),),
        10,
        writes="template",
    ),
    Surface(
        "statement",
        seeds.stated,
        ("out/record.json", "statement.intoto.jsonl", "key.pem"),
        (("verify", "out", "--attestation", "statement.intoto.jsonl", "--pub", "key.pem"),),
        10,
        codes=VERDICTS,
    ),
)
"""Folders that docaudit takes as they stand: data sets, checkpoints, records, pages, policies,
parameters."""
