"""Labels of a source: fields from tags of words, and the kind of information that a label speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from audit.corpus.documents import Category, Task
from audit.corpus.tagging import BIO, OUTSIDE_NAMES, scheme_of
from audit.corpus.validation import label_problems

OUTSIDE = frozenset({*OUTSIDE_NAMES, ""})
"""Names of the class of words in no field, in lower case."""
UNATTACKED = frozenset({"header", "question", "key"})
"""Labels of what is printed on every form alike."""

_PREFIXES = ("B-", "S-", "U-", "I-", "E-", "L-", "M-")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SPEAKS: Mapping[Category, str] = {
    "datetime": "date day time birth dob due period year month",
    "contact": "phone telephone tel fax email mail mobile contact",
    "url": "url website web",
    "amount": "total subtotal amount price tax vat gst cash change paid payment balance cost fee sum discount salary",
    "location": "address addr city street country zip postcode location loc state place town",
    "organization": "company vendor supplier seller organization organisation org store shop merchant bank employer "
    "hospital issuer sender",
    "quantity": "quantity qty count cnt age weight percent",
    "demographic": "gender sex nationality religion occupation ethnicity dem",
    "code": "id number no num nbr code iban bic account reference ref ssn invoice serial",
    "person": "name surname person per customer client patient employee buyer holder author recipient signatory",
}
"""Words of labels, in the order in which they are looked for ("invoice_date" is a date)."""


def category_of(label: str) -> Category:
    """Guess what kind of information fields of this label are; "misc" where the label does not say."""
    tokens = {token.lower() for token in _TOKENS.findall(label)}
    return next((category for category, words in _SPEAKS.items() if not tokens.isdisjoint(words.split())), "misc")


def plain_words(label: str) -> str:
    """Spell a label as words: "invoiceDate" and "INVOICE_DATE" are "invoice date"."""
    return " ".join(token.lower() for token in _TOKENS.findall(label)) or label


def fields_of_tags(tags: Sequence[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Read label and word indices of every field from one tag a word.

    BIO, BIOES and BILOU by their prefixes; tags without any are plain classes, of which neighbours are one field.
    A tag that goes on with no field of its label begins one.
    """
    prefixed = _are_prefixed(tags)
    named = ["O" if tag.lower() in OUTSIDE else f"I-{tag}" if prefixed and tag[1:2] != "-" else tag for tag in tags]
    spans = replace(BIO, prefixed=prefixed).spans(named)
    return [(label, tuple(range(start, end))) for label, start, end in sorted(spans, key=lambda span: span[1])]


def task_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Give tags as a manifest takes them, in the model's order; none where they are in no scheme.

    The model's own labels count then: also where a scheme has no tag for a field that is read from them.
    """
    tags = tuple(dict.fromkeys(names))
    if not tags or any(label_problems(Task("token-classification", tags))):
        return ()
    scheme = scheme_of(tags)
    return tags if all(map(scheme.knows, plain_labels(tags).values())) else ()


def plain_labels(names: Iterable[str]) -> dict[str, str]:
    """By label in lower case the label as a model's tags have it, without prefix; the outside class left out."""
    tags = [name for name in names if name.lower() not in OUTSIDE]
    prefixed = _are_prefixed(tags)
    labels = [tag[2:] if prefixed and tag[1:2] == "-" else tag for tag in tags]
    return {label.lower(): label for label in labels}


def _are_prefixed(tags: Iterable[str]) -> bool:
    return any(tag[:2] in _PREFIXES for tag in tags)
