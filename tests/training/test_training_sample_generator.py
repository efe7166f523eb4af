"""The generator of the sample's receipts: the same from a seed, words where their letters are, nothing unknown."""

import collections
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scripts import load

from audit.corpus import manifest

SAMPLE_MODELS = Path(__file__).parents[2] / "sample_models"
sys.path.append(str(SAMPLE_MODELS))  # the scripts there import each other by name

import receipts_generator as generator  # noqa: E402
import receipts_templates as templates  # noqa: E402
from vocabulary import train_tokenizer  # noqa: E402


@pytest.fixture(scope="module")
def build():
    return load(SAMPLE_MODELS / "build.py")


@pytest.fixture(scope="module")
def splits(build):
    return build.assigned()


@pytest.fixture(scope="module")
def receipts():
    market = generator.Market(3, 30)
    return [market.receipt(number) for number in range(40)]


@pytest.fixture(scope="module")
def documents(receipts):
    return [
        templates.document(receipt, f"r{number}", "public")
        for number, receipt in enumerate(receipts)
    ]


def test_a_seed_makes_the_same_receipts_in_any_order(receipts):
    again = generator.Market(3, 30)
    assert [again.receipt(number) for number in reversed(range(40))] == receipts[::-1]
    assert generator.Market(4, 30).receipt(0) != receipts[0]
    assert templates.write(receipts[0]).png() == templates.write(again.receipt(0)).png()


def test_every_value_of_a_receipt_is_where_its_entity_says(receipts, documents):
    for receipt, document in zip(receipts, documents, strict=True):
        provider = receipt.provider
        name = provider.name.upper() if provider.look.capitals else provider.name
        expected = {
            "COMPANY": ("organization", name),
            "ADDRESS": ("location", f"{provider.street} {provider.town}"),
            "DATE": ("datetime", receipt.date.strftime(provider.date_format)),
            "TOTAL": ("amount", receipt.money(receipt.total)),
            "CUSTOMER": ("person", receipt.customer),
            "CASHIER": ("person", receipt.cashier),
            "CODE": ("code", receipt.code),
            "PHONE": ("contact", receipt.phone),
        }
        found = {
            entity.label: (entity.category, document.text_of(entity))
            for entity in document.entities
        }
        assert (found, document.provider) == (expected, provider.name)


def test_each_box_holds_its_word_and_no_ink_lies_outside_the_words(receipts, documents):
    for receipt, document in zip(receipts[:12], documents[:12], strict=True):
        ink = np.asarray(Image.open(io.BytesIO(templates.write(receipt).png()))) < 200
        assert ink.shape == document.size[::-1]
        assert templates.write(receipt).y <= document.size[1], "the page is long enough"
        outside = ink.copy()
        for word in document.words:
            x0, y0, x1, y1 = word.box
            assert 0 <= x0 < x1 <= document.size[0]
            assert 0 <= y0 < y1 <= document.size[1]
            assert ink[int(y0) : int(y1) + 1, int(x0) : int(x1) + 1].any(), word.text
            outside[int(y0) - 1 : int(y1) + 2, int(x0) - 1 : int(x1) + 2] = False
        rules = (
            outside.sum(axis=1) > 0.3 * document.size[0]
        )  # separating lines are ink, but no word
        assert not outside[~rules].any()


def test_the_vocabulary_knows_every_word_and_no_number(documents):
    texts = [" ".join(word.text for word in document.words) for document in documents]
    tokenizer = train_tokenizer(texts[:20], 200, 160)
    for text in [*texts, "".join(chr(code) for code in range(33, 127))]:
        assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    entries = [entry.removeprefix("##") for entry in tokenizer.get_vocab()]
    assert max(len(entry) for entry in entries if any(letter.isdigit() for letter in entry)) == 2
    assert tokenizer.tokenize("20241") == ["20", "##24", "##1"]
    assert len(tokenizer) == len(set(tokenizer.get_vocab().values()))


def test_a_vocabulary_is_the_same_each_time_it_is_learned(documents):
    texts = [" ".join(word.text for word in document.words) for document in documents]
    first, *others = (train_tokenizer(texts, 300, 160).get_vocab() for _ in range(4))
    assert all(other == first for other in others)


def test_a_vocabulary_is_the_same_after_saving(documents, tmp_path):
    from transformers import AutoTokenizer

    texts = [" ".join(word.text for word in document.words) for document in documents]
    tokenizer = train_tokenizer(texts, 200, 160)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    assert (loaded(texts)["input_ids"], loaded.model_max_length) == (
        tokenizer(texts)["input_ids"],
        160,
    )


def test_the_data_that_build_writes_is_valid_and_the_unseen_receipts_are_not_in_it(
    build, splits, tmp_path
):
    assert {split: len(documents) for split, documents in splits.items()} == {
        **build.SPLITS,
        None: build.N_UNSEEN,
    }
    ids = [document.id for documents in splits.values() for document in documents]
    assert len(set(ids)) == len(ids)
    some = [document for split in build.SPLITS for document in splits[split][:5]]
    build.write_data(tmp_path / "data", some)
    corpus = manifest.load(tmp_path / "data")
    assert corpus.documents == tuple(some)
    assert not {document.id for document in splits[None]} & {
        document.id for document in corpus.documents
    }


def test_documents_have_unique_values_of_3_to_15_tokens_to_attack(build, splits):
    """At least three a document, so that one field of each is attacked with power.

    See methods/index.md#power-and-coverage.
    """
    documents = [document for split in build.SPLITS for document in splits[split]]
    texts = (" ".join(word.text for word in document.words) for document in splits["public"])
    tokenizer = train_tokenizer(texts, build.N_PIECES, build.MAX_TOKENS)
    count = collections.Counter(
        document.text_of(entity).casefold()
        for document in documents
        for entity in document.entities
    )
    for document in documents:
        values = [document.text_of(entity) for entity in document.entities]
        unique = [value for value in values if count[value.casefold()] == 1]
        eligible = [value for value in unique if 3 <= len(tokenizer.tokenize(value)) <= 15]
        assert len(eligible) >= 3
        length = sum(len(tokenizer.tokenize(word.text)) for word in document.words)
        assert length + 2 < build.MAX_TOKENS
