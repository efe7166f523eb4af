"""Splits by provider: drawn at random, in and out disjoint, what is kept aside the same whether a provider is in."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from commands import docaudit
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from audit.corpus import manifest as manifests
from audit.corpus.documents import SPLITS, Corpus, Document, Split
from audit.corpus.folding import fold
from audit.corpus.summary import asked_providers
from audit.errors import UsageError
from audit.importers.divide import divide_by_provider
from audit.stats.intervals import join_groups

SHARES: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
Sources = tuple[tuple[tuple[str, ...], ...], dict[str, str | None]]


class Drawn(NamedTuple):
    splits: dict[str, Split]
    notes: dict[str, int]


def singles(sizes: Mapping[str, int]) -> Sources:
    """Documents on their own, so many of each provider."""
    providers: dict[str, str | None] = {
        f"{name}.{i}": name for name, size in sizes.items() for i in range(size)
    }
    return tuple((document,) for document in providers), providers


def even(n_providers: int, size: int) -> Sources:
    return singles({f"shop {i:03}": size for i in range(n_providers)})


def divided(found: Sources, shares: Mapping[Split, float] = SHARES, seed: int = 0) -> Drawn:
    return Drawn(*divide_by_provider(*found, shares, seed))


def by_name(found: Sources, splits: Mapping[str, Split]) -> dict[str, Counter[Split]]:
    """How many documents of each provider are in each split."""
    counts: dict[str, Counter[Split]] = defaultdict(Counter)
    for document, split in splits.items():
        name = found[1][document]
        assert name is not None
        counts[fold(name)][split] += 1
    return counts


@st.composite
def sources(draw: st.DrawFn) -> Sources:
    """Documents of six to ten providers or of none, spelled in several ways, some documents like another."""
    spellings = st.sampled_from(["Shop {}", "SHOP {}", " shop{}"])
    sizes = draw(st.lists(st.integers(2, 6), min_size=6, max_size=9)) + draw(
        st.lists(st.just(1), max_size=4)
    )
    names: list[str | None] = [
        draw(spellings).format(i) for i, size in enumerate(sizes) for _ in range(size)
    ]
    names += draw(st.lists(st.none(), max_size=3))
    providers: dict[str, str | None] = {f"d{i:02}": name for i, name in enumerate(names)}
    pairs = draw(st.lists(st.tuples(*[st.integers(0, len(names) - 1)] * 2), max_size=4))
    alike = [[f"d{a:02}", f"d{b:02}"] for a, b in pairs]
    return join_groups([*([document] for document in providers), *alike]), providers


shares_by_provider = st.sampled_from(
    [(0.4, 0.4, 0.2), (0.5, 0.5, 0.0), (0.3, 0.3, 0.4), (0.6, 0.2, 0.2), (0.2, 0.3, 0.0)]
).map(lambda shares: dict(zip(SPLITS, shares, strict=True)))


@given(sources(), shares_by_provider, st.integers(0, 3))
def test_what_every_division_keeps(found: Sources, shares: dict[Split, float], seed: int) -> None:
    groups, providers = found
    try:
        drawn = divided(found, shares, seed)
    except UsageError:
        assume(False)
    counts = by_name(found, drawn.splits)
    inside = {name for name, count in counts.items() if count["member"]}
    outside = {name for name, count in counts.items() if count["heldout"]} - inside
    assert (len(inside), len(outside)) == (
        drawn.notes["providers in"],
        drawn.notes["providers out"],
    )
    own = defaultdict(list)
    for group in groups:
        names = {fold(name) for document in group if (name := providers[document]) is not None}
        if len(names) == 1:
            own[names.pop()].append(
                [document for document in group if providers[document] is not None]
            )
        assert (
            len({drawn.splits[d] for d in group if d in drawn.splits}) <= 1
        )  # what is alike is in one split
        if len(names) > 1:
            assert not any(document in drawn.splits for document in group)
    for name in inside | outside:
        aside = [group for group in own[name] if drawn.splits.get(group[0]) == "heldout"]
        assert len(aside) == len(own[name]) // 2  # by its size alone, in or out
        assert set(counts[name]) == ({"member", "heldout"} if name in inside else {"heldout"})
        if name in inside:
            assert all(document in drawn.splits for group in own[name] for document in group)
    for name in counts.keys() - inside - outside:
        assert set(counts[name]) == {"public"}
    assert not any(document in drawn.splits for document, name in providers.items() if name is None)
    if not shares["public"]:
        assert "public" not in drawn.splits.values()


@given(st.integers(2, 60), st.integers(0, 60), shares_by_provider, st.integers(0, 3))
def test_shares_are_met_within_one_provider(
    usable: int, alone: int, shares: dict[Split, float], seed: int
) -> None:
    found = singles({f"u{i}": 2 for i in range(usable)} | {f"s{i}": 1 for i in range(alone)})
    try:
        notes = divided(found, shares, seed).notes
    except UsageError:
        assert min(shares["member"], shares["heldout"]) * usable < 1  # too few to have one of each
        return
    n_in, n_out, n_public = (notes[f"providers {name}"] for name in ("in", "out", "public"))
    everyone = usable + alone
    if alone <= shares["public"] * everyone:
        exact = [shares[split] * everyone for split in SPLITS]
    else:  # nobody usable is given to public, and the others share in their proportion
        scale = usable / (1 - shares["public"])
        exact = [
            shares["member"] * scale,
            shares["heldout"] * scale,
            alone if shares["public"] else 0,
        ]
    assert np.all(np.abs(np.array([n_in, n_out, n_public]) - exact) < 1 + 1e-9)
    assert n_in + n_out + n_public + notes["providers left out"] == everyone


def test_the_seed_decides_and_the_order_of_input_does_not() -> None:
    groups, providers = singles({f"shop {i}": 2 + i % 5 for i in range(40)})
    shuffled = list(groups)
    random.Random(3).shuffle(shuffled)
    turned = (tuple(shuffled), dict(reversed(providers.items())))
    assert divided((groups, providers), seed=7) == divided(turned, seed=7)
    assert (
        divided((groups, providers), seed=7).splits != divided((groups, providers), seed=8).splits
    )
    assert divided((groups, providers), dict(reversed(SHARES.items())), 7) == divided(
        (groups, providers), seed=7
    )


def test_the_same_documents_are_kept_aside_whether_a_provider_is_in_or_out() -> None:
    found = singles({f"shop {i}": 2 + i % 7 for i in range(60)})
    many_in = divided(found, {"member": 0.8, "heldout": 0.2}).splits
    many_out = divided(found, {"member": 0.2, "heldout": 0.8}).splits
    moved = {name for name, count in by_name(found, many_in).items() if count["member"]} - {
        name for name, count in by_name(found, many_out).items() if count["member"]
    }
    assert len(moved) == 36
    assert {d for d, split in many_in.items() if split == "heldout"} == {
        d for d, split in many_out.items() if split == "heldout"
    }


def test_every_provider_is_in_and_every_document_kept_aside_equally_often() -> None:
    found = singles({"a": 2, "b": 2, "c": 3, "d": 6, "e": 9, "f": 9})
    inside: Counter[str] = Counter()
    aside: Counter[str] = Counter()
    n = 800
    for seed in range(n):
        splits = divided(found, {"member": 0.5, "heldout": 0.5}, seed).splits
        inside.update(name for name, count in by_name(found, splits).items() if count["member"])
        aside.update(document for document, split in splits.items() if split == "heldout")
    error = 4.5 * np.sqrt(0.25 / n)
    assert all(abs(inside[name] / n - 0.5) < error for name in "abcdef")
    for document, name in found[1].items():
        rate = {"a": 1 / 2, "b": 1 / 2, "c": 1 / 3, "d": 1 / 2, "e": 4 / 9, "f": 4 / 9}[str(name)]
        assert abs(aside[document] / n - rate) < error


def test_a_page_of_two_providers_is_nobodys() -> None:
    """Two providers hand in the same image; a third hands in one that nobody signed, too."""
    groups, providers = singles({"a": 3, "b": 3, "c": 3})
    providers |= {"x": None}
    groups = join_groups([*groups, ("a.0", "b.0"), ("c.0", "x")])
    drawn = divided((groups, providers))
    assert drawn.notes["documents that belong to two providers, in no split"] == 2
    assert drawn.notes["documents without a provider, in no split"] == 1
    assert not {"a.0", "b.0", "x"} & drawn.splits.keys()


def test_two_copies_of_one_page_do_not_make_a_provider_usable() -> None:
    groups, providers = singles({"a": 2, "b": 2, "copies": 2})
    drawn = divided((join_groups([*groups, ("copies.0", "copies.1")]), providers))
    assert (
        drawn.notes["unusable providers (fewer than two different documents; public or left out)"]
        == 1
    )
    assert drawn.splits["copies.0"] == drawn.splits["copies.1"] == "public"


MANY = singles({f"shop {i}": 1 for i in range(9)})


@pytest.mark.parametrize(
    ("sources", "shares", "message"),
    [
        pytest.param(
            singles({"only": 9}),
            SHARES,
            "1 of 1 providers have two different documents or more: one must be in",
            id="one provider of nine copies",
        ),
        pytest.param(
            MANY,
            SHARES,
            "0 of 9 providers have two different documents or more",
            id="providers of one document each",
        ),
        pytest.param(
            singles({"Shop": 1, "SHOP": 1, "s hop": 1}),
            SHARES,
            "1 of 1 providers have two different documents or more",
            id="one provider in three spellings",
        ),
        pytest.param(
            ((("a",), ("b",)), {"a": None, "b": None}),
            SHARES,
            "no document names a provider",
            id="two documents without a provider",
        ),
        pytest.param(((), {}), SHARES, "no document names a provider", id="no documents"),
        pytest.param(
            even(4, 2),
            {"member": 0.9, "heldout": 0.1},
            "make 4 of 4 providers in and 0 out: at least one of each",
            id="nobody would be out",
        ),
        pytest.param(
            even(4, 2),
            {"member": 0.5, "public": 0.5},
            "needs providers in and providers out",
            id="no held-out share",
        ),
        pytest.param(
            even(4, 2),
            {"member": 0.0, "heldout": 0.5},
            "needs providers in and providers out",
            id="no member share",
        ),
        pytest.param(
            even(4, 2), {"member": 0.7, "heldout": 0.7}, "sum to 1.4", id="shares over one"
        ),
    ],
)
def test_what_cannot_be_divided_by_provider(
    sources: Sources, shares: dict[Split, float], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        divided(sources, shares)
    assert len(refused.value.problems) == 1
    assert refused.value.hint or "sum to" in message


# The importers


def receipts(src: Path, companies: list[str | None]) -> Path:
    """SROIE's folders with a receipt for each company, every picture another."""
    for folder in ("img", "box", "key"):
        (src / folder).mkdir(parents=True)
    for number, company in enumerate(companies):
        Image.new("L", (40, 20 + number), 255).save(src / "img" / f"{number:03}.png")
        (src / "box" / f"{number:03}.csv").write_text(
            f"1,1,39,1,39,9,1,9,{company or 'TILL'} {number}.00\n"
        )
        values = {"total": f"{number}.00"} | ({"company": company} if company else {})
        (src / "key" / f"{number:03}.json").write_text(json.dumps(values))
    return src


