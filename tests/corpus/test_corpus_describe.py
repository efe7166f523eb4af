"""What a document is described by without a model: its looks and words, never its name, split or provider."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from audit.corpus import features
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Task,
    Word,
)
from audit.corpus.features import describe, terms_of
from audit.corpus.images import open_image
from audit.errors import ManifestError


def page(number, text="Total 12.50", split="member", **more):
    words = tuple(
        Word(word, (10.0 + 40 * place, 20.0, 45.0 + 40 * place, 30.0))
        for place, word in enumerate(text.split())
    )
    return Document(f"d{number}", split, words, size=(200, 300), **more)


def corpus(*documents, root=None):
    return Corpus(
        root, Manifest(1, "pages", Task("mlm"), Membership("random")), documents, "0" * 64
    )


def described(*documents, root=None):
    return describe(corpus(*documents, root=root), documents)


def terms(text):
    return {*terms_of(page(0, text))}


def test_years_months_and_shapes_of_numbers_are_seen():
    assert {"2019", "1/3:2019", "2/3:03", "as 0000-00-00"} <= terms("2019-03-12")
    assert {"19", "3/3:19", "as 00/00/00"} <= terms("12/03/19")
    assert {"invoice", "as Aa", "20", "as Aa-00"} <= terms("Invoice No-20")
    assert "as A" in terms("TOTAL")
    # Numbers that run on: neighbours share how they begin.
    assert terms("48210") & terms("48377") == {"as 00000", "5 digits:48"}
    assert "café" in terms("CAFÉ")


def test_name_split_and_provider_change_nothing(tmp_path):
    Image.effect_noise((200, 300), 60).save(tmp_path / "a.png")
    Image.effect_noise((200, 300), 90).save(tmp_path / "b.png")
    documents = [page(0, image="a.png"), page(1, "Total 13.10", image="b.png")]
    changed = [
        replace(document, id=f"other{place}", split="heldout", provider=f"shop {place}")
        for place, document in enumerate(documents)
    ]
    first = described(*documents, root=tmp_path)
    second = described(*changed, root=tmp_path)
    assert set(first.blocks) == {"words", "layout", "image", "metadata"}
    for name, block in first.blocks.items():
        one, other = (
            (block.toarray(), second.blocks[name].toarray())
            if name == "words"
            else (block, second.blocks[name])
        )
        assert np.array_equal(one, other), name
        assert np.isfinite(one).all()
    assert first.same_image.tolist() == second.same_image.tolist()


def test_a_document_is_described_the_same_whatever_stands_beside_it_but_for_its_words():
    one = page(0)
    other = page(1, "Invoice 7 of 9")
    alone = described(one)
    beside = described(one, other)
    assert np.array_equal(alone.blocks["layout"][0], beside.blocks["layout"][0])


def test_corpora_without_images_or_boxes_lack_those_blocks():
    texts = [
        Document(f"d{n}", "member", (Word("send"), Word("money")), tags=("O", "O"), intent="pay")
        for n in range(3)
    ]
    found = described(*texts)
    assert (set(found.blocks), found.same_image.tolist()) == ({"words", "metadata"}, [0, 1, 2])
    assert set(described(page(0), page(1)).blocks) == {"words", "layout", "metadata"}
    # Words of one document tell nothing about another.
    assert set(described(page(0, "alpha"), page(1, "4")).blocks) == {"layout", "metadata"}
    assert "words" not in described(Document("empty", "member")).blocks


def test_a_document_without_boxes_or_image_among_others_has_its_row(tmp_path):
    Image.new("L", (200, 300), 200).save(tmp_path / "a.png")
    found = described(page(0, image="a.png"), Document("bare", "member"), root=tmp_path)
    assert (found.blocks["layout"][1] == 0).all()
    assert (found.blocks["image"][1] == 0).all()
    assert {block.shape[0] for block in found.blocks.values()} == {2}


def test_layout_sees_where_words_stand_and_how_large_the_page_is():
    low = replace(
        page(1), words=tuple(Word(w.text, (w.box[0], 280, w.box[2], 290)) for w in page(1).words)
    )
    large = replace(page(2), size=(400, 600))
    block = described(page(0), page(3), low, large).blocks["layout"]
    assert np.array_equal(block[0], block[1])
    assert not np.array_equal(block[0], block[2])
    assert not np.array_equal(block[0], block[3])
    assert block[2, -8:].sum() > block[0, -8:].sum() == 0  # the grid's last row


def test_images_are_told_apart_by_looks_and_not_by_how_a_file_stores_them(tmp_path):
    grey = Image.fromarray(np.random.default_rng(0).integers(0, 255, (300, 200), dtype=np.uint8))
    grey.save(tmp_path / "grey.png")
    grey.convert("RGB").save(tmp_path / "colour.png")
    grey.save(tmp_path / "grey.tiff")
    grey.filter(ImageFilter.GaussianBlur(2)).save(tmp_path / "blurred.png")
    grey.save(tmp_path / "pressed.jpg", quality=10)
    files = ("grey.png", "colour.png", "grey.tiff", "blurred.png", "pressed.jpg")
    found = described(*(page(n, image=name) for n, name in enumerate(files)), root=tmp_path)
    block = found.blocks["image"]
    assert np.array_equal(block[0], block[1])
    assert np.array_equal(block[0], block[2])
    assert found.same_image.tolist() == [0, 0, 0, 3, 4]
    sharpness = slice(2 + 5 + 16 + 3 + 1, 2 + 5 + 16 + 3 + 1 + 5)
    across, down, curved, _, seams = (block[:, sharpness] - block[0, sharpness]).T
    assert across[3] < 0 > down[3]
    assert curved[3] < 0
    assert seams[4] > 2 > abs(seams[3])  # JPEG's blocks show at their seams


@pytest.mark.parametrize("size", [(1, 1), (5, 900), (700, 3)])
def test_images_of_any_size_are_described(tmp_path: Path, size):
    Image.new("RGB", size, "red").save(tmp_path / "a.png")
    document = Document("d", "member", image="a.png", size=size)
    assert np.isfinite(described(document, root=tmp_path).blocks["image"]).all()


def test_metadata_counts_what_a_document_holds():
    def numbered(n_questions):
        return page(
            n_questions,
            entities=(Entity("e", "TOTAL", "amount", (1,)),),
            questions=tuple(
                Question(f"q{n}", "How much is it?", ("12.50",)) for n in range(n_questions)
            ),
        )

    block = described(numbered(0), numbered(3), page(9)).blocks["metadata"]
    assert np.log1p(3) in block[1] - block[0]
    assert not np.array_equal(block[0], block[2])  # it has no entity


def test_words_of_questions_are_counted_when_several_documents_share_them_and_only_the_commonest(
    monkeypatch,
):
    def asked(number, question):
        return page(number, questions=(Question("q", question, ("x",)),))

    def columns(*documents):
        return described(*documents).blocks["metadata"].shape[1]

    own = [
        asked(number, f"What does client{number} owe for {10**7 + number}") for number in range(30)
    ]
    same = [asked(number, "What does client owe for") for number in range(30)]
    assert columns(*own) == columns(*same)
    monkeypatch.setattr("audit.corpus.features.MAX_ASKED", 2)
    assert columns(*same) == columns(*(asked(number, "What does") for number in range(30)))
    # Those and how many questions and answers there are, no word of them.
    assert columns(asked(0, "What"), asked(1, "Who")) == columns(asked(0, ""), asked(1, ""))


def test_every_document_is_counted_as_it_is_described():
    seen = []
    describe(corpus(page(0), page(1)), [page(0), page(1)], lambda: seen.append(1))
    assert len(seen) == 2


def test_what_cannot_be_described_is_refused(tmp_path):
    with pytest.raises(ValueError, match="nothing to describe"):
        described()
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(ManifestError, match="document d0"):
        described(page(0, image="a.png"), root=tmp_path)


def test_a_page_is_opened_again_only_where_its_file_has_changed(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        features,
        "open_image",
        lambda corpus, document: opened.append(document.id) or open_image(corpus, document),
    )
    Image.effect_noise((200, 300), 60).save(tmp_path / "a.png")
    Image.effect_noise((200, 300), 60).save(tmp_path / "b.png")
    documents = [page(0, image="a.png"), page(1, image="b.png")]
    first = described(*documents, root=tmp_path)
    again = described(documents[1], documents[0], root=tmp_path)
    assert opened == ["d0", "d1"]
    assert np.array_equal(first.blocks["image"], again.blocks["image"][::-1])
    Image.new("RGB", (200, 300), "red").save(tmp_path / "a.png")
    changed = described(*documents, root=tmp_path)
    assert opened == ["d0", "d1", "d0"]
    assert not np.array_equal(first.blocks["image"][0], changed.blocks["image"][0])
    (tmp_path / "a.png").unlink()
    with pytest.raises(ManifestError, match="d0: the image is missing"):
        described(*documents, root=tmp_path)
