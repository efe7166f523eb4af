"""The options of a scan and its two folders: `--out` may be passed on, the evidence may not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from audit import record as records
from audit.engine.driver import AUTO, LOCAL, make_engine
from audit.engine.interface import WIDTH, EngineSettings
from audit.engine.journal import exclusive
from audit.errors import EngineError, RecordError, TargetError, UsageError, is_address, typed
from audit.files import EVIDENCE, check_folder
from audit.report.commands import Called
from audit.workflows import wording
from audit.workflows.apart import refuse_inside

_OF_THIS_MACHINE = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])")
"""How the address of a server of this machine begins."""
LEAST_SECONDS = 60.0
"""The shortest time that a scan can be bounded to."""
REFERENCES_FOLDER = "references"
"""The folder of trained references in the evidence."""


@dataclass(frozen=True)
class ScanOptions:
    """The options of a scan; each has one meaning and one default wherever it is taken.

    Commands, the Python API and callbacks fill it; `docaudit scan --help` explains it to users.

    Attributes:
        model_dir: folder of the model, or address of a server; not read with `no_model`.
        data_dir: folder with manifest.toml.
        out: folder of the record and the reports.
        budget: amount of the work to do: "quick", "standard" or "full".
        only: names of the attacks to run; empty: all.
        seed: start of every random choice.
        device: device of the model: "auto", "cpu", "cuda" or "mps".
        fresh: whether to start anew instead of continuing an interrupted scan.
        references: folders of reference models by name; "public" is another data set whose public
            documents train the public model.
        batch_size: tokens of an encoder, or samples of a model that answers, in a forward pass;
            None: as fits. It bounds memory and never changes a result on a CPU.
        width: attempts in flight. It bounds memory and never changes a result on a CPU.
        cache: folder that keeps trained references (a sweep shares one); None: in `evidence`.
        engine: engine that runs trials, as `make_engine` takes it.
        attack_parameters: file with parameters, as `battery.read_parameters` takes it.
        dtype: number format of the model. "bfloat16": an encoder computes in it if a preflight
            finds that it makes no difference, a model that answers holds its weights in it. "auto":
            bfloat16 for encoders on CUDA, and as `load_model` says for the others.
        defense: name of a countermeasure that the model is asked behind.
        derived_by: titles of the countermeasures that made the model out of another one.
        no_model: whether the text alone is audited.
        documents: bound of the units of member and held-out documents together.
        seconds: bound of the time of the attacks.
        evidence_dir: folder of the evidence; None: in `out`.
        start: what the audited model was fine-tuned from, for countermeasures that train it again;
            no attack uses it. None: the reference "pretrained".
        forgotten: file that names the documents that the model was to forget; these alone are then
            compared with held-out ones.
        derived_from: scan of the audited model that this one is an export of; the other options are
            then those of that scan (`workflows.exports.as_audited`).
    """

    model_dir: Path
    data_dir: Path
    out: Path
    budget: str = "standard"
    only: tuple[str, ...] = ()
    seed: int = 0
    device: str = "auto"
    fresh: bool = False
    references: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    batch_size: int | None = None
    width: int = WIDTH
    cache: Path | None = None
    engine: str = AUTO
    attack_parameters: Path | None = None
    dtype: str = "auto"
    defense: str | None = None
    derived_by: tuple[str, ...] = ()
    no_model: bool = False
    documents: int | None = None
    seconds: float | None = None
    evidence_dir: Path | None = None
    start: Path | None = None
    forgotten: Path | None = None
    derived_from: Path | None = None

    @property
    def evidence(self) -> Path:
        """Return the folder for what only the owner may see."""
        return self.evidence_dir or self.out / EVIDENCE

    @property
    def paths(self) -> dict[str, str]:
        """Return the folders of model and data as they were given, by their names in commands.

        See `Called`.
        """
        folders = {"MODEL_DIR": self.model_dir, "DATA_DIR": self.data_dir}
        return {name: typed(path) for name, path in folders.items() if path != Path()}

    def called(self, policy: str = "") -> Called:
        """Return how the scan was called, for the commands that go on from it.

        What limits a scan, as `only` does, is left out: the next one is to decide more.

        Args:
            policy: name of a shipped policy, or path of a file; empty: nobody knows it any more.
        """
        places = {"SCAN_DIR": str(self.out), "POLICY.toml": policy}
        if self.forgotten is not None:
            places["IDS"] = str(self.forgotten)
        references = []
        for name, folders in self.references.items():
            references += [(name, typed(folder)) for folder in folders]
        evidence = str(self.evidence_dir or "")
        called = Called(self.paths, references, tuple(self._words()), evidence)
        return called.at(**places)

    def _words(self) -> Iterator[str]:
        """Yield the further options that a next scan takes over, a word each."""
        usual: dict[str, tuple[object, object]] = {
            "--evidence": (self.evidence_dir, None),
            "--defense": (self.defense, None),
            "--attack-parameters": (self.attack_parameters, None),
            "--device": (self.device, "auto"),
            "--dtype": (self.dtype, "auto"),
            "--batch-size": (self.batch_size, None),
            "--engine": (self.engine, AUTO),
        }
        for option, (chosen, default) in usual.items():
            if chosen != default:
                yield option
                yield str(chosen)
        if _is_elsewhere(typed(self.model_dir)):
            yield "--allow-network"

    def below(self, *parts: str) -> ScanOptions:
        """Return the same scan in a folder below `out`.

        Its evidence goes below `evidence_dir` where there is one.
        """
        below = replace(self, out=self.out.joinpath(*parts))
        if self.evidence_dir is None:
            return below
        return replace(below, evidence_dir=self.evidence_dir.joinpath(*parts))


def _is_elsewhere(place: str) -> bool:
    """Test whether a model is asked at the server of another machine."""
    if not is_address(place):
        return False
    return _OF_THIS_MACHINE.match(place) is None


def check_work(options: ScanOptions) -> None:
    """Refuse an engine that does not exist, and bounds that no scan can keep to.

    Raises:
        UsageError: they are such.
    """
    make_engine(options.engine, EngineSettings())
    if options.documents is not None and options.documents < 2:
        raise UsageError(
            f"--documents {options.documents}: one of each side at least", "give 2 or more"
        )
    if options.seconds is not None and options.seconds < LEAST_SECONDS:
        raise UsageError(
            f"--time: {options.seconds:g} s is too short to load a model",
            "give a minute or more, as 30m",
        )
    if options.seconds is not None and options.engine.partition(":")[0] not in (AUTO, LOCAL):
        raise UsageError(
            "--time is for a scan in one process", "use --documents with another engine"
        )


PREVIOUS = "record.previous.json"
"""The record that a scan found in its folder."""
_IGNORE = ".gitignore"
_EVERYTHING = "*\n"
_OF_A_SCAN = (".lock", "record.json", PREVIOUS, "*/record.json")


def check_folders(options: ScanOptions) -> None:
    """Refuse folders that a scan cannot use, before anything is loaded; see `claim_folder`.

    Raises:
        UsageError: a folder takes no files, holds those of somebody else, or lies inside the model
            or the data set.
        TargetError: see `check_places`.
    """
    # Imported late: it loads what reads pages, which a report does without.
    from audit.workflows.places import check_places, refusal_of_export

    out = options.out
    evidence = options.evidence_dir
    check_folder("--out", out)
    check_apart(options)
    _refuse_foreign(out)
    if evidence is None:
        _refuse_link(out / EVIDENCE)
    else:
        check_folder("--evidence", evidence)
        _refuse_shared(out, evidence)
    model = None if options.model_dir == Path() else options.model_dir
    try:
        check_places(model, options.data_dir, options.references)
    except TargetError as error:
        if options.derived_from is None:
            raise
        raise refusal_of_export(error, options.data_dir, options.derived_from) from None


def check_apart(options: ScanOptions) -> None:
    """Refuse to write into the folder of the model or the data set, which are audited as they are.

    Links are followed: what is written would be hashed, shipped or read as a part of what was
    audited.

    Raises:
        UsageError: `--out` or `--evidence` lies there.
    """
    for name, path in options.paths.items():
        for option, written in (("--out", options.out), ("--evidence", options.evidence)):
            refuse_inside(name, Path(path), option, written)


@contextmanager
def writing(folder: Path, option: str = "--out") -> Iterator[None]:
    """Name the folder that an error of the system is about, and the option that chose it."""
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"{folder}: {error.strerror or error}", f"choose another {option}"
        ) from None


def _report_names() -> tuple[str, ...]:
    """Name the files of a report and a trend."""
    # Imported late, as a plan draws neither.
    from audit.report.files import NAMES, TREND_NAMES

    return (*NAMES, *TREND_NAMES)


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder with files that a scan would replace, and that no scan has written."""
    if any(next(out.glob(name), None) for name in _OF_A_SCAN):
        return
    foreign = [name for name in _report_names() if (out / name).exists()]
    if foreign:
        raise UsageError(*wording("foreign_files", out=out, names=", ".join(foreign)))


