"""`audit.corpus.near_copies`: what is a copy of a document in another split, what only looks like one, what follows."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFile

from audit.corpus import manifest as manifests
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    Split,
    Task,
    TaskKind,
    Word,
)
from audit.corpus.near_copies import Copies, counts_left_out, find_copies, without_copies
from audit.errors import ManifestError

PRINTED = (
    "THE BLUE ANCHOR STATIONERY AND BOOKS TRADING COMPANY LIMITED OF HARBOUR ROAD TAX INVOICE THANK YOU",
    "GOODS ONCE SOLD ARE NOT RETURNABLE PLEASE KEEP THIS INVOICE AS A PROOF OF YOUR PURCHASE WITH US",
)
HEADER, FOOTER = (line.split() for line in PRINTED)
SAMPLES = Path(__file__).parents[2] / "sample_models"


def corpus_of(
    documents: Sequence[Document], kind: TaskKind = "token-classification", root: Path = Path()
) -> Corpus:
    return Corpus(
        root, Manifest(1, "letters", Task(kind), Membership("random")), tuple(documents), "0" * 64
    )


def text(name: str, split: Split, words: Sequence[str]) -> Document:
    return Document(name, split, tuple(map(Word, words)))


def receipt(number: int) -> list[str]:
    """Most words are those of the shop.

    What was bought when, for how much, is the receipt's own.
    """
    rng = np.random.default_rng(number)
    own = [
        f"{rng.integers(1, 29):02}/{rng.integers(1, 13):02}/2019",
        f"CS-{rng.integers(10**6, 10**7)}",
        "PENS",
    ]
    own += [
        "RM",
        f"{rng.integers(10, 100)}.{rng.integers(10, 100)}",
        f"{rng.integers(8, 20)}:{rng.integers(10, 59)}",
    ]
    return [*HEADER, *own, "CASHIER", "12", "TILL", "3", "QTY", "1", *FOOTER]


def letter(number: int, length: int = 120) -> list[str]:
    """Words that hardly any other letter has."""
    rng = np.random.default_rng(number)
    return [
        "".join(rng.choice([*"abcdefghij"], 6)) if rng.random() < 0.9 else f"{rng.integers(1000)}"
        for _ in range(length)
    ]


def misread(words: Sequence[str], share: float, seed: int = 0) -> list[str]:
    """What another reading of the page makes of it: in some words one character is wrong."""
    rng = np.random.default_rng(seed)
    return [word[:-1] + "~" if rng.random() < share else word for word in words]


def found(documents: Sequence[Document], kind: TaskKind = "token-classification") -> Copies:
    return find_copies(corpus_of(documents, kind))


def both_sides(
    heldout: Sequence[Sequence[str]], members: Sequence[Sequence[str]]
) -> list[Document]:
    return [
        *(text(f"m{number}", "member", words) for number, words in enumerate(members)),
        *(text(f"h{number}", "heldout", words) for number, words in enumerate(heldout)),
    ]


def test_a_copy_under_another_id_is_found_also_when_some_words_were_misread():
    members = [letter(number) for number in range(40)]
    others = [letter(100 + number) for number in range(38)]
    copies = found(both_sides([members[7], misread(members[9], 0.015), *others], members))
    assert copies.pairs == (("h0", "m7"), ("h1", "m9"))
    assert copies.left_out == {"h0", "h1"}  # 2 of 40: few
    assert copies.sentences == ("2 held-out documents are copies, or nearly, of 2 member ones.",)


def test_case_and_spacing_make_no_other_text():
    words = letter(1, 12)  # too short for runs of words
    copies = found(
        both_sides([[*map(str.upper, words)], *(letter(50 + n) for n in range(30))], [words])
    )
    assert copies.pairs == (("h0", "m0"),)


def test_receipts_of_one_shop_for_one_thing_are_no_copies():
    assert (
        found(both_sides([receipt(n) for n in range(30)], [receipt(n) for n in range(30, 60)]))
        == Copies()
    )


def test_documents_of_one_split_are_not_compared():
    assert found([text(f"m{number}", "member", letter(1)) for number in range(5)]) == Copies()


def test_many_copies_confound_the_audit_and_stay():
    members = [letter(number) for number in range(20)]
    documents = both_sides(members, members)
    copies = found(documents)
    assert copies.left_out == frozenset()
    assert copies.heldout_confounded is not None
    assert "20 of 20 unseen documents are copies of training documents" in copies.heldout_confounded
    assert without_copies(corpus_of(documents), copies).documents == tuple(documents)


def test_public_copies_of_audited_documents_are_left_out_and_many_confound_what_learnt_from_them():
    audited = both_sides([letter(n) for n in range(20)], [letter(100 + n) for n in range(20)])
    public = [
        text("p0", "public", letter(0)),
        text("p1", "public", letter(100)),
        text("p2", "public", letter(999)),
    ]
    few = found([*audited, *public])
    assert few.left_out == {"p0", "p1"}
    assert few.public_confounded is None
    more = [text(f"q{number}", "public", letter(100 + number)) for number in range(5)]
    many = found([*audited, *more])
    assert many.left_out == {f"q{number}" for number in range(5)}
    assert many.public_confounded is not None
    assert many.heldout_confounded is None
    assert "5 of 40 training and unseen documents" in many.public_confounded


def test_utterances_are_copies_only_when_equal_and_then_leave_both_sides():
    said = ["turn", "the", "light", "on", "please"]
    members = [said, ["turn", "the", "light", "off", "please"], letter(3)]
    heldout = [[*map(str.title, said)], misread(letter(3), 0.01, seed=4), ["call", "him"]]
    documents = [text(f"m{place}", "member", words) for place, words in enumerate(members)]
    documents += [text(f"h{place}", "heldout", words) for place, words in enumerate(heldout)]
    copies = found(documents, "intent-slots")
    assert (copies.pairs, copies.left_out) == ((("h0", "m0"),), {"h0", "m0"})
    assert counts_left_out(corpus_of(documents), copies.left_out) == {"member": 1, "heldout": 1}
    assert copies.sentences == ("1 held-out documents are equal to 1 member ones.",)


def test_the_data_set_without_its_copies_keeps_its_name_and_its_order():
    documents = both_sides([letter(n) for n in range(30, 60)], [letter(n) for n in range(30)])
    documents.insert(3, text("copy", "heldout", letter(5)))
    corpus = corpus_of(documents)
    audited = without_copies(corpus, find_copies(corpus))
    assert audited.documents == tuple(document for document in documents if document.id != "copy")
    assert (audited.sha256, audited.document("h0").id) == (corpus.sha256, "h0")
    with pytest.raises(KeyError):
        audited.document("copy")


# Pictures


def page(lines: Sequence[str], size: tuple[int, int] = (800, 1120)) -> Image.Image:
    image = Image.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((40, 40 + 44 * number), line, fill=0, font_size=36)
    return image


def lines_of(words: Sequence[str]) -> list[str]:
    return [" ".join(words[start : start + 4]) for start in range(0, len(words), 4)]


def scanned_again(image: Image.Image) -> Image.Image:
    """Smaller, a little darker, with noise."""
    small = image.resize((int(image.width * 0.8), int(image.height * 0.8)))
    greys = 0.96 * np.asarray(small, float) + np.random.default_rng(0).normal(
        0, 3, (small.height, small.width)
    )
    return Image.fromarray(np.clip(greys, 0, 255).astype(np.uint8))


def pictured(
    root: Path, name: str, split: Split, image: Image.Image, words: Sequence[str] = ()
) -> Document:
    image.save(root / f"{name}.png")
    return Document(name, split, tuple(map(Word, words)), image=f"{name}.png", size=image.size)


def test_a_page_that_was_scanned_again_is_found_without_words_and_others_are_not(tmp_path):
    pages = [page(lines_of(letter(number, 80))) for number in range(30)]
    documents = [
        *(pictured(tmp_path, f"m{n}", "member", pages[n]) for n in range(5)),
        *(pictured(tmp_path, f"h{n}", "heldout", pages[n]) for n in range(5, 30)),
        pictured(tmp_path, "again", "heldout", scanned_again(pages[3])),
    ]
    assert find_copies(corpus_of(documents, root=tmp_path)).pairs == (("again", "m3"),)


def test_forms_that_look_alike_are_no_copies_when_their_numbers_differ(tmp_path):
    printed = page(lines_of([*HEADER, *FOOTER]))
    documents = [
        pictured(tmp_path, "m0", "member", printed, receipt(1)),
        pictured(tmp_path, "h0", "heldout", scanned_again(printed), receipt(2)),
    ]
    assert find_copies(corpus_of(documents, root=tmp_path)).pairs == ()


def test_blank_pages_are_no_copies(tmp_path):
    blank = Image.new("L", (800, 1120), 255)
    documents = [
        pictured(tmp_path, "m0", "member", blank),
        pictured(tmp_path, "h0", "heldout", blank),
    ]
    assert find_copies(corpus_of(documents, root=tmp_path)).pairs == ()


def test_it_does_not_matter_how_a_reader_divides_words(tmp_path):
    printed = page(lines_of(receipt(1)))
    documents = [
        pictured(tmp_path, "m0", "member", printed, receipt(1)),
        pictured(
            tmp_path,
            "h0",
            "heldout",
            printed,
            " ".join(receipt(1)).replace("-", " - ").replace("/", " / ").split(),
        ),
    ]
    assert find_copies(corpus_of(documents, root=tmp_path)).pairs == (("h0", "m0"),)


@pytest.mark.parametrize("padded", [False, True])
def test_every_page_that_cannot_be_decoded_is_named(tmp_path, monkeypatch, padded):
    # WeasyPrint, which draws the PDF, sets this for the whole process.
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", padded)
    documents = [pictured(tmp_path, f"m{n}", "member", page(lines_of(letter(n)))) for n in range(3)]
    for name in ("m0", "m2"):
        whole = (tmp_path / f"{name}.png").read_bytes()
        (tmp_path / f"{name}.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ManifestError) as error:
        find_copies(corpus_of(documents, root=tmp_path))
    (problem,) = error.value.problems
    assert problem.startswith("document m0: not readable")
    assert problem.endswith("(2 times, also document m2)")


# Data as it is


@pytest.mark.parametrize("name", ["receipts", "questions", "letters"])
def test_documents_made_from_templates_are_no_copies(name):
    assert find_copies(manifests.load(SAMPLES / name / "data")) == Copies()


def test_commands_that_are_given_twice_are_left_out_on_both_sides():
    corpus = manifests.load(SAMPLES / "utterances" / "data")
    copies = find_copies(corpus)
    assert copies.heldout_confounded is None
    assert counts_left_out(corpus, copies.left_out) == {
        "member": 229,
        "heldout": 227,
        "public": 308,
    }
