"""Units: whoever is protected, and that nobody's presence changes what others are."""

import dp_toy as toy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import ManifestError
from audit.extensions.private.units import Unit, draw_samples, kind_of, units_of


def made(*owners: str | None):
    return [toy.document(f"d{i}", float(i), 0.0, owner) for i, owner in enumerate(owners)]


def names(units) -> list[list[str]]:
    return [[document.id for document in unit.documents] for unit in units]


def test_a_document_is_a_unit_and_its_copies_are_in_it() -> None:
    documents = [*made(None, None, None), toy.document("copy", 1.0, 0.0)]
    assert names(units_of(toy.corpus(documents), documents, "document")) == [
        ["d0"],
        ["d1", "copy"],
        ["d2"],
    ]


def test_a_provider_is_a_unit_with_all_its_documents_however_it_is_spelt() -> None:
    documents = made("Acme Ltd", "bolt", "ACME LTD", "Coil")
    assert names(units_of(toy.corpus(documents), documents, "provider")) == [
        ["d0", "d2"],
        ["d1"],
        ["d3"],
    ]


def test_providers_that_share_pages_keep_them_all_so_that_nobody_changes_when_one_leaves() -> None:
    documents = [
        *made("acme", "bolt", "coil"),
        toy.document("bolt's copy", 0.0, 0.0, "bolt"),
        toy.document("coil's copy", 0.0, 0.0, "coil"),
        toy.document("acme's own copy", 0.0, 0.0, "acme"),
    ]
    corpus = toy.corpus(documents)
    units = units_of(corpus, documents, "provider")
    assert names(units) == [["d0", "acme's own copy"], ["d1", "bolt's copy"], ["d2", "coil's copy"]]
    for gone in units:
        others = [document for document in documents if document not in gone.documents]
        assert names(units_of(corpus, others, "provider")) == names(
            unit for unit in units if unit is not gone
        )


@pytest.mark.parametrize(
    ("owners", "kind", "message"),
    [
        pytest.param(
            ("acme", None, "bolt", " "),
            "provider",
            "2 training documents name no provider",
            id="documents without a provider",
        ),
        pytest.param(
            ("acme", "bolt; coil"),
            "provider",
            "1 training documents name several providers",
            id="a document of two providers",
        ),
        pytest.param(("acme", "acme"), "provider", "1 provider to train on", id="one provider"),
        pytest.param((None,), "document", "1 document to train on", id="one document"),
        pytest.param((), "document", "0 documents to train on", id="no document"),
    ],
)
def test_documents_that_make_no_units_are_refused(owners, kind, message: str) -> None:
    documents = made(*owners)
    with pytest.raises(ManifestError, match=message) as raised:
        units_of(toy.corpus(documents), documents, kind)
    assert raised.value.hint


def test_the_provider_is_the_unit_where_every_document_names_one() -> None:
    assert (kind_of(made("a", "b")), kind_of(made("a", None))) == ("provider", "document")
    assert (kind_of([]), kind_of(made("a", "b"), "document")) == ("document", "document")


@given(
    st.lists(st.sampled_from("abcde"), min_size=2, max_size=30),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_bounded_units_hold_no_more_and_do_not_depend_on_who_else_is_there(
    owners, most, seed
) -> None:
    documents = made(*owners)
    if len(set(owners)) < 3:
        return
    corpus = toy.corpus(documents)
    units = units_of(corpus, documents, "provider", per_unit=most, seed=seed)
    assert all(len(unit.documents) == min(most, owners.count(unit.name)) for unit in units)
    held = [document.id for unit in units for document in unit.documents]
    assert len(held) == len(set(held))
    gone = units[0].name
    others = [document for document in documents if document.provider != gone]
    assert names(units_of(corpus, others, "provider", per_unit=most, seed=seed)) == names(units[1:])


class Masked(toy.ToyLearner):
    """Two samples of every document but the first, each with a random number."""

    def samples_of(self, document, rng):
        return (
            ()
            if document.id == "d0"
            else tuple(rng.random() for _ in range(1 + int(document.id[1:]) % 2))
        )


def test_samples_are_weighted_by_documents_and_drawn_from_the_unit_and_the_step_alone() -> None:
    unit = Unit("u", tuple(made("u", "u", "u")))
    drawn = draw_samples(Masked(), unit, 3, 0)
    assert drawn is not None
    assert (drawn.weights, sum(drawn.weights)) == (
        pytest.approx((0.25, 0.25, 0.5)),
        pytest.approx(1),
    )
    assert draw_samples(Masked(), unit, 3, 0).samples == drawn.samples
    assert draw_samples(Masked(), unit, 4, 0).samples != drawn.samples
    assert draw_samples(Masked(), Unit("v", unit.documents), 3, 0).samples != drawn.samples
    assert draw_samples(Masked(), Unit("u", tuple(made("u"))), 0, 0) is None
    assert np.isfinite(drawn.samples).all()
