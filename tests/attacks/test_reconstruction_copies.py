"""A field's value that stands elsewhere on its page too is hidden there: reading it off is no memory."""

from dataclasses import replace

import numpy as np
import planted
import pytest
from test_reconstruction_planted import measured, run

from audit.attacks.fields import all_fields
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.cdmi import Proposals
from audit.case import Case
from audit.corpus.documents import Corpus, Word
from audit.targets.encoded_page import PageImage
from audit.targets.interface import Candidates

FIELD = (3, 4, 5, 6)


def with_words(corpus: Corpus, *texts: str) -> Corpus:
    """The corpus with words after the field of every document.

    "{value}" stands for the field's own.
    """
    changed = []
    for document in corpus.documents:
        value = document.text_of(document.entities[0])
        more = tuple(Word(word) for text in texts for word in text.format(value=value).split())
        changed.append(replace(document, words=(*document.words, *more)))
    return replace(corpus, documents=tuple(changed))


class ReadsTheCopy(planted.Planted):
    """Remembers nothing: it repeats what stands seven words further on, while it can see it."""

    def _fill(self, query):
        found = super()._fill(query)
        seen = int(query.page.ids[query.position + 7])
        if seen == planted.MASK:
            return found
        others = [token for token in found.ids if token != seen][: len(found.ids) - 1]
        return Candidates(np.array([seen, *others]), np.array([50.0, *found.logits[1:]]))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Pages of 3 words, a field of 4, 3 words, and the field's value again."""
    return with_words(planted.corpus(20, 20), "2000 2001 2002", "{value}")


def case_of(target: planted.Planted, corpus: Corpus) -> Case:
    return planted.case(target, planted.Planted(corpus.documents, seed=5), corpus)


def test_a_model_that_only_reads_the_copy_recovers_nothing(corpus: Corpus) -> None:
    _, findings = run(Reconstruction(), case_of(ReadsTheCopy(corpus.documents), corpus))
    assert (
        measured(findings, "pr.member.attack").value,
        measured(findings, "pr.heldout.attack").value,
    ) == (0, 0)


def test_the_same_model_recovers_every_field_where_the_copy_is_another_value(
    corpus: Corpus,
) -> None:
    """The control: what stands there is no copy, and is read."""
    documents = []
    for document in corpus.documents:
        value = [word.text for word in document.words[3:7]]
        shown = [Word(text) for text in (*value[:3], f"{(int(value[3]) + 1) % 1000:04d}")]
        documents.append(replace(document, words=(*document.words[:10], *shown)))
    near = replace(corpus, documents=tuple(documents))
    outcomes, _ = run(Reconstruction(), case_of(ReadsTheCopy(near.documents), near))
    assert all(outcome["attack"][0]["tokens"][:3] == outcome["truth"][:3] for outcome in outcomes)


def test_copies_are_hidden_and_not_attacked(corpus: Corpus) -> None:
    (field, *others) = all_fields(case_of(planted.Planted(corpus.documents), corpus), 3, 15)
    assert len(others) == 39
    assert field.page is not None
    assert (field.positions, field.copies) == (FIELD, (10, 11, 12, 13))
    hidden = field.scrubbed()
    expected = np.isin(np.arange(14), [*FIELD, *field.copies])
    np.testing.assert_array_equal(hidden.ids == planted.MASK, expected)
    np.testing.assert_array_equal(hidden.ids[~expected], field.page.ids[~expected])


def test_copies_inside_other_words_and_across_lines_are_hidden_near_values_and_other_fields_are_not() -> (
    None
):
    base = planted.corpus(1, 0)
    numbers = [word.text for word in base.documents[0].words[3:7]]
    near = f"{numbers[0]} {numbers[1]} {numbers[2]} {(int(numbers[3]) + 1) % 1000:04d}"
    joined = "".join(numbers)
    corpus = with_words(base, "2000", near, "2001", joined, "2002", f"2{joined}9")
    (field,) = all_fields(case_of(planted.Planted(corpus.documents), corpus), 3, 15)
    assert field.copies == (13, 15)


def test_a_page_without_copies_is_scrubbed_as_before() -> None:
    corpus = planted.corpus(5, 5, fields=2)
    for field in all_fields(case_of(planted.Planted(corpus.documents), corpus), 3, 15):
        assert field.page is not None
        assert field.copies == ()
        np.testing.assert_array_equal(
            field.scrubbed().ids, field.page.scrubbed(field.positions).ids
        )


def test_copies_stay_hidden_in_words_and_image_while_the_field_is_filled_in(corpus: Corpus) -> None:
    page = np.zeros((3, 10, 140), np.uint8)

    class Sees(planted.Planted):
        def encode(self, document, around=()):
            found = super().encode(document, around)
            places = np.arange(len(found.ids))
            boxes = np.stack(
                [places / 14, np.full(14, 0.2), (places + 1) / 14, np.full(14, 0.8)], axis=1
            )
            return replace(found, boxes=boxes, page_image=PageImage(lambda: page, (10, 140)))

    target = Sees(corpus.documents)
    (field, *_) = all_fields(case_of(target, corpus), 3, 15)
    after = Proposals(target, field.scrubbed(), field.positions, 10).page_after((7, 8, 9, 10))
    assert after.ids[list(FIELD)].tolist() == [7, 8, 9, 10]
    assert (after.ids[10:] == planted.MASK).all()
    assert after.page_image is not None
    white = (after.page_image.pixels == 255).all(axis=0)
    assert white[3:7, 31:69].all()
    assert white[3:7, 101:139].all()
    assert not white[:, 71:99].any()
    assert not white[:, :29].any()
