"""Where attribute inference picked the true value, and whose values these are."""

from collections.abc import Sequence

import numpy as np

from audit.attacks import people
from audit.attacks.attributes.hidden import Hidden
from audit.attacks.attributes.measures import CALIBRATED, METHODS, AttributeTable, named
from audit.attacks.breakdown import OTHER_KIND, MethodHits, Traits, Tried, break_down, position_of
from audit.corpus.documents import CATEGORIES, Corpus
from audit.corpus.folding import fold, occurrences, places_of
from audit.measurements import Breakdown, PeopleCount


def groups_of_values(
    corpus: Corpus, values: Sequence[Hidden], table: AttributeTable
) -> tuple[tuple[Breakdown, ...], tuple[PeopleCount, ...]]:
    """Divide the values that were asked about by kind, copies, length and place, and count people.

    Args:
        corpus: the data set.
        values: values that were asked about.
        table: the same values, in the same order.
    """
    counted = table.rows("unique")
    methods = []
    for method in METHODS:
        if method == CALIBRATED and not table.calibrated.any():
            continue
        ending = named("", method)
        everything = np.ones(len(values), bool)
        methods.append(MethodHits(ending, table.chosen[method], counted, everything))
    traits = [_traits_of(corpus, value) for value in values]
    tried = Tried(traits, table.member, table.cluster, "values")
    owned = [_owned_value(corpus, value) for value in values]
    return break_down(tried, methods), people.count_returned(corpus, owned, methods)


def _traits_of(corpus: Corpus, value: Hidden) -> Traits:
    """Return what is known of a value without its text."""
    category = OTHER_KIND
    if value.category in CATEGORIES:
        category = value.category
    document = value.document
    words = _words_of(value)
    folded = fold(value.text)
    holders = occurrences(corpus).get(folded)
    copies = 1
    if holders is not None:
        copies = holders.anywhere[document.split]
    return Traits(category, copies, len(folded), position_of(document, words))


def _words_of(value: Hidden) -> Sequence[int]:
    """Return the words of a page that a value stands in first; empty where it stands in none."""
    places = places_of(value.text, value.document.words)
    if not places:
        return ()
    first, last = places[0]
    return range(first, last + 1)


def _owned_value(corpus: Corpus, value: Hidden) -> people.OwnedValue:
    """Return a value with whose it is."""
    document = value.document
    everybody = people.people_of(corpus)
    owner = None
    for entity in document.entities:
        if entity.id == value.name:
            owner = everybody.owner_of(document, entity)
    for question in document.questions:
        if question.id == value.name:
            owner = everybody.owner_of_answer(document, question)
    return people.OwnedValue(fold(value.text), owner, value.unique)
