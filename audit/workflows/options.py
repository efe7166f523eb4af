"""The options of a scan, and what can be said of them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from audit.engine.interface import WIDTH, EngineSettings
from audit.engine.local import LOCAL, make_engine
from audit.errors import UsageError
from audit.files import EVIDENCE

LEAST_SECONDS = 60.0
"""The shortest time that a scan can be bounded to."""
REFERENCES_FOLDER = "references"
"""The folder of trained references in the evidence."""


@dataclass(frozen=True)
class ScanOptions:
    """The options of a scan; see `docaudit scan --help`.

    `width` (attempts in flight) and `batch_size` (tokens of an encoder, samples of a model that answers) bound memory
    and never change a result on a CPU. `references` are folders by name; "public" is another data set whose public
    documents train the public model. `cache` keeps trained references, in `evidence` when None (a sweep shares one).
    `engine` is what `make_engine` takes. `attack_parameters` is a file that
    `parameters.read` takes. `dtype` is the number format of the model: an encoder computes in "bfloat16" if a preflight
    finds that it makes no difference, a model that answers holds its weights in it; "auto": bfloat16 for encoders on
    CUDA, and as `load_model` says for the others. `defense` names a countermeasure that the model is asked behind,
    `derived_by` says what made the model out of another one. With `no_model` the text alone is audited, and `model_dir`
    is not read. `documents` bounds the units of member and held-out documents together, `seconds` the time of the
    attacks. `evidence_dir` is where the evidence goes when it is not kept in `out`.
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
    engine: str = LOCAL
    attack_parameters: Path | None = None
    dtype: str = "auto"
    defense: str | None = None
    derived_by: tuple[str, ...] = ()
    no_model: bool = False
    documents: int | None = None
    seconds: float | None = None
    evidence_dir: Path | None = None

    @property
    def evidence(self) -> Path:
        """The folder for what only the owner may see."""
        return self.evidence_dir or self.out / EVIDENCE

    def below(self, *parts: str) -> ScanOptions:
        """Return the same scan in a folder below `out`; its evidence goes below `evidence_dir` where there is one."""
        evidence = None if self.evidence_dir is None else self.evidence_dir.joinpath(*parts)
        return replace(self, out=self.out.joinpath(*parts), evidence_dir=evidence)


def check_work(options: ScanOptions) -> None:
    """Refuse an engine that does not exist, and bounds that no scan can keep to.

    Raises:
        UsageError: they are such.
    """
    make_engine(options.engine, EngineSettings())
    if options.documents is not None and options.documents < 2:
        raise UsageError(f"--documents {options.documents}: one of each side at least", "give 2 or more")
    if options.seconds is not None and options.seconds < LEAST_SECONDS:
        raise UsageError(f"--time: {options.seconds:g} s is too short to load a model", "give a minute or more, as 30m")
    if options.seconds is not None and options.engine != LOCAL:
        raise UsageError("--time is for a scan in one process", "use --documents with another engine")
