"""`audit.corpus.summary`: counts of a data set whose numbers are known by hand."""

import dataclasses
import math
from pathlib import Path

from PIL import Image

from audit.corpus import documents as docs
from audit.corpus import manifest as manifests
from audit.corpus.summary import (
    MAX_HALF_WIDTH,
    MIN_PUBLIC,
    AskedProviders,
    Summary,
    card,
    summarise,
)

LABELS = ("O", "B-NAME", "I-NAME", "B-TOTAL")


def receipt(name: str, split: str, shop: str, total: str, gray: int | None = None) -> docs.Document:
    words = tuple(docs.Word(text) for text in (*shop.split(), total))
    n = len(words)
    entities = (
        docs.Entity("n", "NAME", "organization", tuple(range(n - 1))),
        docs.Entity("t", "TOTAL", "amount", (n - 1,), attack=split != "public"),
    )
    image = None if gray is None else f"{gray}-{name}.png"
    return docs.Document(name, split, words, image=image, provider=shop, entities=entities)  # type: ignore[arg-type]


def summary_of(
    folder: Path,
    documents: list[docs.Document],
    references: docs.ReferencePaths | None = None,
    assigned: docs.Assignment = "random",
) -> Summary:
    manifest = docs.Manifest(
        1,
        "receipts",
        docs.Task("token-classification", LABELS),
        docs.Membership(assigned),
        references=references or docs.ReferencePaths(),
    )
    manifests.write(folder, manifest, documents)
    for document in documents:
        if document.image is not None:
            Image.new("L", (8, 8), int(document.image.split("-")[0])).save(folder / document.image)
    return summarise(manifests.load(folder))


def test_counts(tmp_path: Path) -> None:
    receipts = [
        receipt(name, "member", "Red Shop", price, gray=1)
        for name, price in (("a", "1.00"), ("b", "2.00"))
    ]
    receipts += [
        receipt("c", "member", "RED SHOP", "3.00"),
        receipt("d", "heldout", "Red Shop", "4.00", gray=1),
    ]
    receipts += [
        receipt("e", "heldout", "Blue Shop Ltd", "1.00", gray=2),
        receipt("f", "public", "Green", "9.00", gray=3),
    ]
    summary = summary_of(tmp_path, receipts)
    assert {name: tuple(counts.values()) for name, counts in summary.counts.items()} == {
        "documents": (3, 2, 1),
        "with an image": (2, 2, 1),
        "with boxes of words": (0, 0, 0),
        "providers": (1, 2, 1),  # RED SHOP is one
        **dict.fromkeys(("questions", "answers among the page's words"), (0, 0, 0)),
        "copies of another split's, left out": (0, 0, 0),
    }
    assert list(summary.categories) == ["organization", "amount"]
    names = summary.categories["organization"]
    totals = summary.categories["amount"]
    assert names.fields == names.attacked == {"member": 3, "heldout": 2, "public": 1}
    assert (totals.attacked, (names.values, names.unique)) == (
        {"member": 3, "heldout": 2, "public": 0},
        (3, 2),
    )
    assert (totals.values, totals.unique) == (5, 4)
    assert summary.asked_providers == AskedProviders(n_in=1, n_out=1, unasked=0, also_public=0)


def has(summary: Summary, words: str) -> bool:
    return any(words in warning for warning in summary.warnings)


def test_warnings_on_a_small_data_set(tmp_path: Path) -> None:
    documents = [
        receipt("a", "member", "Red Shop", "1.00", gray=1),
        receipt("b", "heldout", "RED SHOP", "1.00", gray=1),
    ]
    summary = summary_of(tmp_path, documents)
    for words in (
        "1 training and 1 unseen documents. With under 150 of either",
        "No public split",
        "names no reference model",
        "1 providers that are in and 0 that are out have unseen documents: whether a provider was trained on can be",
        "4 of 4 fields have a value that occurs in another document",
    ):
        assert has(summary, words), words
    assert has(summary, f"Membership needs {MIN_PUBLIC} public documents")
    few = [*documents, *sold("public", "Gold", "Silver")]
    assert has(
        summary_of(tmp_path / "few public", few),
        f"The public split holds 2. Membership needs {MIN_PUBLIC}",
    )
    enough = [*documents, *sold("public", *(f"Shop {number}" for number in range(MIN_PUBLIC)))]
    assert not has(summary_of(tmp_path / "enough public", enough), "Membership needs")
    assert has(summary_of(tmp_path / "alone", documents[:1]), "No unseen document (split heldout)")
    hidden = [dataclasses.replace(e, attack=False) for e in documents[0].entities]
    documents[0] = dataclasses.replace(documents[0], entities=tuple(hidden))
    assert has(
        summary_of(tmp_path / "unmarked", documents),
        "No field of a member document is marked for attack",
    )


def sold(split: str, *shops: str) -> list[docs.Document]:
    return [receipt(f"{split}{i}", split, shop, f"{i}.00") for i, shop in enumerate(shops)]


