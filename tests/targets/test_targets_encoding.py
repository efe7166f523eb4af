"""From documents to what a checkpoint reads: windows, labels, boxes, and tokenizers that do not fit the corpus."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from audit.corpus.documents import Document, Entity, Word
from audit.errors import TargetError
from audit.targets.encoded_page import NOT_READ
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import family_named
from audit.targets.encoders.loading import load

TOKENIZER = tiny.tokenizer()
LABELS = ("O", "B-SUB-TOTAL", "I-SUB-TOTAL", "B-NAME")


def document(*texts: str, entities: tuple[Entity, ...] = (), boxes: bool = True) -> Document:
    words = tiny.laid_out(texts) if boxes else tuple(Word(text) for text in texts)
    return Document("d", "member", words, size=tiny.SIZE if boxes else None, entities=entities)


def tags(page_labels: np.ndarray) -> list[str]:
    return ["-" if label == NOT_READ else LABELS[label] for label in page_labels]


def test_a_page_is_wrapped_in_cls_and_sep_with_their_boxes():
    page = Encoder(TOKENIZER, 32).encode(document("ab", "c"))
    assert page is not None
    assert TOKENIZER.convert_ids_to_tokens(page.ids) == ["[CLS]", "a", "##b", "c", "[SEP]"]
    assert (page.words.tolist(), page.boxes[0].tolist()) == ([-1, 0, 0, 1, -1], [0, 0, 0, 0])
    assert page.boxes[-1].tolist() == [1, 1, 1, 1]
    np.testing.assert_allclose(page.boxes[1], [4 / 200, 4 / 260, 48 / 200, 14 / 260])
    np.testing.assert_array_equal(page.boxes[1], page.boxes[2])
    assert page.positions_of([0]) == (1, 2)
    assert page.ids[list(page.positions_of([1]))] == TOKENIZER.convert_tokens_to_ids("c")


@given(st.lists(st.integers(1, 6), min_size=1, max_size=60), st.integers(16, 40), st.data())
def test_a_long_document_is_cut_so_that_the_field_is_inside(lengths, max_tokens, data):
    texts = ["abcdef"[:length] for length in lengths]
    first = data.draw(st.integers(0, len(lengths) - 1))
    around = list(range(first, min(len(lengths), first + data.draw(st.integers(1, 6)))))
    page = Encoder(TOKENIZER, max_tokens).encode(document(*texts), around)
    field = sum(lengths[index] for index in around)
    room = max_tokens - 2
    if field > room:
        assert page is None
        return
    assert page is not None
    assert len(page.positions_of(around)) == field
    assert len(page.ids) == min(max_tokens, sum(lengths) + 2)  # no room is wasted
    inner = page.words[1:-1]
    flat = [word for word, length in enumerate(lengths) for _ in range(length)]
    assert inner.tolist() in [
        flat[start : start + len(inner)] for start in range(len(flat))
    ]  # one piece of the page


@pytest.mark.parametrize(
    ("around", "first", "last"),
    [
        ([0], 0, 13),
        ([3], 0, 13),
        ([30], 23, 36),
        ([30, 31], 24, 37),
        ([28, 32], 23, 36),
        ([59], 46, 59),
    ],
)
def test_the_field_stands_in_the_middle_of_its_window(around, first, last):
    page = Encoder(TOKENIZER, 16).encode(document(*["a"] * 60), around)
    assert page is not None
    assert page.words[1:-1].tolist() == list(range(first, last + 1))


def test_a_document_or_field_without_tokens_has_no_page():
    encoder = Encoder(TOKENIZER, 32)
    assert encoder.encode(document()) is None
    assert encoder.encode(document("a", " ", "b"), [1]) is None


@pytest.mark.parametrize(
    ("all_tokens", "expected"),
    [
        pytest.param(
            False,
            ["-", "O", "-", "B-SUB-TOTAL", "-", "I-SUB-TOTAL", "-", "B-NAME", "-", "-"],
            id="first tokens of words",
        ),
        pytest.param(
            True,
            [
                "-",
                "O",
                "O",
                "B-SUB-TOTAL",
                "I-SUB-TOTAL",
                "I-SUB-TOTAL",
                "I-SUB-TOTAL",
                "B-NAME",
                "B-NAME",
                "-",
            ],
            id="all tokens of words",
        ),
    ],
)
def test_labels_are_those_that_training_read(all_tokens, expected):
    entities = (Entity("e0", "SUB-TOTAL", "amount", (1, 2)), Entity("e1", "NAME", "person", (3,)))
    encoder = Encoder(TOKENIZER, 32, LABELS, label_all_tokens=all_tokens)
    page = encoder.encode(document("ab", "cd", "ef", "gh", entities=entities))
    assert page is not None
    assert page.labels is not None
    # "NAME" has no I tag: words of several tokens keep B, as in Hugging Face's run_ner.py.
    assert tags(page.labels) == expected


def test_boxes_are_scaled_as_each_family_reads_them():
    shares = np.array([[[0.0, 0.29, 0.5, 1.0], [0.1234, 0.9999, 1 / 3, 2 / 3]]])
    ids = np.array([[1, 2]])
    mask = np.array([[1, 1]])
    layoutlm = family_named("layoutlm").inputs(ids, mask, shares, "cpu")["bbox"]
    assert layoutlm.dtype.is_floating_point is False
    assert layoutlm.tolist() == [[[0, 290, 500, 1000], [123, 999, 333, 666]]]
    bros = family_named("bros").inputs(ids, mask, shares, "cpu")["bbox"]
    np.testing.assert_allclose(bros.numpy(), shares, rtol=1e-6)
    assert "bbox" not in family_named("bert").inputs(ids, mask, shares, "cpu")


def test_thousandths_are_those_of_exact_arithmetic():
    tenths = np.array(
        [[x, width] for width in range(1, 1200, 33) for x in range(10 * width + 1)]
    )  # of a pixel
    shares = np.repeat((tenths[:, 0] / 10 / tenths[:, 1])[None, :, None], 4, axis=2)
    ids = np.ones((1, len(tenths)), np.int64)
    inputs = family_named("layoutlm").inputs(ids, ids, shares, "cpu")
    np.testing.assert_array_equal(
        inputs["bbox"][0, :, 0].numpy(), 100 * tenths[:, 0] // tenths[:, 1]
    )


def test_boxes_over_the_edge_are_clipped():
    page = Encoder(TOKENIZER, 32).encode(
        Document("d", "member", (Word("a", (-1.0, 5.0, 201.0, 261.0)),), size=tiny.SIZE)
    )
    assert page is not None
    assert page.boxes[1].tolist() == [0.0, 5 / 260, 1.0, 1.0]


def test_one_unknown_word_in_a_hundred_is_tolerated_two_are_not():
    encoder = Encoder(TOKENIZER, 32)
    encoder.check_vocabulary([document(*["a"] * 99, "é日")])
    with pytest.raises(TargetError, match="does not know 2%"):
        encoder.check_vocabulary([document(*["a"] * 98, "日", "日")])


def test_a_layout_model_needs_boxes():
    page = document("a", boxes=False)
    Encoder(TOKENIZER, 32, needs_boxes=False).check_vocabulary([page])
    with pytest.raises(TargetError, match="reads layout"):
        Encoder(TOKENIZER, 32).check_vocabulary([page])


def test_entities_whose_label_the_model_has_no_tag_for_are_refused():
    page = document("a", entities=(Entity("e", "TOTAL", "amount", (0,)),))
    Encoder(TOKENIZER, 32).check_vocabulary([page])  # a masked language model has no tags
    with pytest.raises(TargetError, match="no tag for entities labelled TOTAL"):
        Encoder(TOKENIZER, 32, LABELS).check_vocabulary([page])
    Encoder(TOKENIZER, 32, LABELS).check_vocabulary([replace(page, entities=())])


@pytest.mark.parametrize("family", tiny.BPE_FAMILIES)
def test_byte_level_tokens_are_those_of_the_tokenizers_own_call(family, checkpoints):
    """LayoutLMv3's tokenizer asks for boxes.

    RoBERTa's must be told that every word begins after a space.
    """
    texts = ["ab1", "Total:", "\u65e5\u672c", "x-y", "9.00", "\u00e9"]
    encoder = load(checkpoints(family, "token-classification")).encoder
    page = encoder.encode(document(*texts))
    assert page is not None
    if family == "layoutlmv3":
        thousandths = [[20, 15, 240, 53]] * len(texts)
        own = tiny.bpe_tokenizer(family)(texts, boxes=thousandths, add_special_tokens=True)
        np.testing.assert_array_equal(page.boxes[[0, -1]] * 1000, np.array(own["bbox"])[[0, -1]])
    else:
        spaced = AutoTokenizer.from_pretrained(
            checkpoints(family, "token-classification"), add_prefix_space=True
        )
        own = spaced(texts, is_split_into_words=True)
    assert page.ids.tolist() == own["input_ids"]
    assert page.words.tolist() == [-1 if word is None else word for word in own.word_ids()]
    encoder.check_vocabulary([replace(document(*texts), image="d.png")])


def test_words_without_any_token_are_unknown_to_a_tokenizer():
    """A byte-level tokenizer without its vocabulary leaves out what it does not know, without a word."""
    from transformers import RobertaTokenizer

    bare = RobertaTokenizer(
        vocab={"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}, merges=[]
    )
    with pytest.raises(TargetError, match="does not know 100% of the corpus's 2 words"):
        Encoder(bare, 32).check_vocabulary([document("ab", "c")])
    Encoder(TOKENIZER, 32).check_vocabulary([document("ab", " ")])


def test_padding_and_truncation_that_a_tokenizer_file_asks_for_are_not_applied(tmp_path):
    padded = tiny.tokenizer()
    padded.backend_tokenizer.enable_padding(length=40)
    padded.backend_tokenizer.enable_truncation(max_length=6)
    page = Encoder(padded, 64).encode(document("abc", "defgh", "ij"))
    assert page is not None
    assert page.words.tolist() == [-1, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, -1]
