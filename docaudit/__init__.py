"""Audit a document model from Python.

    import docaudit

    result = docaudit.scan("my-model", "my-data", out="report", documents=60)
    print(result.verdict.word, result.exit_code, result.reports["report.html"])

`scan` attacks a model and judges it, as `docaudit scan` does. `load_record` reads what a scan
found, and `evaluate` judges it by another policy. Errors that the caller can mend are
`DocauditError`s. Importing this package is quick: PyTorch is loaded when a scan begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from docaudit.ownership import refuse_other_audit

refuse_other_audit()

from audit import __version__
from audit.errors import DocauditError
from audit.progress import Progress, observed_by

if TYPE_CHECKING:
    from audit import record as records
    from audit.extensions.hub import fetch
    from audit.policy import limits
    from audit.workflows.options import ScanOptions
    from audit.workflows.scan import ScanResult
    from docaudit.types import AuditRecord, Corpus, Policy, Verdict

__all__ = ["AuditRecord", "Corpus", "DocauditError", "Policy", "ScanResult", "Verdict"]
__all__ += ["__version__", "evaluate", "fetch", "load_record", "scan"]
Place = str | Path
Report = Callable[[str, int, int], None]
"""Gets the name of a stage, the steps that are done, and all steps (0: nobody knows)."""


_PLACES = {"ScanResult": "audit.workflows.scan", "fetch": "audit.extensions.hub"}
"""Modules of names that are imported late; those of all other types are in `docaudit.types`."""


def __getattr__(name: str) -> Any:
    """Import a type or a function when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "docaudit.types")), name)


def scan(
    model_dir: Place | None,
    data_dir: Place,
    *,
    out: Place = "docaudit-report",
    policy: Policy | Place = "default",
    budget: Literal["quick", "standard", "full"] = "standard",
    only: Sequence[str] = (),
    references: Mapping[str, Place | Sequence[Place]] | None = None,
    derived_from: Place | None = None,
    defense: str | None = None,
    seed: int = 0,
    fresh: bool = False,
    attack_parameters: Place | None = None,
    documents: int | None = None,
    seconds: float | None = None,
    device: str = "auto",
    dtype: Literal["auto", "float32", "bfloat16"] = "auto",
    batch_size: int | None = None,
    engine: str = "auto",
    evidence: Place | None = None,
    allow_network: bool = False,
    progress: Report | None = None,
) -> ScanResult:
    """Attack a model, judge it by a policy, and write the reports, as `docaudit scan` does.

    Call it again with the same arguments to continue an interrupted scan.

    Args:
        model_dir: the model's folder, or with `allow_network` an address such as `hf://ORG/MODEL`.
            None audits the text of the data set alone (`docaudit scan --no-model`).
        data_dir: the folder with manifest.toml.
        out: the folder of record and reports. Its folder `evidence` holds recovered values: keep it
            private.
        policy: a shipped policy ("default", "strict"), a TOML file, or a `Policy`.
        budget: how much of the work to do. "quick" tries a quarter.
        only: the attacks to run; empty: all. Limits of all other attacks become undecided.
        references: folders of models that never saw the audited documents, by name ("pretrained",
            "auxiliary", "baselines", "splits").
        derived_from: the record or folder of an audited model's scan, of which this model is an
            export. Its trials and policy are taken. `out` is then "docaudit-export" by default, and
            `record.derived_from.outcome` says whether the export leaks more.
        defense: a countermeasure that the model is asked behind.
        seed: the start of every random choice.
        fresh: start over, and ignore what an earlier scan left.
        attack_parameters: a TOML file with parameters of attacks.
        documents: try this many documents in all.
        seconds: try as many documents as fit into this time.
        device: "auto", "cpu", "cuda" or "mps".
        dtype: the number format of the model.
        batch_size: tokens (of an encoder) or samples (of a model that answers) of a forward pass;
            None: as fits.
        engine: "auto", "local", or that of an extension.
        evidence: another folder for the evidence.
        allow_network: permit the download of models and data sets of the Hub. All else stays
            offline.
        progress: called with stage, steps done and all steps; None: the scan is silent.

    Returns:
        The record, the verdict on it, its exit code, the reports that were written, and warnings.

    Raises:
        DocauditError: the scan could not start, or could not go on. Its `problems` and `hint` say
            what to do.
    """
    from audit.extensions.hub import fetch, network
    from audit.workflows.gate import load_policy
    from audit.workflows.options import ScanOptions, check_folders

    def local(place: Place) -> Path:
        return fetch(place, allow_network=allow_network, plain=True)

    named = {
        name: [one] if isinstance(one, str | Path) else one
        for name, one in (references or {}).items()
    }
    options = ScanOptions(
        model_dir=Path() if model_dir is None else local(model_dir),
        data_dir=fetch(data_dir, allow_network=allow_network),
        out=Path(out),
        budget=budget,
        only=tuple(only),
        seed=seed,
        device=device,
        fresh=fresh,
        references={name: [local(one) for one in places] for name, places in named.items()},
        batch_size=batch_size,
        engine=engine,
        attack_parameters=None if attack_parameters is None else Path(attack_parameters),
        dtype=dtype,
        defense=defense,
        no_model=model_dir is None,
        documents=documents,
        seconds=seconds,
        evidence_dir=None if evidence is None else Path(evidence),
        derived_from=None if derived_from is None else Path(derived_from),
    )
    chosen, observer = load_policy(policy), _CallbackProgress(progress)
    if derived_from is not None:
        options, chosen = _as_audited(options, None if policy == "default" else chosen)
    check_folders(options)
    with network(allowed=False), observed_by(observer):
        observer.stage("opening the model and the data set")
        from audit.workflows.scan import run
        from docaudit.types import AuditRecord, Verdict

        result = run(options, chosen, observer)
    return replace(result, record=AuditRecord.of(result.record), verdict=Verdict.of(result.verdict))


