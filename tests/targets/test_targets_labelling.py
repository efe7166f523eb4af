"""What SPADE's training losses read of a page made by hand, and documents whose loss cannot be told."""

from dataclasses import replace

import pytest
import tiny

from audit.corpus.documents import Document, Entity
from audit.errors import TargetError
from audit.targets.encoded_page import Encoding
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.heads import HeadName

TOKENIZER = tiny.tokenizer()
CLASSES = ("NAME", "O", "TOTAL")
NAME = Entity("e0", "NAME", "person", (1, 2))
TOTAL = Entity("e1", "TOTAL", "amount", (4,))
OTHER = Entity("e2", "NAME", "person", (5, 3))  # read from the bottom up
# Positions:         0      1 2    3 4    5    6    7 8    9     10
#                    [CLS]  to     ann    b    x    9 1    y     [SEP]
WORDS = tiny.laid_out(["to", "ann", "b", "x", "91", "y"])
LINKS = (("e0", "e1"), ("e2", "e1"), ("e1", "e2"))
DOCUMENT = Document(
    "d", "member", WORDS, size=tiny.SIZE, entities=(NAME, TOTAL, OTHER), links=LINKS
)


def page_of(
    task: HeadName,
    document: Document = DOCUMENT,
    max_tokens: int = 32,
    around: tuple[int, ...] = (),
) -> Encoding:
    page = Encoder(
        TOKENIZER, max_tokens, CLASSES if task == "spade-extraction" else (), task=task
    ).encode(document, around)
    assert page is not None
    return page


def test_extraction_reads_a_class_at_each_word_and_a_predecessor_at_each_token() -> None:
    page = page_of("spade-extraction")
    assert page.labels is not None
    assert page.links is not None
    # "O" is class 1: outside of entities, and at words that go on with one.
    assert page.labels.tolist() == [-100, 1, -100, 0, -100, -100, 1, 1, 2, -100, 0, -100]
    assert page.links.tolist() == [-1, -1, -1, -1, 3, 4, 5, 10, -1, 8, -1, -1]


def test_linking_reads_a_parent_at_each_word() -> None:
    page = page_of("spade-linking")
    assert page.labels is None
    assert page.links is not None
    # e1 has two parents, of which the first counts; e2's is e1.
    assert page.links.tolist() == [-100, -1, -100, -1, -100, -100, -1, -1, 3, -100, 8, -100]


def test_what_the_window_cuts_off_is_nobodys_predecessor_or_parent() -> None:
    entities = (Entity("e0", "NAME", "person", (0, 1)), Entity("e1", "TOTAL", "amount", (2, 3)))
    words = tiny.laid_out(["abcdef"] * 6)
    links = (("e0", "e1"),)
    cut = Document("d", "member", words, size=tiny.SIZE, entities=entities, links=links)
    page = page_of("spade-extraction", cut, 16, around=(2, 3))
    assert page.words.tolist() == [-1, 1, *[2] * 6, *[3] * 6, 4, -1]
    assert page.labels is not None
    assert page.links is not None
    # The second word of e0 is in the window, its first one is not.
    assert page.labels.tolist() == [-100, 1, 2, *[-100] * 5, 1, *[-100] * 5, 1, -100]
    assert page.links.tolist() == [-1, -1, -1, *range(2, 13), -1, -1]
    linked = page_of("spade-linking", cut, 16, around=(2, 3))
    assert linked.links is not None
    assert linked.links.tolist() == [-100, -1, -1, *[-100] * 5, -1, *[-100] * 5, -1, -100]


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        pytest.param(
            "spade-extraction",
            {"entities": (replace(NAME, label="SHOP"),)},
            "no class for entities labelled SHOP",
            id="a label without a class",
        ),
        pytest.param(
            "spade-extraction",
            {"entities": (NAME, replace(TOTAL, words=(2,)))},
            "word 2 belongs to entity e0 too",
            id="a word of two entities, extraction",
        ),
        pytest.param(
            "spade-linking",
            {"entities": (NAME, replace(TOTAL, words=(2,)))},
            "word 2 belongs to entity e0 too",
            id="a word of two entities, linking",
        ),
        pytest.param("spade-linking", {"links": ()}, "no document has links", id="no links at all"),
        pytest.param(
            "spade-linking",
            {"links": (("e1", "e1"),)},
            "entity e1 cannot be its own parent",
            id="an entity linked to itself",
        ),
    ],
)
def test_documents_that_do_not_fit_the_task_are_refused(
    task: HeadName, changes: dict, message: str
) -> None:
    encoder = Encoder(TOKENIZER, 32, CLASSES if task == "spade-extraction" else (), task=task)
    encoder.check_vocabulary([DOCUMENT])
    kept = {"links": ((("e0", "e1"),) if task == "spade-linking" else ())}
    with pytest.raises(TargetError, match=message):
        encoder.check_vocabulary([replace(DOCUMENT, **{**kept, **changes})])
