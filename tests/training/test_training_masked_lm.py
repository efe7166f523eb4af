"""The public masked language model: cached by content, complete or not there."""

import multiprocessing
import signal
import time
from dataclasses import replace

import pytest
import tiny

from audit.errors import EngineError, TargetError
from audit.references import encoders, resolve
from audit.references.recipes import Recipe
from audit.references.resolve import fit_public_mlm
from audit.targets.encoders.loading import load
from audit.targets.interface import FillMask

RECIPE = Recipe(epochs=1, batch_size=4)
PUBLIC = tiny.documents(members=0, heldout=0, public=6)


def _finished(cache):
    return [
        folder
        for folder in cache.iterdir()
        if folder.is_dir() and folder.name.startswith("public-mlm-")
    ]


def test_a_second_call_finds_the_checkpoint_without_training(checkpoints, tmp_path, monkeypatch):
    pretrained = checkpoints("layoutlm", "mlm")
    folder = fit_public_mlm(pretrained, PUBLIC, tmp_path, recipe=RECIPE)
    assert FillMask in load(folder).answers
    assert load(folder).card.sha256 != load(pretrained).card.sha256

    def trained_again(*_, **__):
        raise AssertionError("trained although the cache holds it")

    monkeypatch.setattr(encoders, "fit", trained_again)
    assert fit_public_mlm(pretrained, PUBLIC, tmp_path, recipe=RECIPE) == folder


def test_whatever_training_depends_on_changes_the_key(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr(
        resolve, "made_once", lambda folder, make: folder
    )  # only the names matter here
    pretrained = checkpoints("layoutlm", "mlm")
    first, *others = PUBLIC[0].words
    edited, moved = (
        (replace(PUBLIC[0], words=(replace(first, **change), *others)), *PUBLIC[1:])
        for change in ({"text": "changed"}, {"box": (1.0, 1.0, 20.0, 9.0)})
    )

    def name_of(documents=PUBLIC, start=pretrained, **change):
        return fit_public_mlm(start, documents, tmp_path, recipe=replace(RECIPE, **change)).name

    changes = ({"epochs": 2}, {"learning_rate": 2e-4}, {"mask_probability": 0.2}, {"seed": 1})
    names = [name_of(), name_of(edited), name_of(moved), name_of(PUBLIC[:-1])]
    names += [
        *(name_of(**change) for change in changes),
        name_of(start=checkpoints("layoutlm", "mlm", 1)),
    ]
    monkeypatch.setattr(resolve, "__version__", "0.0.0")
    names.append(name_of())
    assert len(set(names)) == len(names) == 10
    assert name_of() == names[-1]


def test_a_training_that_breaks_down_leaves_nothing_that_looks_finished(
    checkpoints, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    pretrained = checkpoints("bert", "mlm")
    with monkeypatch.context() as patch:
        patch.setattr("transformers.PreTrainedModel.save_pretrained", full)
        with pytest.raises(EngineError, match="No space left"):
            fit_public_mlm(pretrained, PUBLIC, tmp_path, recipe=RECIPE)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_training_leaves_nothing_that_looks_finished_and_is_made_up_for(
    checkpoints, tmp_path
):
    pretrained = checkpoints("bert", "mlm")
    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def begin(model, *_, **__):
        model.save_pretrained(sorted(tmp_path.iterdir())[0])  # half of what a checkpoint needs
        begun.set()
        time.sleep(60)

    def train():
        encoders.fit = begin
        fit_public_mlm(pretrained, PUBLIC, tmp_path, recipe=RECIPE)

    process = context.Process(target=train)
    process.start()
    assert begun.wait(60)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert list(tmp_path.iterdir()), "the killed training had begun"
    assert _finished(tmp_path) == []
    folder = fit_public_mlm(pretrained, PUBLIC, tmp_path, recipe=RECIPE)
    assert (_finished(tmp_path), load(folder).card.task) == ([folder], "mlm")


def test_an_encoder_without_a_head_gets_one_and_another_model_is_refused(checkpoints, tmp_path):
    tagger = checkpoints("layoutlm", "token-classification")
    assert (
        load(fit_public_mlm(tagger, PUBLIC, tmp_path / "cache", recipe=RECIPE)).card.task == "mlm"
    )
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(TargetError):
        fit_public_mlm(tmp_path / "strange", PUBLIC, tmp_path / "cache", recipe=RECIPE)
    with pytest.raises(TargetError, match="no page"):
        fit_public_mlm(tagger, (), tmp_path / "cache", recipe=RECIPE)
    assert len(_finished(tmp_path / "cache")) == 1
