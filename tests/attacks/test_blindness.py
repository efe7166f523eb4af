"""The blind baseline on receipts that drift with time: what it catches, what it lets pass, and what it says."""

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from progress_log import ProgressLog

from audit.attacks import blind_baseline
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Question, Task, Word
from audit.corpus.manifest import load
from audit.importers.registry import FORMATS
from audit.importers.request import ImportRequest
from audit.measurements import Estimate, Unresolved

sroie = FORMATS["sroie"]

REPOSITORY = Path(__file__).resolve().parents[2]
GOODS = ("bread", "milk", "tea", "rice", "soap", "salt", "oil", "eggs", "beef", "fish")
TELLING = "differ even without the model"


def receipts(n, seed=0, n_shops=12, words=()):
    """Receipts of four years; from the third on the till prints another word for the sum."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        day = dt.date(2018, 1, 1) + dt.timedelta(days=int(rng.integers(4 * 365)))
        shop = int(rng.integers(n_shops))
        goods = [*rng.choice(GOODS, 3), f"{rng.integers(100)}.{rng.integers(100):02d}"]
        total = "Total" if day.year < 2020 or rng.random() < 0.5 else "Sum"
        text = [f"Shop{shop}", day.strftime("%d/%m/%Y"), *goods, total, *words]
        found.append((day, f"Shop {shop}", tuple(Word(word) for word in text)))
    return found


def corpus(drawn, member, assigned="random", names=None, root=None, images=None):
    names = [f"d{place:03d}" for place in range(len(drawn))] if names is None else names
    images = [None] * len(drawn) if images is None else images
    documents = [
        Document(name, "member" if own else "heldout", words, provider=shop, image=image)
        for name, image, (_, shop, words), own in zip(names, images, drawn, member, strict=True)
    ]
    return Corpus(
        root, Manifest(1, "receipts", Task("mlm"), Membership(assigned)), tuple(documents), "0" * 64
    )


def by_document(whole):
    return blind_baseline.by_document(
        whole, whole.documents, [d.split == "member" for d in whole.documents]
    )


def by_provider(whole, member):
    """`member` by provider."""
    names = [document.provider for document in whole.documents]
    return blind_baseline.by_document(
        whole, whole.documents, [member[name] for name in names], providers=names
    )


def diagnostics(blind):
    return {diagnostic.name: diagnostic.value for diagnostic in blind.diagnostics}


def halves(n, seed=0):
    return np.random.default_rng([seed, 5]).permutation(n) < n // 2


def test_a_split_by_date_is_caught_and_the_same_receipts_split_at_random_are_not():
    drawn = receipts(200)
    middle = sorted(day for day, _, _ in drawn)[100]
    for assigned in ("random", "by-date", "official"):
        caught = by_document(corpus(drawn, [day < middle for day, _, _ in drawn], assigned))
        (check,) = caught.checks
        assert check.reason.startswith("training and unseen documents " + TELLING)
        assert "best seen by their text" in check.reason
        assert "p = 0.001" in check.reason
        assert caught.estimate.low > 0.8
        assert diagnostics(caught)["blind_p"] == pytest.approx(1 / 1001)
    drawn = receipts(360)  # at p of 0.01 the check needs more documents than at 0.05
    passed = by_document(corpus(drawn, halves(360)))
    assert passed.confounded is None
    assert not passed.told_apart
    assert diagnostics(passed)["blind_p"] > 0.05
    assert diagnostics(passed)["blind_power"] > 0.8
    assert isinstance(passed.estimate, Estimate)
    assert (passed.estimate.name, passed.estimate.n, passed.estimate.unit) == (
        "blind_auc",
        360,
        "documents",
    )
    assert passed.estimate.low < passed.estimate.null < passed.estimate.high
    # Not by the word of the manifest, but by what the documents show: another date says nothing.
    assert not by_document(corpus(drawn, halves(360), "by-date")).told_apart


def test_providers_split_by_their_look_are_caught_by_provider():
    drawn = receipts(240, n_shops=60)
    shops = sorted({shop for _, shop, _ in drawn})
    old_till = {shop: place % 2 == 0 for place, shop in enumerate(shops)}
    marked = [
        (day, shop, (*words, Word("VAT" if old_till[shop] else "GST")))
        for day, shop, words in drawn
    ]
    whole = corpus(marked, [False] * 240, "by-provider")
    caught = by_provider(whole, old_till)
    assert caught.told_apart
    assert caught.checks[0].reason.startswith("providers in and out of training " + TELLING)
    assert (caught.estimate.n, caught.estimate.unit) == (len(shops), "providers")
    by_lot = dict(zip(shops, halves(len(shops)), strict=True))
    assert not by_provider(whole, by_lot).told_apart
    assert by_provider(whole, by_lot).confounded is None


def test_few_units_are_a_weakness_where_they_were_drawn_and_confound_where_they_were_not():
    drawn = receipts(24)
    for assigned, told in {"by-date": "different times", "official": "nobody stated that"}.items():
        blind = by_document(corpus(drawn, halves(24), assigned))
        assert told in blind.confounded
        assert "80 % are needed" in blind.confounded
    for assigned in ("random", "by-provider"):
        blind = by_document(corpus(drawn, halves(24), assigned))
        assert blind.confounded is None
        assert not blind.told_apart
        (power,) = (found for found in blind.diagnostics if found.name == "blind_power")
        assert "only the data set states that documents were drawn by lot" in power.meaning
        assert "a difference of AUC 0.65" in power.meaning
    shops = dict(zip(sorted({shop for _, shop, _ in drawn}), halves(12), strict=False))
    assert by_provider(corpus(drawn, [False] * 24, "by-provider"), shops).confounded is None
    assert "providers were not" in by_provider(corpus(drawn, [False] * 24), shops).confounded


def test_hardly_any_units_leave_the_measurement_unresolved():
    for n, member in ((0, []), (1, [True]), (8, [True] * 4 + [False] * 4), (20, [True] * 20)):
        blind = by_document(corpus(receipts(n), member))
        assert isinstance(blind.estimate, Unresolved)
        assert diagnostics(blind) == {"blind_power": 0.0}
        assert blind.confounded is None
        assert "blind check is too weak" in blind.diagnostics[0].meaning
        assert by_document(corpus(receipts(n), member, "by-date")).confounded is not None


def test_documents_that_are_all_alike_leave_the_measurement_unresolved():
    words = receipts(1)[0]
    for assigned in ("random", "official"):
        blind = by_document(corpus([words] * 60, halves(60), assigned))
        assert isinstance(blind.estimate, Unresolved)
        assert blind.estimate.reason == "the documents do not differ in any tested feature"
        assert diagnostics(blind) == {"blind_power": 0.0}
        said = blind.diagnostics[0].meaning if assigned == "random" else blind.confounded
        assert "too weak" in said
        assert "do not differ in any tested feature" in said
        assert (blind.confounded is None) == (assigned == "random")


def test_the_check_is_the_same_whatever_order_documents_come_in():
    whole = corpus(receipts(80), halves(80))
    order = np.random.default_rng(1).permutation(80)
    documents = [whole.documents[place] for place in order]
    again = blind_baseline.by_document(
        whole, documents, [document.split == "member" for document in documents]
    )
    assert again == by_document(whole)


def test_pages_of_one_source_are_one_unit_where_no_split_divides_them(tmp_path):
    """Pages of one source are alike.

    Drawn together, they would look like a difference between the splits.
    """
    rng = np.random.default_rng(3)
    drawn = [
        (day, shop, (*words, *(Word(f"letterhead{source}{part}") for part in "abcdef")))
        for source in range(60)
        for day, shop, words in receipts(3, seed=source + 100)
    ]
    names = [f"source{place // 3:02d}_{place % 3}" for place in range(180)]
    together = np.repeat(rng.permutation(60) < 30, 3)
    found = by_document(corpus(drawn, together, names=names))
    assert found.estimate.n == 60
    assert not found.told_apart
    # With names that do not say so, the same pages are taken for documents drawn one by one.
    assert by_document(corpus(drawn, together)).told_apart
    # Divided sources: each page was drawn by itself, as were documents of one series.
    assert by_document(corpus(drawn, halves(180), names=names)).estimate.n == 180
    series = [
        f"series{place:03d}-{place}" if place < 90 else f"scan_{place}" for place in range(180)
    ]
    assert by_document(corpus(drawn, np.arange(180) >= 90, names=series)).estimate.n == 180


def test_equal_images_are_one_unit_where_no_split_divides_them(tmp_path):
    for scan in range(20):
        Image.effect_noise((40, 50), 50 + scan).save(tmp_path / f"{scan}.png")
    drawn = receipts(40)
    images = [f"{place % 20}.png" for place in range(40)]
    member = np.tile(halves(20), 2)
    assert by_document(corpus(drawn, member, root=tmp_path, images=images)).estimate.n == 20
    assert by_document(corpus(drawn, halves(40), root=tmp_path, images=images)).estimate.n == 40


def test_documents_by_provider_are_compared_within_providers():
    """Providers that look like nobody else, with equal numbers of documents on both sides, give nothing away."""
    drawn = [
        (day, f"Shop {place // 4}", (*words, Word(f"brand{place // 4}")))
        for place, (day, _, words) in enumerate(receipts(160))
    ]
    rng = np.random.default_rng(2)
    member = np.concatenate([halves(4, int(seed)) for seed in rng.integers(0, 1000, 40)])
    found = by_document(corpus(drawn, member, "by-provider"))
    assert not found.told_apart
    assert found.estimate.null == pytest.approx(0.53, abs=0.02)
    middle = [
        day >= sorted(day for day, _, _ in drawn[4 * (place // 4) : 4 * (place // 4) + 4])[2]
        for place, (day, _, _) in enumerate(drawn)
    ]
    assert TELLING in by_document(corpus(drawn, middle, "by-provider")).checks[0].reason


def test_large_data_sets_are_checked_on_a_sample(monkeypatch):
    monkeypatch.setattr(blind_baseline, "MAX_UNITS", 30)
    monkeypatch.setattr(blind_baseline, "MAX_DOCUMENTS", 2)
    progress = ProgressLog()
    drawn = receipts(300, n_shops=100)
    whole = corpus(drawn, np.arange(300) < 250)
    found = blind_baseline.by_document(whole, whole.documents, np.arange(300) < 250, progress)
    assert (found.estimate.n, (sum(total for _, total in progress.stages), progress.steps)) == (
        60,
        (60, 60),
    )
    shops = sorted({shop for _, shop, _ in drawn})
    assert (
        by_provider(whole, dict.fromkeys(shops, False) | dict.fromkeys(shops[:40], True)).estimate.n
        == 60
    )


def test_a_provider_on_both_sides_is_refused():
    whole = corpus(receipts(60), halves(60))
    names = [document.provider for document in whole.documents]
    with pytest.raises(ValueError, match="constant within a unit"):
        blind_baseline.by_document(whole, whole.documents, halves(60), providers=names)


def test_no_text_or_name_of_a_document_is_told():
    drawn = receipts(100, words=("Secretword",))
    named = [
        (day, shop, words if own else words[:-1])
        for own, (day, shop, words) in zip(halves(100), drawn, strict=True)
    ]
    blind = by_document(corpus(named, halves(100)))
    assert blind.told_apart
    assert "ecretword" not in repr(blind)
    assert "Shop" not in repr(blind)


def test_questions_tell_documents_apart_too():
    whole = corpus(receipts(100), halves(100))
    documents = tuple(
        Document(
            d.id,
            d.split,
            d.words,
            questions=(Question("q", "What?" if d.split == "member" else "Who?", ("x",)),),
        )
        for d in whole.documents
    )
    asked = Corpus(None, whole.manifest, documents, "0" * 64)
    assert "by how much they hold" in by_document(asked).checks[0].reason


@pytest.mark.real
def test_real_receipts_split_by_year_are_caught_and_split_at_random_are_not(tmp_path):
    folder = REPOSITORY.parent / "shared" / "data" / "sroie"
    if not folder.is_dir():
        pytest.skip(f"the real corpora are not at {folder}")
    sroie.convert(ImportRequest(folder, tmp_path / "data", {"member": 0.2, "heldout": 0.2}, seed=7))
    whole = load(tmp_path / "data")
    assert not by_document(whole).told_apart
    dated = [
        (document, year)
        for document in whole.documents
        for entity in document.entities
        if entity.label == "DATE"
        and (
            year := next((y for y in ("2016", "2017", "2018") if y in document.text_of(entity)), "")
        )
    ]
    blind = blind_baseline.by_document(
        whole, [d for d, _ in dated], [year == "2018" for _, year in dated]
    )
    assert blind.told_apart
    assert TELLING in blind.checks[0].reason
    assert blind.estimate.low > 0.8


def test_the_same_documents_are_described_once_however_many_attacks_compare_them(monkeypatch):
    described = []
    original = blind_baseline.describe
    monkeypatch.setattr(
        blind_baseline, "describe", lambda *args: described.append(1) or original(*args)
    )
    data = corpus(receipts(80), halves(80))
    members = [document.split == "member" for document in data.documents]
    first = blind_baseline.by_document(data, data.documents, members)
    assert blind_baseline.by_document(data, data.documents, members) is first
    assert len(described) == 1
    blind_baseline.by_document(data, data.documents[1:], members[1:])
    blind_baseline.by_document(replace(data), data.documents, members)
    blind_baseline.by_document(data, data.documents, [not member for member in members])
    assert len(described) == 4
