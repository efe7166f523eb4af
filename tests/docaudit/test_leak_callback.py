"""The Trainer's callback: it audits, logs and stops, and leaves the training as it would have been without it."""

import dataclasses
import io
import json
import logging
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import example_records as examples
import pytest
import tiny
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import HPSearchBackend

import docaudit.integrations.transformers as public
from audit.engine.driver import LocalEngine
from audit.errors import EngineError, PolicyError, UsageError
from audit.extensions.callbacks import leak_callback as callbacks
from audit.extensions.callbacks import quick_audit
from audit.extensions.callbacks.leak_callback import LeakCallback
from audit.extensions.callbacks.quick_audit import OPTIONS, QuickAudit, alone
from audit.workflows.gate import load_policy

VERDICTS = {"violated": examples.violated, "undecided": examples.wide, "passed": examples.passed}


class Rows(torch.utils.data.Dataset):
    """A few pages of random tokens, with labels."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.arange(12) + index + 5
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "labels": ids % len(tiny.LABELS),
        }


def trainer_in(folder: Path, **more: Any) -> Trainer:
    settings = {
        "max_steps": 4,
        "save_strategy": "steps",
        "save_steps": 2,
        "logging_steps": 1,
        **more,
    }
    args = TrainingArguments(
        output_dir=str(folder / "run"),
        per_device_train_batch_size=4,
        report_to="none",
        use_cpu=True,
        **settings,
    )
    model = tiny.model("bert", "token-classification")
    return Trainer(model, args, train_dataset=Rows(), processing_class=tiny.tokenizer())


@pytest.fixture
def audits(monkeypatch):
    """What each audit gives, in order: a name of `VERDICTS`, or an error.

    Without any left, "undecided".
    """
    given: list[Any] = []

    def run(self: QuickAudit, model: Path, name: str, policy: object) -> object:
        assert (model / "model.safetensors").is_file()
        assert (model / "tokenizer_config.json").is_file()
        assert (model / "trainer_state.json").is_file()
        outcome = given.pop(0) if given else "undecided"
        if isinstance(outcome, Exception):
            raise outcome
        return VERDICTS[outcome]()[1]

    monkeypatch.setattr(QuickAudit, "run", run)
    return given


def logged(trainer: Trainer) -> dict[int, dict[str, float]]:
    return {one["step"]: one for one in trainer.state.log_history if "docaudit/exit_code" in one}


def test_the_name_that_is_promised_is_the_class():
    assert public.LeakCallback is LeakCallback


def test_each_save_is_audited_and_logged_with_its_interval(tmp_path, tiny_corpus, audits):
    audits += ["passed", "undecided"]
    trainer = trainer_in(tmp_path)
    callback = LeakCallback(trainer, tiny_corpus)
    trainer.add_callback(callback)
    trainer.train()
    assert [one.step for one in callback.audits] == [2, 4]
    said = logged(trainer)
    assert [said[step]["docaudit/exit_code"] for step in (2, 4)] == [0, 11]
    name = "docaudit/reconstruction_excess_pr.unique"
    assert said[2][f"{name}_low"] < said[2][name] < said[2][f"{name}_high"]
    assert said[2]["docaudit/audit_failed"] == 0
    assert [one["step"] for one in trainer.state.log_history if "loss" in one] == [1, 2, 3, 4]
    assert callback.stopped is None


def test_a_confirmed_leak_stops_the_training_and_says_where_and_why(
    tmp_path, tiny_corpus, audits, caplog
):
    audits += ["undecided", "violated"]
    trainer = trainer_in(tmp_path, max_steps=8)
    callback = LeakCallback(trainer, tiny_corpus, stop_on="exceeded")
    trainer.add_callback(callback)
    trainer.train()
    assert trainer.state.global_step == 4
    assert callback.stopped is not None
    assert callback.stopped[0] == 4
    (said,) = [line for line in caplog.messages if "training stopped" in line]
    assert "stopped at step 4: EXCEEDED: reconstruction excess_pr.unique is 60 points" in said
    assert "confirmed beyond the limit of at most 5 points" in said


def test_a_leak_stops_nothing_unless_it_is_asked_to(tmp_path, tiny_corpus, audits):
    audits += ["violated", "violated"]
    trainer = trainer_in(tmp_path)
    trainer.add_callback(LeakCallback(trainer, tiny_corpus))
    trainer.train()
    assert trainer.state.global_step == 4
    assert {one["docaudit/exit_code"] for one in logged(trainer).values()} == {10}


class Reporter(TrainerCallback):
    """Keeps what TensorBoard, W&B or MLflow would be told, and nothing once the training has told it to close."""

    def __init__(self) -> None:
        self.told: dict[int, dict[str, float]] = {}
        self.closed = False

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        if not self.closed and "docaudit/exit_code" in logs:
            self.told[state.global_step] = logs

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.closed = True


def test_the_last_audit_reaches_reporters_before_they_close(tmp_path, tiny_corpus, audits):
    trainer = trainer_in(tmp_path, save_steps=4)
    reporter = Reporter()
    trainer.add_callback(reporter)
    trainer.add_callback(LeakCallback(trainer, tiny_corpus))
    trainer.train()
    assert reporter.told[4]["docaudit/exit_code"] == 11
    assert all(isinstance(value, float | int) for value in reporter.told[4].values()), (
        "MLflow takes numbers alone"
    )


def test_the_example_trains_the_sample_and_stops_where_the_audit_says_so(tmp_path, audits):
    audits += ["violated"]
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "while_training.py"))
    callback = example["train"](tmp_path / "run", epochs=2, documents=80)
    assert callback.stopped is not None
    assert callback.stopped[0] == 20, "160 pages, eight a step, one epoch"


def test_a_failing_audit_is_loud_never_a_pass_and_ends_no_training(
    tmp_path, tiny_corpus, audits, caplog
):
    audits += ["passed", RuntimeError("no memory is left")]
    trainer = trainer_in(tmp_path)
    callback = LeakCallback(trainer, tiny_corpus, stop_on="exceeded")
    trainer.add_callback(callback)
    trainer.train()
    assert trainer.state.global_step == 4
    said = {
        name: value for name, value in logged(trainer)[4].items() if name.startswith("docaudit/")
    }
    assert said == {"docaudit/audit_failed": 1, "docaudit/exit_code": 1}
    # The message can hold a page, and logs are sent away.
    assert callback.failures[4].startswith("RuntimeError at audit/extensions/callbacks/")
    assert "no memory is left" not in caplog.text
    assert [one.levelno for one in caplog.records if "THE AUDIT FAILED" in one.message] == [
        logging.ERROR
    ]
    assert "2 audits, 1 failed" in caplog.text


def test_no_verdict_at_all_is_said_at_the_end(tmp_path, tiny_corpus, audits, caplog):
    audits += [RuntimeError(), RuntimeError()]
    trainer = trainer_in(tmp_path)
    trainer.add_callback(LeakCallback(trainer, tiny_corpus))
    trainer.train()
    assert "nothing is known of this model" in caplog.messages[-1]


def test_a_failing_audit_ends_the_training_when_asked(tmp_path, tiny_corpus, audits):
    audits += [RuntimeError("no memory is left")]
    trainer = trainer_in(tmp_path)
    trainer.add_callback(LeakCallback(trainer, tiny_corpus, on_error="raise"))
    with pytest.raises(EngineError, match="step 2 failed: RuntimeError at audit/"):
        trainer.train()


def test_only_the_main_process_audits_and_all_do_what_it_says(
    tmp_path, tiny_corpus, audits, monkeypatch
):
    trainer = trainer_in(tmp_path)
    callback = LeakCallback(trainer, tiny_corpus, stop_on="exceeded")
    trainer.add_callback(callback)
    said = callbacks._Outcome({"docaudit/exit_code": 10}, violated="EXCEEDED: much")
    monkeypatch.setattr(callbacks, "_shared", lambda args, value: said)
    state = dataclasses.replace(trainer.state, is_world_process_zero=False, global_step=1)
    control = callback.on_save(trainer.args, state, trainer.control)
    assert not callback.audits
    assert control.should_training_stop
    assert (callback.stopped, trainer.state.log_history[-1]["docaudit/exit_code"]) == (
        (1, "EXCEEDED: much"),
        10,
    )


def test_a_search_for_hyperparameters_audits_what_its_trial_saved(
    tmp_path, tiny_corpus, monkeypatch
):
    seen: list[Path] = []
    monkeypatch.setattr(
        QuickAudit, "run", lambda self, model, *_: (seen.append(model), examples.passed()[1])[1]
    )
    trainer = trainer_in(tmp_path)
    trainer.hp_search_backend = HPSearchBackend.OPTUNA
    trainer.hp_name = None
    trainer._trial = SimpleNamespace(number=3)
    callback = LeakCallback(trainer, tiny_corpus)
    state = dataclasses.replace(trainer.state, is_hyper_param_search=True, global_step=2)
    callback.on_save(trainer.args, state, trainer.control)
    assert seen == [Path(trainer.args.output_dir) / "run-3" / "checkpoint-2"]


def test_the_audits_process_trains_with_no_other():
    together = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "8",
        "MASTER_ADDR": "a",
        "TORCHELASTIC_RUN_ID": "b",
    }
    kept = alone({**together, "PATH": "/bin", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "3"})
    assert not together.keys() & kept.keys()
    assert {"PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"} <= kept.keys()


def test_what_a_failed_audit_says_is_for_its_owner_alone(tmp_path, tiny_corpus, monkeypatch):
    """Messages name documents, and a training's log is sent to whoever keeps it."""
    quick = QuickAudit(tiny_corpus, "default", tmp_path / "audits")

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(
            command, 2, b"", b"documents.jsonl:17 invoice of A. Berg"
        )

    monkeypatch.setattr("audit.extensions.callbacks.quick_audit.subprocess.run", run)
    with pytest.raises(EngineError) as raised:
        quick.run(tmp_path, "step-2", load_policy("default"))
    assert "Berg" not in f"{raised.value} {raised.value.hint}"
    kept = tmp_path / "audits" / "evidence" / "failure-step-2.txt"
    assert str(kept) in raised.value.hint
    assert "Berg" in kept.read_text()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_process_of_an_audit_ends_with_the_code_of_its_error(
    tmp_path, tiny_corpus, monkeypatch, capsys
):
    options = QuickAudit(tiny_corpus, "default", tmp_path).options(tmp_path / "no-model", "step-1")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OPTIONS.dump_json(options))))
    monkeypatch.setattr("sys.argv", ["quick_audit", "default"])
    assert quick_audit.main() == 2
    assert "no-model" in capsys.readouterr().err
    assert not (tmp_path / "step-1").exists()