def _refuse_link(evidence: Path) -> None:
    """Refuse a link in place of the folder for evidence.

    What it leads to would be closed, and take personal text.
    """
    if evidence.is_symlink():
        raise UsageError(
            f"{evidence}: is a link to another folder", "name that folder with --evidence"
        )


@contextmanager
def claim_folder(out: Path, evidence: Path | None = None) -> Iterator[None]:
    """Hold `out` for one scan.

    It is made when missing, its older record is moved aside, its older reports are removed.

    Args:
        out: folder of record and reports.
        evidence: folder of the evidence, see `hold_evidence`; None: within `out`.

    Raises:
        EngineError: a folder cannot be written, or another scan holds it.
        UsageError: a folder holds files of something else.
    """
    _refuse_foreign(out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out), hold_evidence(out, evidence or out / EVIDENCE) as private:
        _clear(out, private)
        yield


@contextmanager
def hold_evidence(out: Path, evidence: Path) -> Iterator[Path]:
    """Hold a folder that its owner alone can read, and that git leaves out.

    All its files are private at the end.

    Args:
        out: folder of what may be passed on, which is held already.
        evidence: folder of the evidence, made when missing.

    Raises:
        EngineError: it cannot be written, or another scan holds it.
        UsageError: it is no folder for evidence: it holds `out`, or files of something else.
    """
    is_within = evidence.absolute() == (out / EVIDENCE).absolute()
    with writing(evidence, "--out" if is_within else "--evidence"):
        if is_within:
            _refuse_link(evidence)
        else:
            _refuse_shared(out, evidence)
        evidence.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close(evidence)
    with ExitStack() as stack:
        if not is_within:
            stack.enter_context(exclusive(evidence))
        try:
            yield evidence
        finally:
            make_private(evidence)


