"""The importers on the real corpora reproduce the papers' counts (methods.md#reconstruction, "Anchors")."""

import hashlib
import json
from collections import Counter, defaultdict

import pytest

from audit.corpus import manifest as manifests
from audit.corpus.documents import Split
from audit.corpus.folding import fold, occurrences
from audit.corpus.summary import asked_providers
from audit.extensions.papers.importers.sroie import FIELDS
from audit.importers.registry import FORMATS

funsd = FORMATS["funsd"]
snips = FORMATS["snips"]
sroie = FORMATS["sroie"]
tab = FORMATS["tab"]

pytestmark = pytest.mark.real
SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.2, "public": 0.4}


@pytest.fixture(scope="module")
def tokens(real_data):
    """The number of tokens of a text with the shipped vocabulary, special tokens left out."""
    transformers, folder = pytest.importorskip("transformers"), real_data.parent / "models" / "minilm-l6-h384"
    if not folder.is_dir():
        pytest.skip(f"the shipped vocabulary is not at {folder}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.fixture(scope="module")
def forms(real_data, tmp_path_factory):
    dst = tmp_path_factory.mktemp("funsd") / "data"
    return funsd.convert(real_data / "funsd", dst, SHARES, seed=7), manifests.load(dst)


def test_sroie_fields(real_receipts, real_data, tokens):
    report, corpus = real_receipts
    assert sum(report.fields.values()) == 2504
    in_range = located = 0
    for document in corpus.documents:
        values = json.loads((real_data / "sroie" / "key" / f"{document.id}.json").read_text(encoding="utf-8"))
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
        values = json.loads((real_data / "sroie" / "key" / f"{document.id}.json").read_text(encoding="utf-8"))
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
        splits[hashlib.sha256((corpus.root / document.image).read_bytes()).hexdigest()].add(document.split)
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


@pytest.mark.usefixtures("compared_once")
def test_sroie_by_company(real_data, tmp_path):
    """72 companies have two receipts or more (methods.md#provider-membership); the two of three companies are one
    picture twice."""
    shares: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
    report = sroie.convert(real_data / "sroie", tmp_path / "out", shares, seed=7, division="by-provider")
    corpus, notes = manifests.load(tmp_path / "out"), report.notes
    assert (notes["providers in"], notes["providers out"], notes["providers public"]) == (35, 34, 165)
    asked = asked_providers(corpus)
    assert (asked.n_in, asked.n_out, asked.unasked, asked.also_public) == (35, 34, 0, 0)
    public = Counter(document.provider for document in corpus.of("public"))
    assert asked.n_in + asked.n_out + sum(size > 1 for size in public.values()) == 72
    copies = {name for group in report.duplicates for name in group}
    alike = [d.id for d in corpus.of("public") if public[d.provider] > 1]
    assert len(alike) == 6
    assert copies.issuperset(alike)
    assert asked.half_width > 0.11  # of METHODS: 11 points


def test_funsd_answers(forms, tokens):
    report, corpus = forms
    answers = [
        document.text_of(entity) for document in corpus.documents for entity in document.entities if entity.attack
    ]
    assert len(answers) == 2732
    assert abs(sum(3 <= tokens(answer) <= 15 for answer in answers) - 1690) <= 5
    assert sum(report.fields.values()) == sum(len(d.entities) for d in corpus.documents) + len(report.unlocated)


def test_tab_mentions(real_data, tmp_path):
    """127 documents, 7,341 mentions; the 21 that overlap a longer one are left out, and no character is lost."""
    report = tab.convert(real_data / "tab", tmp_path / "tab", {"member": 1.0}, seed=7)
    corpus = manifests.load(tmp_path / "tab")
    assert (len(corpus.documents), sum(report.fields.values())) == (127, 7341)
    assert {reason for *_, reason in report.unlocated} == {"overlapping"}
    assert sum(len(document.entities) for document in corpus.documents) == 7341 - len(report.unlocated) == 7320
    texts = json.loads((real_data / "tab" / "texts.json").read_text(encoding="utf-8"))
    mentions = json.loads((real_data / "tab" / "mentions.json").read_text(encoding="utf-8"))
    for document in corpus.documents:
        text = texts[document.id]
        assert "".join(word.text for word in document.words) == "".join(text.split())
        assert len(document.paragraphs) == sum(bool(line.strip()) for line in text.split("\n"))
        annotated = {(label, text[start:end]) for start, end, label in mentions[document.id]}
        # A value is the mention itself, white space apart: no punctuation beside it, no part of it missing.
        assert annotated.issuperset((entity.label, document.text_of(entity)) for entity in document.entities)
    assert sum(d.words[0].text == "PROCEDURE" and d.paragraphs[1] == 1 for d in corpus.documents) >= 120


def test_snips_utterances(real_data, tmp_path):
    """13,084 to train, 700 and 700 to choose and test; 39 slots, 7 intents, none left out."""
    report = snips.convert(real_data / "snips", tmp_path / "snips", SHARES, seed=7)
    corpus = manifests.load(tmp_path / "snips")
    parts = Counter(document.id.split("-")[0] for document in corpus.documents)
    assert (parts, len(report.fields)) == ({"train": 13084, "valid": 700, "test": 700}, 39)
    assert (len(corpus.manifest.task.labels), len({document.intent for document in corpus.documents})) == (72, 7)
    assert not report.unlocated
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        splits[fold(" ".join(word.text for word in document.words))].add(document.split)
    assert all(len(found) == 1 for found in splits.values())
    assert report.notes["texts that occur several times, never in two splits"] == 189
    official: dict[Split, float] = {"member": 1.0, "heldout": 1.0}
    divided = snips.convert(real_data / "snips", tmp_path / "official", official, seed=7, division="official")
    copies = divided.notes["copies of documents of the training part, left out"]
    assert divided.documents["heldout"] == 1400 - copies == 1359
    assert divided.documents["member"] == 13084
