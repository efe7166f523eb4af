"""The importers on the real corpora reproduce the papers' counts (methods/reconstruction.md)."""

import functools
import hashlib
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Split
from audit.corpus.folding import fold, occurrences
from audit.corpus.images import PageView, page_view
from audit.corpus.near_copies import find_copies
from audit.corpus.placement import placement_warnings
from audit.corpus.removal import Removal, remove
from audit.corpus.removal.proof import crops_of, prove_removal, survives
from audit.corpus.removal.tesseract import TESSERACT
from audit.corpus.summary import asked_providers, summarise
from audit.importers.assemble import ImportReport
from audit.importers.divide import equal_images
from audit.importers.formats.sroie import FIELDS, PHRASINGS
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest

funsd = FORMATS["funsd"]
snips = FORMATS["snips"]
sroie = FORMATS["sroie"]
tab = FORMATS["tab"]

pytestmark = pytest.mark.real
SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}


@pytest.fixture(scope="module")
def real_data() -> Path:
    """The folder with the real corpora: DOCAUDIT_REAL_DATA, else ../shared/data beside the repository."""
    folder = Path(
        os.environ.get(
            "DOCAUDIT_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"
        )
    )
    if not folder.is_dir():
        pytest.skip(f"the real corpora are not at {folder}; set DOCAUDIT_REAL_DATA")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _pictures_are_compared_once() -> Iterator[None]:
    """Real pictures that another test's import has decoded and compared are not decoded and compared again."""
    compared = functools.cache(lambda *images: equal_images(dict(images)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "audit.importers.divide.equal_images", lambda images: compared(*images.items())
        )
        yield


@pytest.fixture(scope="module")
def real_receipts(real_data, tmp_path_factory) -> tuple[ImportReport, Corpus]:
    """SROIE, imported once for all tests; read only."""
    dst = tmp_path_factory.mktemp("sroie") / "data"
    return sroie.convert(ImportRequest(real_data / "sroie", dst, SHARES, seed=7)), manifests.load(
        dst
    )


@pytest.fixture(scope="module")
def tokens(real_data):
    """The number of tokens of a text with the shipped vocabulary, special tokens left out."""
    transformers = pytest.importorskip("transformers")
    folder = real_data.parent / "models" / "minilm-l6-h384"
    if not folder.is_dir():
        pytest.skip(f"the shipped vocabulary is not at {folder}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.fixture(scope="module")
def forms(real_data, tmp_path_factory):
    dst = tmp_path_factory.mktemp("funsd") / "data"
    return funsd.convert(ImportRequest(real_data / "funsd", dst, SHARES, seed=7)), manifests.load(
        dst
    )


def test_sroie_fields(real_receipts, real_data, tokens):
    report, corpus = real_receipts
    assert sum(report.fields.values()) == 2504
    in_range = located = 0
    for document in corpus.documents:
        values = json.loads(
            (real_data / "sroie" / "key" / f"{document.id}.json").read_text(encoding="utf-8")
        )
        found = {entity.id for entity in document.entities}
        for key in FIELDS:
            if 3 <= tokens(values.get(key, "")) <= 15:
                in_range += 1
                located += key in found
    assert in_range == 1899
    assert located >= 1890  # a plain matcher finds 1,882
    assert ("104", "ADDRESS", "absent") in report.unlocated
    assert ("033", "TOTAL", "absent") in report.unlocated


def test_most_located_words_are_the_key_itself(real_receipts, real_data):
    _, corpus = real_receipts
    equal = fields = 0
    for document in corpus.documents:
        values = json.loads(
            (real_data / "sroie" / "key" / f"{document.id}.json").read_text(encoding="utf-8")
        )
        for entity in document.entities:
            fields += 1
            equal += fold(values[entity.id]) == fold(document.text_of(entity))
    assert equal / fields > 0.94


def test_sroie_splits_and_duplicates(real_receipts):
    report, corpus = real_receipts
    assert all(abs(report.documents[split] - 626 * share) < 1 for split, share in SHARES.items())
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        assert document.image is not None
        splits[hashlib.sha256((corpus.root / document.image).read_bytes()).hexdigest()].add(
            document.split
        )
    assert len(splits) == 621
    assert all(len(found) == 1 for found in splits.values())
    assert len(report.duplicates) == 5


def test_sroie_companies_repeat_as_the_methods_say(real_receipts):
    _, corpus = real_receipts
    found = occurrences(corpus)
    companies = [
        found[fold(document.text_of(entity))]
        for document in corpus.documents
        for entity in document.entities
        if entity.label == "COMPANY"
    ]
    repeated = sum(sum(company.as_value.values()) > 1 for company in companies) / len(companies)
    assert repeated == pytest.approx(0.74, abs=0.01)
    assert sum(not company.unique for company in companies) / len(companies) >= repeated


def test_sroie_providers(real_receipts):
    _, corpus = real_receipts
    sizes = Counter(document.provider for document in corpus.documents)
    assert 230 <= len(sizes) <= 236  # 236 spellings
    assert sum(size > 1 for size in sizes.values()) == 72


def test_sroie_by_company(real_data, tmp_path):
    """72 companies have two receipts or more (methods/provider-membership.md).

    The two of three companies are one
    picture twice."""
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
    report = sroie.convert(
        ImportRequest(real_data / "sroie", tmp_path / "out", shares, seed=7, division="by-provider")
    )
    corpus = manifests.load(tmp_path / "out")
    notes = report.notes
    assert (notes["providers in"], notes["providers out"], notes["providers public"]) == (
        35,
        34,
        165,
    )
    asked = asked_providers(corpus)
    assert (asked.n_in, asked.n_out, asked.unasked, asked.also_public) == (35, 34, 0, 0)
    public = Counter(document.provider for document in corpus.of("public"))
    assert asked.n_in + asked.n_out + sum(size > 1 for size in public.values()) == 72
    copies = {name for group in report.duplicates for name in group}
    alike = [d.id for d in corpus.of("public") if public[d.provider] > 1]
    assert len(alike) == 6
    assert copies.issuperset(alike)
    assert asked.half_width > 0.11  # of METHODS: 11 points


def test_real_receipts_as_questions(real_data, tmp_path):
    report = sroie.convert(
        ImportRequest(
            real_data / "sroie", tmp_path / "out", SHARES, seed=7, task="question-answering"
        )
    )
    corpus = manifests.load(tmp_path / "out")
    questions = [question for document in corpus.documents for question in document.questions]
    absent = sum(counts.get("absent", 0) for counts in report.not_located.values())
    assert len(questions) == sum(report.fields.values()) - absent == 2502
    linked = sum(question.entity is not None for question in questions)
    assert linked == sum(sum(counts.values()) for counts in report.located.values())
    assert {question.question for question in questions} == {
        p for group in PHRASINGS.values() for p in group
    }
    counts = {name: sum(own.values()) for name, own in summarise(corpus).counts.items()}
    assert counts["questions"] == len(questions)
    assert 0.9 < counts["answers among the page's words"] / len(questions) < 1


@pytest.mark.slow
def test_of_sroie_only_true_copies_are_called_copies(real_receipts):
    _, corpus = real_receipts
    once = [replace(document, split="member") for document in corpus.documents]
    twice = [replace(document, id=f"copy-{document.id}", split="heldout") for document in once]
    copies = find_copies(replace(corpus, documents=(*once, *twice)))
    others = {tuple(sorted((one[5:], two))) for one, two in copies.pairs if one[5:] != two}
    assert {two for one, two in copies.pairs if one[5:] == two} == {
        document.id for document in corpus.documents
    }
    # Five pairs are equal images; of 235 and 237 one was saved anew; 444 and 445 hold the same
    # words.
    equal = {("012", "015"), ("016", "018"), ("074", "624"), ("076", "625"), ("277", "452")}
    assert others == equal | {("235", "237"), ("444", "445")}


def test_right_boxes_of_real_pages_are_not_warned_of(real_receipts, forms):
    for _, corpus in (real_receipts, forms):
        assert [*placement_warnings(corpus)] == []


def test_most_values_of_real_receipts_are_removed_and_proven(real_receipts, real_data):
    _, corpus = real_receipts
    documents = random.Random(3).sample(list(corpus.documents), 40)
    counts: Counter[str] = Counter()
    asked: list[tuple[str, PageView, Removal]] = []
    for number, document in enumerate(documents):
        values = json.loads(
            (real_data / "sroie" / "key" / f"{document.id}.json").read_text(encoding="utf-8")
        )
        view = page_view(corpus, document)
        for value in values.values():
            removal = remove(view, [value])
            counts["values"] += 1
            counts["found"] += bool(removal.words)
            counts["gone from the words"] += not survives(
                [word.text for word in removal.view.words], [value]
            )
            if TESSERACT.installed() and number < 8:
                asked.append((value, view, removal))
    # All at once, as an attack asks: starting Tesseract takes longer than reading.
    TESSERACT.ask(
        [
            crop
            for _, view, done in asked
            for page in (view, done.view)
            for crop in crops_of(page, done)
        ]
    )
    for value, view, removal in asked:
        before, after = (TESSERACT.ask(crops_of(page, removal)) for page in (view, removal.view))
        counts[prove_removal(view, removal, [value], before, after).status] += 1
    assert counts["values"] == 160
    assert counts["found"] >= 155
    assert counts["gone from the words"] >= 140
    # 70 of 80 in a larger run (20 receipts); Tesseract's own errors on worn paper leave some
    # without a control.
    assert counts["proven"] >= 0.7 * len(asked)


def test_funsd_answers(forms, tokens):
    report, corpus = forms
    answers = [
        document.text_of(entity)
        for document in corpus.documents
        for entity in document.entities
        if entity.attack
    ]
    assert len(answers) == 2732
    assert abs(sum(3 <= tokens(answer) <= 15 for answer in answers) - 1690) <= 5
    assert sum(report.fields.values()) == sum(len(d.entities) for d in corpus.documents) + len(
        report.unlocated
    )


def test_tab_mentions(real_data, tmp_path):
    """127 documents, 7,341 mentions.

    The 21 that overlap a longer one are left out, and no character is lost.
    """
    report = tab.convert(
        ImportRequest(real_data / "tab", tmp_path / "tab", {"member": 1.0}, seed=7)
    )
    corpus = manifests.load(tmp_path / "tab")
    assert (len(corpus.documents), sum(report.fields.values())) == (127, 7341)
    assert {reason for *_, reason in report.unlocated} == {"overlapping"}
    assert (
        sum(len(document.entities) for document in corpus.documents)
        == 7341 - len(report.unlocated)
        == 7320
    )
    texts = json.loads((real_data / "tab" / "texts.json").read_text(encoding="utf-8"))
    mentions = json.loads((real_data / "tab" / "mentions.json").read_text(encoding="utf-8"))
    for document in corpus.documents:
        text = texts[document.id]
        assert "".join(word.text for word in document.words) == "".join(text.split())
        assert len(document.paragraphs) == sum(bool(line.strip()) for line in text.split("\n"))
        annotated = {(label, text[start:end]) for start, end, label in mentions[document.id]}
        # A value is the mention itself, white space apart: no punctuation beside it, no part of it
        # missing.
        assert annotated.issuperset(
            (entity.label, document.text_of(entity)) for entity in document.entities
        )
    assert (
        sum(d.words[0].text == "PROCEDURE" and d.paragraphs[1] == 1 for d in corpus.documents)
        >= 120
    )


def test_snips_utterances(real_data, tmp_path):
    """13,084 to train, 700 and 700 to choose and test; 39 slots, 7 intents, none left out."""
    report = snips.convert(ImportRequest(real_data / "snips", tmp_path / "snips", SHARES, seed=7))
    corpus = manifests.load(tmp_path / "snips")
    parts = Counter(document.id.split("-")[0] for document in corpus.documents)
    assert (parts, len(report.fields)) == ({"train": 13084, "valid": 700, "test": 700}, 39)
    assert (
        len(corpus.manifest.task.labels),
        len({document.intent for document in corpus.documents}),
    ) == (72, 7)
    assert not report.unlocated
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        splits[fold(" ".join(word.text for word in document.words))].add(document.split)
    assert all(len(found) == 1 for found in splits.values())
    assert report.notes["texts that occur several times, never in two splits"] == 189


def test_official_parts_of_snips(real_data, tmp_path):
    """A quarter of the 13,084 to train.

    Of the 1,400 to choose and test all but the 41 that training repeats.
    """
    official: dict[Split, float] = {"member": 0.25, "heldout": 1.0}
    divided = snips.convert(
        ImportRequest(
            real_data / "snips", tmp_path / "official", official, seed=7, division="official"
        )
    )
    copies = divided.notes["copies of documents of the training part, left out"]
    assert divided.documents["heldout"] == 1400 - copies == 1359
    assert divided.documents["member"] == 13084 / 4