def protect(evidence: Path) -> None:
    """Close a folder of evidence, whatever wrote it, to everybody but its owner, and to git.

    Raises:
        EngineError: it is not there, or it cannot be written.
    """
    try:
        _close(evidence)
    except OSError as error:
        raise EngineError(f"{evidence}: {error.strerror or error}") from None
    make_private(evidence)


def _close(evidence: Path) -> None:
    """Close a folder to everybody but its owner, and to git."""
    evidence.chmod(0o700)
    ignore = evidence / _IGNORE
    if not ignore.exists():
        ignore.write_text(_EVERYTHING, encoding="utf-8")


def _refuse_shared(out: Path, evidence: Path) -> None:
    """Refuse a folder whose other files would become private, and would be left out by git."""
    place = evidence.resolve()
    if place == out.resolve() or place in out.resolve().parents:
        raise UsageError(*wording("evidence_around_out", evidence=evidence))
    ignore = evidence / _IGNORE
    is_evidence = ignore.is_file() and ignore.read_bytes() == _EVERYTHING.encode()
    if evidence.is_dir() and any(evidence.iterdir()) and not is_evidence:
        raise UsageError(*wording("evidence_of_others", evidence=evidence))


def make_private(folder: Path) -> None:
    """Take everything in a folder away from everybody but its owner."""
    for place, folders, files in os.walk(folder):
        for name in folders:
            _restrict(Path(place, name), 0o700)
        for name in files:
            _restrict(Path(place, name), 0o600)


def _restrict(path: Path, mode: int) -> None:
    """Set the mode of a file or folder, unless it is a link."""
    # A file that goes meanwhile gives nothing away; the folder itself is closed in any case.
    with suppress(OSError):
        if not path.is_symlink():
            path.chmod(mode)


def warn_of_other_record(out: Path, model: str, data: str) -> tuple[str, ...]:
    """Say that a scan takes the place of the record of another model or data set, whose reports go.

    Args:
        out: folder of the scan.
        model: sha256 of the model that is to be scanned.
        data: sha256 of the data set.
    """
    try:
        record = records.read(out)
    except RecordError:
        return ()
    if record.target.sha256 != model:
        what = "another model"
    elif record.corpus.sha256 != data:
        what = "another data set, or of another state of it"
    else:
        return ()
    name = record.target.name
    day = record.timing.started.partition("T")[0]
    older = " in place of an older one" if (out / PREVIOUS).exists() else ""
    return wording("other_record", out=out, what=what, name=name, day=day, older=older)


def _clear(out: Path, evidence: Path) -> None:
    """Move an older record aside and remove the reports drawn from it.

    So nothing shows the verdict of another scan.
    """
    from audit.report.revealed import NAME

    with writing(out):
        if (out / "record.json").exists():
            os.replace(out / "record.json", out / PREVIOUS)
        stale = [out / name for name in _report_names()]
        stale.append(evidence / NAME)
        stale += evidence.glob("failure-*.txt")
        for path in stale:
            path.unlink(missing_ok=True)