def _as_audited(
    options: ScanOptions, policy: limits.Policy | None
) -> tuple[ScanOptions, limits.Policy]:
    """Return options and policy by which an export is scanned as the audited model was.

    An argument at its default counts as one that nobody gave.
    """
    from audit.files import EXPORT_OUT, SCAN_OUT
    from audit.workflows import exports

    if options.out == Path(SCAN_OUT):
        options = replace(options, out=Path(EXPORT_OUT))
    exports.refuse_other_subjects(options, sweeps=False)
    return exports.scan_as_audited(options, policy, exports.options_given(options))


class _CallbackProgress(Progress):
    """A `Progress` that calls a function."""

    def __init__(self, report: Report | None) -> None:
        self._report, self._name, self._done, self._total = report, "", 0, 0

    def stage(self, name: str, total: int = 0) -> None:
        """See `Progress.stage`."""
        self._name, self._done, self._total = name, 0, total
        self.advance(0)

    def advance(self, steps: int = 1) -> None:
        """See `Progress.advance`."""
        self._done += steps
        if self._report is not None:
            self._report(self._name, self._done, self._total)


def load_record(path: Place) -> AuditRecord:
    """Read the record of a scan.

    Args:
        path: `record.json`, or the folder that the scan wrote.

    Raises:
        RecordError: there is none, or another version of docaudit wrote it.
    """
    from audit.record import read
    from docaudit.types import AuditRecord

    return AuditRecord.of(read(Path(path)))


def evaluate(record: records.AuditRecord, policy: Policy | Place = "default") -> Verdict:
    """Judge a record by a policy, without another scan.

    Args:
        record: of a scan.
        policy: a shipped policy ("default", "strict"), a TOML file, or a `Policy`.

    Returns:
        The verdict: `word`, `exit_code`, and a decision for each limit.

    Raises:
        PolicyError: the policy cannot be read, or names what does not exist.
    """
    from audit.policy import evaluate as judge
    from audit.policy import today
    from audit.workflows.gate import load_policy
    from docaudit.types import AuditRecord, Verdict

    plain = AuditRecord.of(record).plain()
    return Verdict.of(judge(plain, load_policy(policy, complete=False), today()))
