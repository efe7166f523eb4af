"""Audit a checkpoint in a process of its own: always the same sample, seed and parameters.

As a program it is that other process: it reads options as JSON from stdin and writes a record;
nothing is drawn.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from audit import policy as policies
from audit import record as records
from audit.attacks import text_of
from audit.engine.driver import LocalEngine
from audit.engine.interface import SILENT
from audit.errors import DocauditError, EngineError, UsageError
from audit.files import EVIDENCE, write_atomically
from audit.policy import EXIT_CODES, Policy, Verdict
from audit.record import read as read_record
from audit.report import numbers
from audit.report.tables import decision_row
from audit.workflows.gate import load_policy
from audit.workflows.options import ScanOptions, check_apart, check_work, claim_folder, protect

OPTIONS: TypeAdapter[ScanOptions] = TypeAdapter(ScanOptions)
"""How options reach the other process, as JSON."""
PREFIX = "docaudit/"
"""Of the names of logged numbers."""
REFERENCES = "references"
"""The folder, in the evidence of all audits, of references that the first of them trains and the
others read."""
_TOGETHER = re.compile(
    r"(LOCAL_|GROUP_|ROLE_|CROSS_)?(RANK|WORLD_SIZE|WORLD_RANK)|MASTER_(ADDR|PORT)|(TORCHELASTIC|ACCELERATE|FSDP|SLURM|"
    r"OMPI|PMI)_.*"
)
"""Variables that tell a process that others train with it."""


@dataclass(frozen=True)
class QuickAudit:
    """What every audit of a training has in common; see `ScanOptions`.

    Attributes:
        data: the folder with manifest.toml.
        policy: a shipped policy or a file.
        root: the folder that gets one folder for each audit.
        documents: units of member and held-out documents together, drawn by lot from `seed`; None:
            all.
        timeout: seconds after which an audit is ended, and counts as failed.
    """

    data: Path
    policy: str
    root: Path
    budget: str = "quick"
    documents: int | None = None
    only: tuple[str, ...] = ()
    seed: int = 0
    references: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    device: str = "auto"
    timeout: float = 1200.0

    def options(self, model: Path, name: str) -> ScanOptions:
        """Return the options of a scan of this checkpoint, whose record gets this name.

        Only the model and the folder differ from audit to audit.
        """
        return ScanOptions(
            model_dir=model,
            data_dir=self.data,
            out=self.root / name,
            budget=self.budget,
            only=self.only,
            seed=self.seed,
            device=self.device,
            references=self.references,
            documents=self.documents,
            # What a preflight chooses could differ from checkpoint to checkpoint, and so could the
            # stage that decides.
            dtype="float32",
            cache=self.root / EVIDENCE / REFERENCES,
        )

    def run(self, model: Path, name: str, policy: Policy) -> Verdict:
        """Audit a checkpoint in another process, and judge its record here.

        Args:
            model: the folder of the checkpoint.
            name: name of the audit's folder.
            policy: policy that `policy` names, as it was read before the training.

        Raises:
            EngineError: the audit ended without a record, or took too long.
            RecordError: its record cannot be read.
        """
        options = self.options(model, name)
        # -P: a folder called audit, where the training was started, is not this package.
        command = [
            sys.executable,
            "-P",
            "-m",
            "audit.extensions.callbacks.quick_audit",
            self.policy,
        ]
        try:
            done = subprocess.run(
                command,
                input=OPTIONS.dump_json(options),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=alone(os.environ),
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EngineError(
                f"the audit took more than {self.timeout:g} s",
                "fewer documents, or a longer timeout",
            ) from None
        if done.returncode:
            # Where its owner alone reads it: it may name documents, and logs are sent away.
            folder = self.root / EVIDENCE
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            protect(folder)
            place = folder / f"failure-{name}.txt"
            write_atomically(place, done.stderr, mode=0o600)
            raise EngineError(
                f"the audit ended with exit code {done.returncode}", f"its message is in {place}"
            )
        record = read_record(options.out)
        return policies.evaluate(record, policy, policies.today())


def alone(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that trains alone, whatever its parent does."""
    kept = {name: value for name, value in environment.items() if not _TOGETHER.fullmatch(name)}
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def check_audit(audit: QuickAudit) -> QuickAudit:
    """Refuse what no audit could start from, before any training.

    Return the same with absolute paths.

    Raises:
        UsageError: no data set is there, or an option names nothing.
    """
    from audit.workflows.session import choose_attacks

    if not (audit.data / "manifest.toml").is_file():
        raise UsageError(
            f"{audit.data}: no manifest.toml is there", "give the folder of the data set (DATA_DIR)"
        )
    options = audit.options(Path(), "")
    check_work(options)
    choose_attacks(options, None)
    references = {
        name: [path.absolute() for path in paths] for name, paths in audit.references.items()
    }
    return replace(
        audit, data=audit.data.absolute(), root=audit.root.absolute(), references=references
    )


