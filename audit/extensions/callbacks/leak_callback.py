"""A callback that audits the checkpoints of a training while it runs.

The training is one with the Trainer of transformers.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from audit.corpus import manifest
from audit.errors import DocauditError, EngineError, UsageError
from audit.extensions.callbacks.canary_loss import CanaryCallback
from audit.extensions.callbacks.memory_list import Listing, MemoryList, describe_failure
from audit.extensions.callbacks.quick_audit import (
    PREFIX,
    QuickAudit,
    check_audit,
    is_violated,
    metrics,
    sentence,
)
from audit.failures import class_and_place, keep_story
from audit.files import EVIDENCE
from audit.policy import Verdict
from audit.workflows.gate import load_policy

LOG = logging.getLogger("docaudit")
DOCUMENTS = 100
"""Units that an audit tries unless it is told another number: it confirms a large leak, and passes
nothing."""
LISTED = 0.1
"""Largest share of the audited training documents that is listed. Ours."""


@dataclass(frozen=True)
class Audited:
    """An audit that ended with a verdict.

    It is of the checkpoint of `step`, with `record.json` in `folder`.
    """

    step: int
    folder: Path
    verdict: Verdict


@dataclass(frozen=True)
class _Outcome:
    """What every process of a training learns of an audit.

    What to log, why to stop if it must, and what went wrong.
    """

    logged: dict[str, float]
    violated: str | None = None
    error: str | None = None


class LeakCallback(TrainerCallback):  # type: ignore[misc]
    """A quick audit of each checkpoint of a training, in a process of its own.

        trainer = Trainer(model, args, train_dataset=..., processing_class=tokenizer)
        trainer.add_callback(LeakCallback(trainer, "data", stop_on="exceeded"))

    Every audit tries the same sample with the same seed and the same parameters, so that the
    records of two steps can be compared. Its numbers and its verdict go through `trainer.log`, so
    that TensorBoard, W&B and MLflow get them (`docaudit/membership_auc`, `..._low`, `..._high`,
    `docaudit/exit_code`); its record lies in `<output_dir>-docaudit/step-<n>`. Weights and random
    state of the training are the same with and without it. Where the data set has planted answers,
    it also proves that they have a loss (`canary_loss.CanaryCallback`).

    From the second audit on it lists training documents that are likely to be memorised, in
    `<output_dir>-docaudit/evidence/memorised-step-<n>.txt` (`memory_list`).

    This is no audit of the released model: it tries few documents, and the weights that are
    released may be others. Who stops at an audit, or chooses a checkpoint by it, has chosen on its
    sample, and audits again before a release: the whole data set, with another seed, and best with
    held-out documents that no audit has tried.

    Attributes:
        audits: audits that ended with a verdict, oldest first.
        failures: why the others did not, by step.
        listings: what each audit says about the documents that will be memorised, oldest first.
        stopped: the step at which the training was stopped, and why; None where it was not.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: str | Path,
        *,
        policy: str = "default",
        budget: str = "quick",
        documents: int | None = DOCUMENTS,
        only: Sequence[str] = (),
        seed: int = 0,
        references: Mapping[str, Sequence[str | Path]] | None = None,
        device: str = "auto",
        stop_on: Literal["exceeded"] | None = None,
        on_error: Literal["warn", "raise"] = "warn",
        timeout: float = 1200.0,
        out: str | Path | None = None,
        listed: float = LISTED,
    ) -> None:
        """Check everything that can be checked before the training.

        Args:
            trainer: trainer that the callback is added to; it saves with its `processing_class`,
                and logs.
            data: the folder with manifest.toml.
            policy: a shipped policy or the path of one.
            budget: budget, as of `docaudit scan`.
            documents: number of documents that are tried, half of them trained on, drawn by lot
                from `seed`; None: all.
            only: the attacks; (): all that apply. Membership alone takes seconds.
            seed: seed of the sample and of every attack.
            references: folders of reference models by name, as of `docaudit scan --reference`.
                Those that are missing and can be trained are trained by the first audit.
            device: device of the audit: "cpu" where the training fills the GPU's memory.
            stop_on: "exceeded": stop the training when a limit is confirmed to be exceeded.
            on_error: "raise": an audit that breaks down ends the training; "warn": it is logged as
                `docaudit/audit_failed`, and the training goes on.
            timeout: seconds until an audit is ended and counts as failed. Where several processes
                train, the others wait as long, so keep it under `ddp_timeout`.
            out: the folder of the audits; None: beside `output_dir`, not in it, for that is pushed
                to the Hub.
            listed: largest share of the audited training documents that is listed as likely to be
                memorised, below 1; 0: no list.

        Raises:
            DocauditError: an option names nothing, or the policy cannot be read.
        """
        if stop_on not in (None, "exceeded"):
            raise UsageError(f"stop_on={stop_on!r}: no such outcome", "'exceeded' or None")
        if on_error not in ("warn", "raise"):
            raise UsageError(f"on_error={on_error!r}: no such choice", "'warn' or 'raise'")
        self._trainer = trainer
        self._stop_on = stop_on
        self._on_error = on_error
        named = {name: [Path(path) for path in paths] for name, paths in (references or {}).items()}
        root = _folder_of_audits(trainer.args, out)
        self._policy = load_policy(policy)
        shipped = self._policy.origin is not None and self._policy.origin.shipped
        policy = policy if shipped else str(Path(policy).absolute())
        self._quick = check_audit(
            QuickAudit(
                Path(data),
                policy,
                root,
                budget,
                documents,
                tuple(only),
                seed,
                named,
                device,
                timeout,
            )
        )
        corpus = manifest.load(Path(data))
        planted = (
            corpus.manifest.canaries is not None
            and corpus.manifest.task.kind == "question-answering"
        )
        self._canaries = CanaryCallback(trainer, data) if planted else None
        n_training = len(corpus.of("member"))
        self._memory = MemoryList(self._quick.root, n_training, listed)
        self.audits: list[Audited] = []
        self.listings: list[Listing] = []
        self.failures: dict[int, str] = {}
        self.stopped: tuple[int, str] | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Move this callback before those that write logs.

        They close them at the end, where an audit may still have to log.
        """
        handler = self._trainer.callback_handler
        if self not in handler.callbacks:
            raise UsageError(
                "LeakCallback was given another Trainer",
                "trainer.add_callback(LeakCallback(trainer, DATA))",
            )
        # A new list: the old one is being walked through. Proofs are written before a checkpoint is
        # audited.
        first = [self] if self._canaries is None else [self._canaries, self]
        handler.callbacks = [*first, *(one for one in handler.callbacks if one not in first)]
        if self._canaries is not None:
            self._canaries.on_train_begin(args, state, control)
        if str(getattr(args.save_strategy, "value", args.save_strategy)) == "no":
            self._write_log(
                "the Trainer saves no checkpoint, so that none is audited: set save_strategy and save_steps"
            )
        if getattr(self._trainer, "processing_class", None) is None:
            self._write_log(
                "the Trainer saves no tokenizer: without Trainer(processing_class=...) an audit may find none"
            )
        return control

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Audit the checkpoint that the Trainer has just saved.

        Its numbers are logged in every process.
        """
        step = state.global_step
        outcome = None
        try:
            if state.is_world_process_zero:
                trial = (
                    self._trainer._trial if state.is_hyper_param_search else None
                )  # it saves elsewhere
                folder = Path(self._trainer._get_output_dir(trial))
                outcome = self._audit_checkpoint(folder / f"checkpoint-{step}", step)
        except Exception as error:  # noqa: BLE001 (a failing audit must not end a training that costs days)
            outcome = self._note_failure(step, error)
        outcome = _shared(args, outcome)
        assert outcome is not None
        self._trainer.log(dict(outcome.logged))
        if outcome.error is not None and self._on_error == "raise":
            raise EngineError(f"the audit at step {step} failed: {outcome.error}")
        if outcome.violated is not None and self._stop_on == "exceeded":
            control.should_training_stop = True
            self.stopped = (step, outcome.violated)
            if state.is_world_process_zero:
                self._write_log(f"training stopped at step {step}: {outcome.violated}")
        return control

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Log how many audits there were, and how many failed."""
        n_audits = len(self.audits) + len(self.failures)
        counted = f"{n_audits} audit{'' if n_audits == 1 else 's'}"
        if not state.is_world_process_zero:
            return control
        if not self.audits:
            self._write_log(
                f"{counted}, none with a verdict: nothing is known of this model", logging.ERROR
            )
            return control
        last = self.audits[-1]
        failed = f", {len(self.failures)} failed" if self.failures else ""
        self._write_log(
            f"{counted}{failed}; the last, of step {last.step}, is {last.verdict.stamp}. None is an audit of the "
            f"released model: scan it, with all documents and another seed than {self._quick.seed}"
        )
        return control

    def _audit_checkpoint(self, model: Path, step: int) -> _Outcome:
        """Audit a checkpoint; return its numbers for the log, and why a limit is violated."""
        started = time.monotonic()
        name = f"step-{step}"
        verdict = self._quick.run(model, name, self._policy)
        folder = self._quick.root / name
        self.audits.append(Audited(step, folder, verdict))
        said = sentence(verdict)
        level = logging.INFO if verdict.overall == "passed" else logging.WARNING
        self._write_log(f"step {step}, a quick audit: {said} ({folder})", level)
        logged = metrics(verdict, time.monotonic() - started)
        logged |= self._list_documents(folder, step)
        return _Outcome(logged, said if is_violated(verdict) else None)

    def _list_documents(self, folder: Path, step: int) -> dict[str, float]:
        """List the documents that will be memorised; return their number for the log.

        A list that cannot be made leaves the audit as it is.
        """
        try:
            listing = self._memory.add(folder, step)
        except Exception as error:  # noqa: BLE001 (the audit has its verdict, and the list is extra)
            keep_story(error, self._quick.root / EVIDENCE, f"failure-list-{step}")
            self._write_log(describe_failure(error))
            return {}
        if listing is None:
            return {}
        self.listings.append(listing)
        level = logging.WARNING if listing.foreseen.listed else logging.INFO
        self._write_log(listing.sentence, level)
        return {f"{PREFIX}listed": len(listing.foreseen.listed)}

    def _note_failure(self, step: int, error: Exception) -> _Outcome:
        """Note and log why an audit failed; return its numbers for the log."""
        if isinstance(error, DocauditError):
            why = "; ".join([f"{type(error).__name__}: {error}", *filter(None, [error.hint])])
        else:
            # Its message can hold a page, and logs are sent away.
            keep_story(error, self._quick.root / EVIDENCE, f"failure-step-{step}")
            why = class_and_place(error)
        self.failures[step] = why
        self._write_log(
            f"step {step}: THE AUDIT FAILED, nothing is known of this checkpoint: {why}",
            logging.ERROR,
        )
        # Never the numbers of an earlier audit, never those of a pass.
        return _Outcome(
            {f"{PREFIX}audit_failed": 1, f"{PREFIX}exit_code": EngineError.exit_code}, error=why
        )

    def _write_log(self, text: str, level: int = logging.WARNING) -> None:
        """Write a line to the log of docaudit."""
        # Mostly as warnings: without any set-up of logging nothing less is shown.
        LOG.log(level, "docaudit: %s", text)


def _folder_of_audits(args: TrainingArguments, out: str | Path | None) -> Path:
    """Return the folder that the audits, with what they recovered, are written to.

    It is nowhere from where it would be pushed to the Hub.

    Raises:
        UsageError: it would be.
    """
    own = Path(args.output_dir).absolute()
    if out is None:
        return own.with_name(f"{own.name}-docaudit")
    if args.push_to_hub and Path(out).absolute().is_relative_to(own):
        raise UsageError(
            f"out={str(out)!r} lies in output_dir, which is pushed to the Hub, with what the audits recover",
            "name a folder outside it",
        )
    return Path(out)


def _shared(args: TrainingArguments, value: Any) -> Any:
    """Return the main process's value in every process of a training.

    One that stops alone leaves the others waiting for ever.
    """
    if args.world_size == 1:
        return value
    from accelerate.utils import broadcast_object_list

    return broadcast_object_list([value])[0]