def test_providers_that_can_be_asked_after(tmp_path: Path) -> None:
    pages = [
        *sold("member", "Red", "red", "R e d", "Blue", "Green", "Grey"),
        *sold("heldout", "RED", "Blue", "Black", "White", "Gold"),
        *sold("public", "Gold", "Grey", "Silver"),
    ]
    summary = summary_of(tmp_path / "random", pages)
    assert summary.asked_providers == AskedProviders(n_in=2, n_out=3, unasked=2, also_public=1)
    known = "2 providers that are in and 3 that are out have unseen documents: balanced accuracy over so few is known"
    assert has(summary, f"{known} to 45 points")  # 1.96 * sqrt((0.25 / 2 + 0.25 / 3) / 4)
    assert not has(summary, "cannot be asked after")  # of a random division nobody expects it
    assert not has(summary, "have public ones too")
    summary = summary_of(tmp_path / "by provider", pages, assigned="by-provider")
    assert has(
        summary, "2 providers that are in have no held-out document and cannot be asked after"
    )
    assert has(summary, "1 providers with unseen documents have public ones too")


def test_few_providers_are_warned_of_and_many_are_not(tmp_path: Path) -> None:
    assert AskedProviders(192, 192, 0, 0).half_width > MAX_HALF_WIDTH - 1e-4
    assert AskedProviders(193, 193, 0, 0).half_width < MAX_HALF_WIDTH
    assert AskedProviders(0, 400, 0, 0).half_width == math.inf
    pages = [
        *sold("member", *(f"In {i}" for i in range(193))),
        *sold("heldout", *(f"In {i}" for i in range(193))),
    ]
    pages += [
        dataclasses.replace(page, id=f"out {page.id}")
        for page in sold("heldout", *(f"Out {i}" for i in range(193)))
    ]
    assert not has(summary_of(tmp_path, pages, assigned="by-provider"), "provider")


def test_pages_of_training_without_a_provider_are_warned_of(tmp_path: Path) -> None:
    pages = [*sold("member", "Red"), *sold("heldout", "Red", "Blue")]
    unnamed = [
        dataclasses.replace(page, id=f"unnamed {page.id}", provider=None)
        for page in sold("member", "X", "Y")
    ]
    assert has(
        summary_of(tmp_path, [*pages, *unnamed]),
        "2 training documents name no provider. One that counts",
    )
    assert not has(summary_of(tmp_path, pages), "name no provider")


def test_the_card_counts_a_provider_once_however_it_is_cased(tmp_path: Path) -> None:
    pages = [*sold("member", "Red", "RED"), *sold("heldout", "Blue"), docs.Document("x", "public")]
    summary_of(tmp_path, pages)
    assert card(manifests.load(tmp_path)).providers == 2


def test_questions_are_counted_and_answers_that_stand_nowhere_are_named(tmp_path: Path) -> None:
    def page(name: str, split: str, *answers: str, image: bool = False) -> docs.Document:
        asked = tuple(
            docs.Question(f"q{i}", f"What {i}?", ("other", answer))
            for i, answer in enumerate(answers)
        )
        base = receipt(name, split, "Red Shop", "1.00", gray=int(name) if image else None)
        return dataclasses.replace(base, questions=asked)

    pages = [page("1", "member", "RED shop", "1.0", "Shop 1.00", image=True), page("2", "member")]
    pages += [page("3", "heldout", "Red"), page("4", "public")]
    manifest = docs.Manifest(
        1, "receipts", docs.Task("question-answering"), docs.Membership("random")
    )
    manifests.write(tmp_path, manifest, pages)
    Image.new("L", (8, 8), 1).save(tmp_path / "1-1.png")
    summary = summarise(manifests.load(tmp_path))
    assert [*summary.counts["questions"].values()] == [3, 1, 0]
    assert [*summary.counts["answers among the page's words"].values()] == [2, 1, 0]
    assert has(
        summary,
        "1 of 3 questions on member pages have no accepted answer as whole words of their page",
    )
    assert not has(summary, "held-out page")
    assert not has(summary, "to reconstruct")
    pages = [
        dataclasses.replace(pages[0], questions=pages[0].questions[:1]),
        *pages[1:2],
        page("3", "heldout"),
    ]
    manifests.write(tmp_path, manifest, pages)
    summary = summarise(manifests.load(tmp_path))
    assert has(summary, "No question is asked on a held-out page")
    assert not has(summary, "no accepted answer")


def test_a_sufficient_data_set_has_no_warning(tmp_path: Path) -> None:
    names = [f"{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300 + MIN_PUBLIC)]
    splits = ["member"] * 150 + ["heldout"] * 150 + ["public"] * MIN_PUBLIC
    documents = [
        dataclasses.replace(receipt(name, split, f"Shop {name}", f"{i}.99"), provider=None)
        for i, (name, split) in enumerate(zip(names, splits, strict=True))
    ]
    assert (
        summary_of(
            tmp_path, documents, docs.ReferencePaths(pretrained="references/pretrained")
        ).warnings
        == ()
    )


def test_no_text_of_the_data_set_stands_in_the_summary(tmp_path: Path) -> None:
    documents = [
        receipt(f"id{i}secret", "member", "Secret Shop", "7777.77", gray=5) for i in range(2)
    ]
    drawn = repr(summary_of(tmp_path, documents))
    assert "ecret" not in drawn
    assert "7777" not in drawn


def test_a_data_set_without_fields_or_words(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, [docs.Document("a", "member")])
    assert summary.categories == {}