def test_an_audit_leaves_the_other_gpus_to_the_training(tmp_path, monkeypatch):
    @dataclasses.dataclass
    class Opened:
        engine: object = "ray:workers=8"
        notice: str = "Using 8 GPUs: one worker each"

    ran: list[Any] = []
    monkeypatch.setattr("audit.workflows.session.open_session", lambda _: Opened())

    def run_scan(opened, *_):
        ran.append(opened)
        return tiny.record()

    monkeypatch.setattr("audit.workflows.scan.run_scan", run_scan)
    monkeypatch.setattr(quick_audit.records, "write", lambda *_: None)
    quick_audit.write_record(
        QuickAudit(tmp_path, "default", tmp_path).options(tmp_path / "model", "step-1"), "default"
    )
    assert [(opened.engine, opened.notice) for opened in ran] == [(LocalEngine(), "")]


def test_two_steps_are_audited_alike_so_that_their_records_can_be_compared():
    quick = QuickAudit(Path("data"), "default", Path("out"), documents=8, seed=3)
    first, second = (quick.options(Path(name), f"step-{name}") for name in ("10", "20"))
    assert dataclasses.replace(second, model_dir=first.model_dir, out=first.out) == first
    assert (first.seconds, first.dtype) == (None, "float32"), (
        "neither depends on the machine's mood"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"stop_on": "undecided"}, "no such outcome", id="no such outcome"),
        pytest.param({"on_error": "ignore"}, "no such choice", id="no such choice"),
        pytest.param({"only": ["membreship"]}, "no attack is called", id="no such attack"),
        pytest.param({"documents": 1}, "one of each side", id="one document in all"),
        pytest.param({"data": "nowhere"}, "no manifest.toml", id="no data"),
    ],
)
def test_what_names_nothing_is_refused_before_the_training(tmp_path, tiny_corpus, options, message):
    with pytest.raises(UsageError, match=message):
        LeakCallback(trainer_in(tmp_path), **{"data": tiny_corpus, **options})