def metrics(verdict: Verdict, seconds: float) -> dict[str, float]:
    """Return the numbers of an audit that go to the training's log, by name.

    The numbers that limits were held against, and the verdict.

    A number that could not be measured is left out, for there is none.
    """
    counts = verdict.counts
    logged: dict[str, float] = {
        "audit_failed": 0,
        "exit_code": verdict.exit_code,
        "limits_met": counts.met,
        "limits_exceeded": counts.violated,
        "limits_undecided": counts.undecided,
        "seconds": round(seconds, 1),
    }
    for decision in verdict.decisions:
        if (measured := decision.measured) is not None:
            name = f"{decision.limit.attack}_{decision.limit.metric}"
            logged |= {
                name: measured.value,
                f"{name}_low": measured.low,
                f"{name}_high": measured.high,
            }
    return {f"{PREFIX}{name}": value for name, value in logged.items()}


def is_violated(verdict: Verdict) -> bool:
    """Test whether a limit is violated without an accepted exception, so that a gate refuses."""
    return verdict.exit_code == EXIT_CODES["violated"]


def sentence(verdict: Verdict) -> str:
    """State the verdict in a sentence: with the violated limits' numbers, else with counts."""
    why = [verdict.contradicted] if verdict.contradicted else []
    for decision in verdict.decisions:
        if decision.outcome == "violated":
            row = decision_row(decision, text_of(decision.limit.attack))
            limit = decision.limit
            why.append(
                f"{limit.attack} {limit.metric} is {row.measured} ({row.between}), confirmed beyond the limit of "
                f"{row.limit}"
            )
    return f"{verdict.stamp}: {'; '.join(why or [verdict.reason])}".replace(numbers.NBSP, " ")


def write_record(options: ScanOptions, policy: str) -> None:
    """Scan a checkpoint and write its record, last of all.

    Raises:
        DocauditError: the audit could not start, or could not go on.
    """
    # Load torch and the attacks, which the training process need not.
    from audit.workflows.scan import run_under
    from audit.workflows.session import open_session

    check_apart(options)
    judging_policy = load_policy(policy)
    # The training has the other GPUs.
    session = replace(open_session(options), engine=LocalEngine(options.width), notice="")
    if options.cache is not None:
        # Models trained on the data set, which is why it is as private as what an audit finds.
        options.cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        protect(options.cache.parent)
    with claim_folder(options.out, options.evidence):
        record = run_under(judging_policy, session, SILENT)
        records.write(record, options.out / "record.json")


def main() -> int:
    """Run the audit that stdin describes; return 0, or the exit code of the error.

    The lines of the error go to stderr.
    """
    try:
        write_record(OPTIONS.validate_json(sys.stdin.buffer.read()), sys.argv[1])
    except DocauditError as error:
        sys.stderr.write("\n".join(error.lines) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
