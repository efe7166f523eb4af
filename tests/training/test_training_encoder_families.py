"""Every family is trained under each of its heads, as audited models are and privately.

Classifiers of pages too.
"""

from dataclasses import replace
from pathlib import Path

import dp_learners
import encoder_zoo
import numpy as np
import pytest
import tiny
import torch

from audit.corpus.documents import Corpus, Manifest, Membership, Task
from audit.corpus.manifest import load as load_corpus
from audit.corpus.manifest import write
from audit.errors import ManifestError, TargetError, UsageError
from audit.extensions.private.adapters import choose_trained
from audit.extensions.private.gradients import gradient_of
from audit.extensions.private.learners import EncoderLearner
from audit.references.recipes import Recipe, starting_model
from audit.references.retrain import Retraining, retrain, under_head
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load
from audit.targets.interface import BestClass

NEW = ("distilbert", "deberta-v2", "modernbert", "albert", "electra", "mpnet", "longformer")
TRAINED = [
    (kind, head)
    for kind, head in encoder_zoo.PAIRS
    if kind in (*NEW, "layoutlm") and kind != "longformer"
]


def data_set(folder: Path, head: str) -> Corpus:
    """Receipts for this task; the vendor decides the class of a page."""
    classes = dict(zip(tiny.VENDORS, encoder_zoo.CLASSES, strict=True))
    documents = tuple(
        replace(one, label=classes[str(one.provider)]) for one in tiny.documents(9, 6, 3)
    )
    labels = {"mlm": (), "token-classification": tiny.LABELS}.get(head, encoder_zoo.CLASSES)
    manifest = Manifest(
        schema=1, name="receipts", task=Task(head, labels), membership=Membership("random")
    )  # type: ignore[arg-type]
    write(folder, manifest, documents)
    return load_corpus(folder)


@pytest.mark.parametrize(("kind", "head"), TRAINED)
def test_a_model_is_trained_like_the_audited_one_and_is_loaded_again(
    kind: str, head: str, tmp_path: Path
) -> None:
    corpus = data_set(tmp_path / "data", head)
    start = encoder_zoo.write_encoder(tmp_path / "start", kind, "mlm", initializer_range=0.02)
    how = Retraining(Recipe(epochs=1, learning_rate=1e-3, batch_size=4))
    retrain(how, start, corpus, corpus.of("member"), tmp_path / "made")
    assert load(tmp_path / "made").card.task == head


def test_a_classifier_learns_the_classes_of_pages(tmp_path: Path) -> None:
    corpus = data_set(tmp_path / "data", "document-classification")
    start = encoder_zoo.write_encoder(tmp_path / "start", "bert", "mlm", initializer_range=0.1)
    how = Retraining(Recipe(epochs=40, learning_rate=1e-2, batch_size=3))
    retrain(how, start, corpus, corpus.of("member"), tmp_path / "made")
    made = load(tmp_path / "made")
    pages = [made.encode(document) for document in corpus.of("member")]
    assert made.ask([BestClass(page) for page in pages if page is not None]) == [
        encoder_zoo.CLASSES.index(str(document.label)) for document in corpus.of("member")
    ]


def test_a_classifier_without_names_of_classes_cannot_be_trained(tmp_path: Path) -> None:
    corpus = data_set(tmp_path / "data", "document-classification")
    nameless = replace(
        corpus, manifest=replace(corpus.manifest, task=Task("document-classification"))
    )
    start = open_checkpoint(encoder_zoo.write_encoder(tmp_path / "start", "bert", "mlm"))
    with pytest.raises(ManifestError, match=r"task\.labels: missing"):
        under_head(start, nameless, 0)


def test_a_family_without_a_masked_language_model_is_told_which_one_serves(tmp_path: Path) -> None:
    folder = encoder_zoo.write_encoder(tmp_path / "model", "layoutlmv3", "token-classification")
    with pytest.raises(TargetError, match="no head for mlm") as raised:
        starting_model(folder, "mlm")
    assert "RoBERTa" in raised.value.hint


def learner_of(kind: str, head: str, folder: Path) -> tuple[EncoderLearner, Corpus]:
    corpus = data_set(folder / "data", head)
    start = open_checkpoint(encoder_zoo.write_encoder(folder / "start", kind, "mlm"))
    model, encoder = under_head(start, corpus, 0)
    return EncoderLearner(model, encoder, start.path, 0.15, "cpu"), corpus


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("distilbert", "mlm"),
        ("deberta-v2", "token-classification"),
        ("modernbert", "document-classification"),
    ],
)
def test_private_training_takes_the_gradient_of_each_page(
    kind: str, head: str, tmp_path: Path
) -> None:
    learner, corpus = learner_of(kind, head, tmp_path)
    chosen = choose_trained(learner.model, "head" if kind == "modernbert" else "lora:2")
    units = dp_learners.units_of(learner, corpus.of("member")[:2])
    learner.model.eval()
    for unit in units:
        found = gradient_of(learner, chosen.parameters, unit, 8)
        batch = learner.collate(unit.samples)
        loss = learner.losses(batch).sum()
        own = learner.model(**own_of(head, batch)).loss
        assert float(loss.detach()) == pytest.approx(float(own.detach()), rel=1e-4)
        gradients = torch.autograd.grad(loss, [*chosen.parameters.values()])
        for name, one in zip(chosen.parameters, gradients, strict=True):
            np.testing.assert_allclose(found[name].numpy(), one.numpy(), rtol=1e-3, atol=1e-5)
    assert chosen.code == ("head" if kind == "modernbert" else "lora:2")


def own_of(head: str, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The batch as the model's own forward pass takes it."""
    if head != "mlm":
        return batch
    labels = torch.full_like(batch["input_ids"], -100).scatter(1, batch["read_at"], batch["labels"])
    return {**{name: value for name, value in batch.items() if name != "read_at"}, "labels": labels}


def test_adapters_on_queries_alone_are_refused_where_one_matrix_makes_keys_too() -> None:
    with pytest.raises(UsageError, match="one matrix"):
        choose_trained(encoder_zoo.model("modernbert", "mlm"), "lora:2")
