"""Fields that a data set offers to reconstruction, what a scan attacked of them, and models it does not apply to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from audit.attacks.fields import LENGTHS, Field, FieldPart, Length, may_be_long, trial_id
from audit.attacks.interface import Sides, Units
from audit.attacks.reconstruction.names import LIMITED
from audit.attacks.splits import AUDITED, missing_split
from audit.corpus.documents import Corpus, Document, Entity, Split
from audit.corpus.folding import Occurrence, fold, occurrences
from audit.engine.interface import Trial
from audit.measurements import Coverage

NO_TOKENS = "the model sees a page as pixels only: there is no token of the page to put a candidate in place of"
ANSWERING = "applies to models that read pages as words only (VT5, UDOP): give --model"
NO_PAGE_LOSS = "the model points at words of the page: the loss of a place hardly depends on the word that stands there"
IN_A_PROMPT = "the model reads a page in its prompt, and no public masked language model has its tokens"
OWN_MARKS = "no public masked language model has the model's tokens, so that nothing proposes values for its pages"
PARSING = "the model writes a page whole: there is no token of the page to put a candidate in place of"
OWN_VOCABULARY = "a model of utterances has a vocabulary of its own, which no public masked language model shares"
REWORDED = "the countermeasure changes questions, and lets no candidate be put in place of a token of the page"


ALL = "all"


def most_units(corpus: Corpus, methods: int) -> tuple[Units, ...]:
    """Documents with a field of each group, at most: how many tokens a field has only a model's tokenizer tells.

    Args:
        corpus: the data set.
        methods: how many choose among the candidates.
    """
    seen = occurrences(corpus)
    documents: Counter[tuple[str, str]] = Counter()
    for document in corpus.of(*AUDITED):
        held: set[str] = set()
        for entity in document.entities:
            if entity.attack:
                held |= {"unique" if seen[fold(document.text_of(entity))].unique else "repeated", ALL}
        documents.update([(document.split, group) for group in held])
    return tuple(
        Units(
            metric,
            "difference",
            "documents",
            *(documents[split, metric.partition(".")[2]] for split in AUDITED),
            methods=methods,
        )
        for metric in LIMITED
    )


def lacking(corpus: Corpus) -> str | None:
    """That a split has no field to attack; None when both have."""
    split = missing_split(document for document, _ in _marked(corpus))
    return None if split is None else f"no field to attack in {split} documents"


def no_public_model(corpus: Corpus) -> str | None:
    """That [references] names no public model, and nothing that one could be trained from; None when it does."""
    references = corpus.manifest.references
    if references.auxiliary is None and not corpus.of("public"):
        return "no auxiliary model in [references] and no public documents to train one on"
    if references.auxiliary is None and references.pretrained is None:
        return "needs --reference pretrained=PATH or auxiliary=PATH: [references] names neither"
    return None


def most_trials(corpus: Corpus) -> Sides:
    """Return the most trials there can be, however many tokens a model makes of a field: at most two of one."""
    found = Counter[Split]()
    for document, entity in _marked(corpus):
        found[document.split] += 2 if may_be_long(document, entity, LENGTHS[1]) else 1
    return found["member"], found["heldout"]


def whole_fields(corpus: Corpus) -> list[Trial]:
    """One trial for each field that is marked for attack, whatever a model's tokens make of it."""
    return [Trial(trial_id(document, entity), document.id, document.split) for document, entity in _marked(corpus)]


def _marked(corpus: Corpus) -> Iterator[tuple[Document, Entity]]:
    return ((document, entity) for document in corpus.of(*AUDITED) for entity in document.entities if entity.attack)


class FieldKind(NamedTuple):
    """What is counted of a field that the manifest offers; see `Field`. `unique`: no other document has its value."""

    split: Split
    category: str
    length: Length
    part: FieldPart
    left_out: str | None
    unique: bool

    @classmethod
    def of(cls, field: Field, seen: Mapping[str, Occurrence]) -> Self:
        """The kind of a field, by where the corpus' values stand."""
        unique = seen[fold(field.document.text_of(field.entity))].unique
        return cls(field.document.split, field.entity.category, field.length, field.part, field.left_out, unique)


def coverage(
    offered: Mapping[FieldKind, int],
    fields: Iterable[Field],
    seen: Mapping[str, Occurrence],
    withheld: Counter[str],
) -> tuple[Coverage, ...]:
    """Count the member fields that this scan attacked, of all that there are, in all and by category.

    A long field counts once, even where only one of its ends was attacked.

    Args:
        offered: number of member and held-out fields by kind that the manifest offers, attacked or not.
        fields: those that this scan attacked.
        seen: occurrences of every value in the corpus.
        withheld: number of member fields that the manifest keeps out of the audit, by category.
    """
    total: Counter[str] = withheld + Counter({ALL: withheld.total()})
    for kind, n in offered.items():
        if kind.split == "member" and kind.part != "end":
            total.update({ALL: n, kind.category: n})
    attacked, unique = Counter[str](), Counter[str]()
    for field in {(one.document.id, one.entity.id): one for one in fields}.values():
        kind = FieldKind.of(field, seen)
        if kind.split == "member":
            attacked.update((ALL, kind.category))
            unique.update((ALL, kind.category) * kind.unique)
    categories = sorted(set(total) - {ALL})
    return tuple(
        Coverage(name, attacked[name], total[name], unique=unique[name]) for name in (ALL, *categories) if total[name]
    )
