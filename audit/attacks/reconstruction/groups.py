"""Where the reconstruction attack found values, and whose they are."""

from collections.abc import Sequence

import numpy as np

from audit.attacks import people
from audit.attacks.breakdown import MethodHits, Traits, Tried, break_down, position_of
from audit.attacks.fields import Field
from audit.attacks.measuring import NEAR
from audit.attacks.reconstruction.table import METHODS, FieldTable, named
from audit.case import Case
from audit.corpus.folding import fold, occurrences
from audit.measurements import Breakdown, PeopleCount


def groups_of_fields(
    case: Case, fields: Sequence[Field], table: FieldTable
) -> tuple[tuple[Breakdown, ...], tuple[PeopleCount, ...]]:
    """Divide the fields of usual length by kind, copies, length and place, and count people.

    Args:
        case: what was attacked.
        fields: fields that were tried, of every length.
        table: those of usual length, in the same order.
    """
    usual = [field for field in fields if field.length == "usual"]
    methods = []
    for method in (*METHODS, NEAR):
        hits = table.exact[named("attack", method)]
        counted = table.judged_by(method).rows("unique")
        methods.append(MethodHits(named("", method), hits, counted, np.ones(len(usual), bool)))
    traits = [_traits_of(case, field) for field in usual]
    tried = Tried(traits, table.member, table.cluster, "fields")
    owned = [_owned_value(case, field) for field in usual]
    return break_down(tried, methods), people.count_returned(case.corpus, owned, methods)


def _traits_of(case: Case, field: Field) -> Traits:
    """Return what is known of a field's value without its text."""
    document = field.document
    value = fold(document.text_of(field.entity))
    copies = occurrences(case.corpus)[value].anywhere[document.split]
    position = position_of(document, field.entity.words)
    return Traits(field.entity.category, copies, len(value), position)


def _owned_value(case: Case, field: Field) -> people.OwnedValue:
    """Return a field's value with whose it is."""
    document = field.document
    value = fold(document.text_of(field.entity))
    owner = people.people_of(case.corpus).owner_of(document, field.entity)
    return people.OwnedValue(value, owner, occurrences(case.corpus)[value].unique)
