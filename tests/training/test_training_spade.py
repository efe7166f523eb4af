"""Both SPADE tasks are learned by both families, and the score of an epoch is what it says."""

import numpy as np
import pytest
import tiny
import torch

from audit.corpus.documents import Document, Entity
from audit.references.encoders import Collator, fit, save
from audit.references.recipes import Recipe
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import family_named
from audit.targets.encoders.heads import HEADS, page_losses
from audit.targets.encoders.loading import load
from audit.targets.interface import BestLinks, TagProbabilities
from benchmarks.papers.cdmi_training import BestEpochs, ScoringTrainer

PAIRS = [(family, head) for family in ("layoutlm", "bros") for head in tiny.SPADE_HEADS]


def document(name: str, texts: list[str], *entities: tuple[str, range]) -> Document:
    fields = tuple(
        Entity(f"e{i}", label, "misc", tuple(words)) for i, (label, words) in enumerate(entities)
    )
    return Document(
        name, "member", tiny.laid_out(texts), size=tiny.SIZE, entities=fields, links=(("e0", "e1"),)
    )


DOCUMENTS = [
    document(
        "a", ["to", "ann", "berg", "at", "9", "50"], ("CLERK", range(1, 3)), ("TOTAL", range(4, 6))
    ),
    document("b", ["li", "wei", "2", "may", "so"], ("CLERK", range(2)), ("DATE", range(2, 4))),
]


def pages_of(head: tiny.HeadName, documents: list[Document] = DOCUMENTS) -> list[Encoding]:
    encoder = Encoder(tiny.tokenizer(), tiny.POSITIONS - 1, tiny.LABELS_OF.get(head, ()), task=head)
    pages = [encoder.encode(document) for document in documents]
    return [page for page in pages if page is not None]


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_a_tiny_corpus_is_learned_by_heart(family, head, tmp_path):
    model = tiny.model(family, head)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights *= 0.1  # as large as they usually are at the start: dot products of larger ones do not learn
    pages = pages_of(head)
    recipe = Recipe(epochs=40, learning_rate=5e-3, batch_size=2)
    watch = BestEpochs(lambda: None)
    fitted = fit(
        model,
        tiny.tokenizer(),
        pages,
        recipe,
        validation=pages,
        trainer=ScoringTrainer,
        watch=watch,
    )
    scores = fitted.history
    assert watch.accuracies[-1] > 0.9
    assert scores[-1].validation_loss < 0.1 * scores[0].validation_loss
    # What the score says is what the target answers.
    save(fitted.model, tiny.tokenizer(), tmp_path)
    target = load(tmp_path)
    links = target.ask([BestLinks(page) for page in pages])
    right = [best == page.links for best, page in zip(links, pages, strict=True)]
    right = [hits[page.links != NOT_READ] for hits, page in zip(right, pages, strict=True)]
    if head == "spade-extraction":
        tables = target.ask([TagProbabilities(page) for page in pages])
        right += [
            (t.argmax(1) == p.labels)[p.labels != NOT_READ]
            for t, p in zip(tables, pages, strict=True)
        ]
    assert np.concatenate(right).mean() == pytest.approx(watch.accuracies[-1])


@pytest.mark.parametrize("head", tiny.SPADE_HEADS)
def test_a_batch_is_what_the_models_take_and_none_is_one_beyond_its_longest_page(head):
    pages = pages_of(head)
    batch = Collator(family_named("bros"), tiny.tokenizer(), 0.15, seed=0)(pages)
    lengths = [len(page.ids) for page in pages]
    links = batch["labels" if head == "spade-linking" else "subsequent_token_labels"].numpy()
    for row, page in enumerate(pages):
        expected = np.where(page.links == -1, max(lengths), page.links)
        np.testing.assert_array_equal(links[row, : lengths[row]], expected)
        assert (links[row, lengths[row] :] == NOT_READ).all()
        first = batch["bbox_first_token_mask"][row, : lengths[row]].numpy()
        np.testing.assert_array_equal(page.words[first], np.unique(page.words[page.words >= 0]))
    assert ("initial_token_labels" in batch) == (head == "spade-extraction")
    np.testing.assert_array_equal(
        batch["input_ids"][0, : lengths[0]], pages[0].ids
    )  # nothing is masked


@pytest.mark.parametrize(("family", "head"), PAIRS)
def test_the_loss_of_an_epoch_is_that_of_the_audit(family, head):
    """One page a batch, nothing learned: the mean of the pages' losses, as the attack asks for them."""
    model = tiny.model(family, head)
    pages = pages_of(head)
    fitted = fit(
        model,
        tiny.tokenizer(),
        pages,
        Recipe(epochs=1, learning_rate=0.0, batch_size=1),
        validation=pages,
    )
    losses = []
    for page in pages:
        inputs = family_named(family).inputs(
            page.ids[None], np.ones((1, len(page.ids)), int), page.boxes[None], "cpu"
        )
        with torch.inference_mode():
            hidden = getattr(model, family_named(family).encoder)(**inputs).last_hidden_state
            losses += page_losses(HEADS[head].costs(model, hidden, [page])).tolist()
    assert fitted.history[0].validation_loss == pytest.approx(np.mean(losses), rel=1e-5)
