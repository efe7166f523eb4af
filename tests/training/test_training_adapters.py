"""Models like an adapter are adapters: of its rank, on its layers, over its base, and merged when they are kept."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import adapters
import answering_checkpoints
import asked_pages
import numpy as np
import peft
import pytest
import tiny
import torch
from safetensors.torch import load_file

from audit.corpus.documents import ReferencePaths, TrainingRecipe
from audit.corpus.images import page_view
from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import SILENT
from audit.errors import TargetError
from audit.extensions.countermeasures.changed_data import Blocking
from audit.extensions.countermeasures.scans import apply
from audit.references import recipes as module
from audit.references.recipes import Recipe, adapter_words, adapting, without_weights
from audit.references.training import train_baseline, train_splits
from audit.targets.answering.loading import load_answering
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.checkpoint.loading import load_model
from audit.targets.checkpoint.safety import quiet
from audit.targets.encoders.loading import load
from audit.targets.interface import AnswerLoss, MaskedLoss
from audit.targets.opening import open_model, target_of
from audit.workflows.options import ScanOptions
from audit.workflows.session import Session, open_session

RECIPE = Recipe(epochs=2, learning_rate=1e-2, batch_size=4)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tiny.checkpoint(tmp_path_factory.mktemp("base") / "bert", "bert", "mlm")


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora") / "adapter"
    adapters.tagger(base, folder, r=2)
    return folder


@pytest.fixture
def wrapped(monkeypatch):
    """The configurations of the adapters that are trained, and how many numbers each trains."""
    seen: list[Any] = []
    within = module.adapting

    @contextmanager
    def watched(model: Any, start: Any, seed: int) -> Iterator[None]:
        with within(model, start, seed):
            trained = {name for name, weights in model.named_parameters() if weights.requires_grad}
            seen.append((adapter_words(start), trained))
            yield

    monkeypatch.setattr("audit.references.retrain.adapting", watched)
    return seen


def test_a_baseline_of_an_adapter_is_trained_as_it_was(base, adapter, tmp_path, wrapped):
    corpus = load_corpus(tiny.corpus(tmp_path / "data"))
    (folder,) = train_baseline(adapter, corpus, tmp_path / "out", recipe=RECIPE)
    ((words, trained),) = wrapped
    assert (
        words
        == "LORA, r 2, lora_alpha 8, target_modules query+value, modules_to_save classifier+score"
    )
    assert all("lora_" in name or "modules_to_save" in name for name in trained)
    assert len(trained) == 2 * 2 * 2 + 2
    # Merged: an ordinary checkpoint, in which the layers of the adapter and the head alone are
    # others than the base's.
    assert not (folder / "adapter_config.json").exists()
    mine, theirs = (load_file(path / "model.safetensors") for path in (folder, base))
    changed = {
        name
        for name, weights in theirs.items()
        if name in mine and not torch.equal(weights, mine[name])
    }
    assert changed == {
        f"bert.encoder.layer.{index}.attention.self.{name}.weight"
        for index in (0, 1)
        for name in ("query", "value")
    }
    assert load(folder).labels == tiny.LABELS
    origin = json.loads((folder / "docaudit-origin.json").read_text())
    assert (origin["adapter"], origin["start"]) == (
        words,
        [digest.hex() for digest in open_checkpoint(base).weights],
    )
    opened = open_session(
        ScanOptions(
            adapter, tmp_path / "data", tmp_path / "report", references={"baselines": [folder]}
        )
    )
    cards = [
        reference.card for reference in opened.prepared.same_kind if reference.role == "baseline-0"
    ]
    assert [card.recipe for card in cards] == [{"adapter": words}]


def test_the_adapters_own_weights_teach_nothing_to_what_is_trained_like_it(base, adapter):
    from transformers import BertForTokenClassification

    start = without_weights(open_checkpoint(adapter))
    model, missing = load_model(start, BertForTokenClassification)
    assert missing == ["classifier.bias", "classifier.weight"]
    begun = load_file(base / "model.safetensors")
    kept = {name: weights.clone() for name, weights in model.state_dict().items()}
    assert all(torch.equal(weights, begun[name]) for name, weights in kept.items() if name in begun)
    with adapting(model, start, 0):
        pass  # an adapter without a step of training changes nothing
    assert all(torch.equal(weights, kept[name]) for name, weights in model.state_dict().items())
    assert all(weights.requires_grad for weights in model.parameters())


def test_a_key_knows_the_adapter(base, adapter, tmp_path, wrapped):
    corpus = load_corpus(tiny.corpus(tmp_path / "data"))
    short = Recipe(epochs=1)
    folders = {
        train_baseline(start, corpus, tmp_path / "out", recipe=short)[0]
        for start in (base, adapter, base)
    }
    assert (len(folders), [words is None for words, _ in wrapped]) == (2, [True, False])


def test_splits_of_an_adapter_whose_base_the_manifest_names(adapter, base, tmp_path):
    data = tiny.corpus(tmp_path / "data", members=12, references=ReferencePaths(pretrained="base"))
    shutil.copytree(base, data / "base")
    elsewhere = Path(shutil.copytree(adapter, tmp_path / "adapter"))
    settings = json.loads((elsewhere / "adapter_config.json").read_text())
    (elsewhere / "adapter_config.json").write_text(
        json.dumps({**settings, "base_model_name_or_path": "org/name"})
    )
    models = train_splits(
        elsewhere, load_corpus(data), tmp_path / "out", count=2, recipe=Recipe(epochs=1)
    )
    assert len(models) == 2
    assert all(load(folder).labels == tiny.LABELS for folder, _ in models)


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """A model that is asked in turns, and an adapter over it."""
    from transformers import LlavaForConditionalGeneration

    root = tmp_path_factory.mktemp("chat")
    start = answering_checkpoints.make_chat(root / "base")
    with quiet():
        model = LlavaForConditionalGeneration.from_pretrained(start)
    config = peft.LoraConfig(r=2, target_modules=r".*language_model.*\.(q_proj|v_proj)")
    adapters.adapted(model, root / "adapter", config)
    return start, root / "adapter"


def test_chat_models_are_blocked_with_the_adapter_that_they_have(chat, tmp_path, wrapped):
    start, lora = chat
    corpus = asked_pages.corpus(
        tmp_path / "data", members=2, heldout=1, public=1, recipe=TrainingRecipe(epochs=1)
    )
    folder = Blocking().train(corpus, lora, tmp_path / "out", device="cpu", progress=SILENT).model
    ((words, trained),) = wrapped
    assert words is not None
    assert words.startswith("LORA, r 2")
    assert len(trained) == 2 * 2 * 2
    assert (folder / "processor_config.json").is_file()
    again = open_model(folder, corpus)
    assert again.adapter is None
    assert load_answering(again).card.parameters == load_answering(start).card.parameters


def test_a_countermeasure_trains_an_audited_adapter_anew_from_its_base(chat, tmp_path, wrapped):
    start, lora = chat
    asked_pages.corpus(
        tmp_path / "data", members=2, heldout=1, public=1, recipe=TrainingRecipe(epochs=1)
    )
    options = ScanOptions(
        lora, tmp_path / "data", tmp_path / "out", references={"pretrained": [start]}, device="cpu"
    )
    after = apply(Blocking(), options, tmp_path / "out" / "after", 0, SILENT)
    assert not (after.model_dir / "adapter_config.json").exists()
    assert [words is None for words, _ in wrapped] == [False]
    other = answering_checkpoints.make_chat(tmp_path / "other", seed=1)
    with pytest.raises(TargetError, match=r"neither manifest\.toml nor the adapter names the base"):
        apply(
            Blocking(),
            replace(options, references={"pretrained": [other]}),
            tmp_path / "out" / "x",
            0,
            SILENT,
        )


def test_the_base_of_an_adapter_is_the_pretrained_reference_and_in_memory_once(
    base, chat, tmp_path
):
    from transformers import BertForMaskedLM

    with quiet():
        model = BertForMaskedLM.from_pretrained(base)
    adapters.adapted(
        model, tmp_path / "masked", peft.LoraConfig(r=2, target_modules=adapters.TARGETS)
    )
    tiny.corpus(tmp_path / "pages", kind="mlm")
    asked_pages.corpus(tmp_path / "asked", members=3, heldout=3)
    for start, adapter, data in ((base, tmp_path / "masked", "pages"), (*chat, "asked")):
        opened = open_session(ScanOptions(adapter, tmp_path / data, tmp_path / "out", device="cpu"))
        (reference,) = [one for one in opened.prepared.same_kind if one.role == "pretrained"]
        assert (reference.source, reference.card.card.sha256) == (
            "adapter",
            open_checkpoint(start).sha256,
        )
        alone = target_of(start, opened.corpus)
        pairs = zip(
            alone.model.state_dict().items(),
            reference.target.model.state_dict().values(),
            strict=True,
        )
        assert all(torch.equal(one, other) for (_, one), other in pairs)
        held = {weights.data_ptr() for weights in opened.target.model.parameters()}
        apart = {
            name
            for name, own in reference.target.model.named_parameters()
            if own.data_ptr() not in held
        }
        assert apart
        assert all(name.split(".")[-2] in ("query", "value", "q_proj", "v_proj") for name in apart)
        queries = queries_of(opened)
        for one, other in zip(alone.ask(queries), reference.target.ask(queries), strict=True):
            np.testing.assert_array_equal(one, other)
        assert any(
            (one != other).any()
            for one, other in zip(alone.ask(queries), opened.target.ask(queries), strict=True)
        )


def queries_of(opened: Session) -> list[Any]:
    """A question about each of three documents, or about its first tokens."""
    documents = opened.corpus.documents[:3]
    if AnswerLoss in opened.target.answers:
        views = [(page_view(opened.corpus, one), one.questions[0]) for one in documents]
        return [
            AnswerLoss(view, question.question, question.answers[0]) for view, question in views
        ]
    return [
        MaskedLoss(page, (1, 2))
        for page in map(opened.target.encode, documents)
        if page is not None
    ]


def test_training_says_which_base_is_missing(adapter, tmp_path):
    corpus = load_corpus(tiny.corpus(tmp_path / "data"))
    settings = json.loads((adapter / "adapter_config.json").read_text())
    lost = tmp_path / "lost"
    lost.mkdir()
    (lost / "adapter_config.json").write_text(
        json.dumps({**settings, "base_model_name_or_path": None})
    )
    (lost / "adapter_model.safetensors").write_bytes(
        (adapter / "adapter_model.safetensors").read_bytes()
    )
    with pytest.raises(TargetError, match="an adapter without its model"):
        train_baseline(lost, corpus, tmp_path / "out", recipe=RECIPE)


def test_the_audited_adapter_itself_is_no_baseline_merged_or_not(adapter, base, tmp_path):
    data = tiny.corpus(tmp_path / "data")
    merged = tmp_path / "merged"
    load(adapter, labels=tiny.LABELS).model.save_pretrained(merged)
    tiny.tokenizer().save_pretrained(merged)
    copy = Path(shutil.copytree(adapter, tmp_path / "copy"))
    for folder, reason in (
        (merged, "the target itself but for noise"),
        (copy, "the target's own weights"),
    ):
        with pytest.raises(TargetError, match=reason):
            open_session(
                ScanOptions(adapter, data, tmp_path / "report", references={"baselines": [folder]})
            )
    other = tmp_path / "other"
    adapters.tagger(base, other, r=2, lora_alpha=9)
    opened = open_session(
        ScanOptions(adapter, data, tmp_path / "report", references={"baselines": [other]})
    )
    assert "baseline-0" in {reference.role for reference in opened.prepared.same_kind}
