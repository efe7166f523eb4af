"""Models that classify pages; the matrix scans some."""

from dataclasses import replace
from pathlib import Path

import encoder_zoo
import numpy as np
import pytest
import tiny

from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task
from audit.corpus.manifest import load as load_corpus
from audit.corpus.manifest import write
from audit.errors import TargetError
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import BestClass
from audit.targets.opening import check, find_unread, target_of, without_unread
from audit.targets.utility import usefulness, usefulness_by_document


def documents() -> tuple[Document, ...]:
    return tuple(
        replace(one, label=encoder_zoo.CLASSES[number % 3])
        for number, one in enumerate(tiny.documents(8, 8, 4))
    )


def written(folder: Path, made: tuple[Document, ...]) -> Path:
    task = Task("document-classification", encoder_zoo.CLASSES)
    write(
        folder, Manifest(schema=1, name="pages", task=task, membership=Membership("random")), made
    )
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return load_corpus(written(tmp_path_factory.mktemp("pages"), documents()))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return encoder_zoo.write_encoder(
        tmp_path_factory.mktemp("model"), "deberta-v2", "document-classification"
    )


class Fixed:
    """Gives some pages their own class, by their number, and the others the next one."""

    answers = frozenset({BestClass})
    labels = encoder_zoo.CLASSES

    def __init__(self, target: EncoderTarget, right: set[int]) -> None:
        self.card = target.card
        self.encode = target.encode
        self._right = right

    def ask(self, queries):
        return [
            query.page.page_class if number in self._right else (query.page.page_class + 1) % 3
            for number, query in enumerate(queries)
        ]


def test_accuracy_is_measured_against_naming_the_commonest_class(corpus, model):
    target = load(model)
    assert target.card.architecture == "DeBERTa-v2, document classification"
    (measured,) = usefulness(Fixed(target, {0, 1, 2, 5}), corpus, 0)
    assert ((measured.name, measured.value, measured.n), measured.null) == (
        ("class_accuracy", 0.5, 8),
        3 / 8,
    )
    by_document = usefulness_by_document(Fixed(target, {0, 1, 2, 5}), corpus, 0)["class_accuracy"]
    assert float(np.sum(by_document.numerator)) == 4.0


def test_pages_of_a_class_that_the_model_lacks_are_counted_and_left_out_and_refused_where_no_member_is_left(
    model, tmp_path
):
    made = list(documents())
    task = Task("document-classification", (*encoder_zoo.CLASSES, "memo"))
    manifest = Manifest(schema=1, name="pages", task=task, membership=Membership("random"))
    for place, split in ((12, "heldout"), (2, "member")):
        changed = [*made]
        changed[place] = replace(changed[place], label="memo")
        assert changed[place].split == split
        write(tmp_path / split, manifest, changed)
        corpus = load_corpus(tmp_path / split)
        target = target_of(model, corpus)
        check(target, corpus)
        page = target.encode(changed[place])  # type: ignore[union-attr]
        assert page is not None
        assert not page.has_loss
        unread = find_unread(target, corpus)
        assert unread.documents == {changed[place].id}
        assert "memo" in unread.warnings[0]
        (measured,) = usefulness(target, without_unread(corpus, unread), 0)
        assert measured.n == (7 if split == "heldout" else 8)
    write(
        tmp_path / "none",
        manifest,
        [replace(one, label="memo") if one.split == "member" else one for one in made],
    )
    corpus = load_corpus(tmp_path / "none")
    with pytest.raises(TargetError, match="no class memo"):
        check(target_of(model, corpus), corpus)


def test_a_tagger_is_not_audited_as_a_classifier_nor_the_other_way_round(
    corpus, model, tiny_corpus, tmp_path
):
    tagger = target_of(
        encoder_zoo.write_encoder(tmp_path, "bert"), replace(corpus, manifest=labelled(corpus, ()))
    )
    with pytest.raises(
        TargetError, match=r"token classification .*task.kind = .document-classification"
    ):
        check(tagger, corpus)
    receipts = load_corpus(tiny_corpus)
    with pytest.raises(TargetError, match=r"task.kind = .token-classification"):
        check(target_of(model, replace(receipts, manifest=labelled(receipts, ()))), receipts)


def labelled(corpus: Corpus, labels: tuple[str, ...]) -> Manifest:
    return replace(corpus.manifest, task=replace(corpus.manifest.task, labels=labels))