def test_a_policy_that_is_not_there_is_refused_before_the_training(tmp_path, tiny_corpus):
    with pytest.raises(PolicyError):
        LeakCallback(trainer_in(tmp_path), tiny_corpus, policy="none.toml")


def test_what_audits_recover_lies_nowhere_from_where_it_is_pushed(
    tmp_path, tiny_corpus, monkeypatch
):
    trainer = trainer_in(tmp_path)
    assert LeakCallback(trainer, tiny_corpus)._quick.root == tmp_path / "run-docaudit"
    monkeypatch.setattr(trainer.args, "push_to_hub", True)
    with pytest.raises(UsageError, match="pushed to the Hub"):
        LeakCallback(trainer, tiny_corpus, out=tmp_path / "run" / "audits")


@pytest.mark.slow
def test_weights_and_random_state_are_those_of_a_training_without_it(
    tmp_path, tiny_corpus, monkeypatch
):
    """A real audit, in its own process, with its record beside the checkpoints.

    That of the last step is none.
    """
    trained = {}
    audit = QuickAudit.run
    monkeypatch.setattr(
        QuickAudit, "run", lambda *of: examples.passed()[1] if of[2] == "step-3" else audit(*of)
    )
    for name in ("without", "with"):
        trainer = trainer_in(tmp_path / name, max_steps=3)
        if name == "with":
            # One step of training follows the audit.
            options = {"only": ("membership",), "documents": 8, "seed": 7, "device": "cpu"}
            callback = LeakCallback(trainer, tiny_corpus, **options)
            trainer.add_callback(callback)
        trainer.train()
        trained[name] = (trainer.model.state_dict(), torch.rand(3))
    (weights, drawn) = trained["without"]
    (others, other_drawn) = trained["with"]
    assert all(torch.equal(weights[key], others[key]) for key in weights)
    assert torch.equal(drawn, other_drawn)
    assert not callback.failures
    audited = callback.audits[0]
    record = json.loads((audited.folder / "record.json").read_text())
    assert (record["target"]["step"], record["seed"], record["policy"]["name"]) == (2, 7, "default")
    assert (
        record["bounds"]["documents"],
        (audited.folder / "evidence").stat().st_mode & 0o777,
    ) == (8, 0o700)