def imported(*arguments: object) -> tuple[str, int]:
    result = docaudit("import", *arguments)
    return " ".join(result.output.split()), result.exit_code


def splits_of(documents: tuple[Document, ...]) -> dict[str, set[Split]]:
    found: dict[str, set[Split]] = defaultdict(set)
    for document in documents:
        assert document.provider is not None
        found[fold(document.provider)].add(document.split)
    return found


def checked(corpus: Corpus) -> None:
    assert corpus.manifest.membership.assigned == "by-provider"
    assert {frozenset(found) for found in splits_of(corpus.documents).values()} <= {
        frozenset({"member", "heldout"}),
        frozenset({"heldout"}),
        frozenset({"public"}),
    }


def test_receipts_by_company_from_the_command_line(tmp_path: Path) -> None:
    companies: list[str | None] = [
        *["Red Shop"] * 4,
        "RED SHOP",
        *["Blue"] * 4,
        *["Green"] * 2,
        "Green!",
        None,
    ]
    src = receipts(tmp_path / "src", companies)
    output, code = imported(
        "sroie", src, tmp_path / "out", "--by-provider", "--task", "question-answering"
    )
    assert code == 0, output
    corpus = manifests.load(tmp_path / "out")
    checked(corpus)
    for told in (
        *("providers in: 2", "providers out: 1", "providers public: 1"),
        "unusable providers (fewer than two different documents; public or left out): 1",
        "documents without a provider, in no split: 1",
    ):
        assert told in output
    asked = asked_providers(corpus)
    assert (asked.n_in, asked.n_out, asked.unasked, asked.also_public) == (2, 1, 0, 0)
    assert corpus.manifest.membership.drawn_by == "docaudit import"


@pytest.mark.parametrize(
    ("options", "companies", "message"),
    [
        pytest.param(
            ("--by-provider", "--members", "x"),
            (),
            "--members and --by-provider say in several ways which documents",
            id="two ways to say who is in",
        ),
        pytest.param(
            ("--by-provider", "--heldout", "0"),
            (),
            "needs providers in and providers out",
            id="nobody held out",
        ),
        pytest.param(
            ("--by-provider",),
            (None, None),
            "no document names a provider",
            id="no document names a provider",
        ),
    ],
)
def test_refused_in_one_line(
    options: list[str], companies: list[str | None], message: str, tmp_path: Path
) -> None:
    output, code = imported(
        "sroie", receipts(tmp_path / "src", companies), tmp_path / "out", *options
    )
    assert (code, output.count("error:")) == (2, 1)
    assert message in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["src"]
