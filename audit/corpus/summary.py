"""The contents of a data set in numbers, as `docaudit inspect` prints them. It holds no value, id or provider."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from audit.cards import CorpusCard
from audit.corpus.canaries.schema import CanaryCounts, canary_counts, canary_warnings, load_canaries
from audit.corpus.documents import (
    CATEGORIES,
    SPLITS,
    Assignment,
    Category,
    Corpus,
    Document,
    Entity,
    Membership,
    Split,
    TaskKind,
)
from audit.corpus.folding import Occurrence, fold, is_on_page, occurrences
from audit.corpus.images import image_path, read_header
from audit.corpus.near_copies import counts_left_out, find_copies
from audit.corpus.providers import AskedProviders, ProviderCounts, asked_providers, provider_counts, provider_warnings
from audit.corpus.validation import unknown_names


@dataclass(frozen=True)
class Quartiles:
    """Least, lower quartile, median, upper quartile and greatest of `n` counts; linear interpolation."""

    n: int
    least: float
    lower: float
    median: float
    upper: float
    greatest: float


@dataclass(frozen=True)
class FieldCounts:
    """The fields of one category.

    Attributes:
        fields: by split.
        attacked: those of them that an attack may try to reconstruct.
        values: distinct values after folding.
        unique: fields whose value occurs in no other document (`folding.Occurrence.unique`).
        repeated_within: by split, fields whose value occurs in another document of that split.
        repeated_across: by split, fields whose value occurs in a document of another split.
        words: words a field.
        characters: characters a field, joined by single spaces.
    """

    fields: Mapping[Split, int]
    attacked: Mapping[Split, int]
    values: int
    unique: int
    repeated_within: Mapping[Split, int]
    repeated_across: Mapping[Split, int]
    words: Quartiles
    characters: Quartiles


def by_split(splits: Iterable[Split]) -> dict[Split, int]:
    """Count them, each split, in the order of `SPLITS`."""
    counts = Counter(splits)
    return {split: counts[split] for split in SPLITS}


def quartiles(counts: Sequence[int]) -> Quartiles:
    """Compute them of one count or more."""
    return Quartiles(len(counts), *(float(value) for value in np.quantile(counts, (0, 0.25, 0.5, 0.75, 1))))


def count_fields(corpus: Corpus) -> dict[Category, FieldCounts]:
    """Count the fields of each category that occurs, in the manifest's order."""
    found = occurrences(corpus)
    tallies: dict[Category, _Tally] = defaultdict(_Tally)
    for document in corpus.documents:
        for entity in document.entities:
            text = document.text_of(entity)
            value = fold(text)
            tallies[entity.category].add(document.split, entity, text, value, found[value])
    return {category: tallies[category].counts() for category in CATEGORIES if category in tallies}


class _Tally:
    """Fields of one category, counted one after the other."""

    def __init__(self) -> None:
        self.fields, self.attacked = Counter[Split](), Counter[Split]()
        self.within, self.across = Counter[Split](), Counter[Split]()
        self.values: set[str] = set()
        self.unique = 0
        self.words, self.characters = array("q"), array("q")

    def add(self, split: Split, entity: Entity, text: str, value: str, occurrence: Occurrence) -> None:
        """Count a field with this text, which folds to `value`."""
        self.fields[split] += 1
        self.attacked[split] += entity.attack
        self.within[split] += occurrence.anywhere[split] > 1
        self.across[split] += sum(occurrence.anywhere.values()) > occurrence.anywhere[split]
        self.values.add(value)
        self.unique += occurrence.unique
        self.words.append(len(entity.words))
        self.characters.append(len(text))

    def counts(self) -> FieldCounts:
        """What was counted."""
        fields, attacked, within, across = (
            {split: counted[split] for split in SPLITS}
            for counted in (self.fields, self.attacked, self.within, self.across)
        )
        return FieldCounts(
            fields=fields,
            attacked=attacked,
            values=len(self.values),
            unique=self.unique,
            repeated_within=within,
            repeated_across=across,
            words=quartiles(self.words),
            characters=quartiles(self.characters),
        )


MIN_DOCUMENTS = 150  # members and held-out each: methods.md#statistics, "Power first"


MAX_ABSENT = 0.1  # of the members' answers, before `inspect` warns that they are not on the page; ours


@dataclass(frozen=True)
class DuplicateImages:
    """Image files with equal bytes: documents beyond the first of each, by split; images found in several splits."""

    within: Mapping[Split, int]
    across: int


@dataclass(frozen=True)
class Summary:
    """A data set in numbers.

    Attributes:
        name: of the manifest.
        task: kind of the task.
        assigned: how membership was assigned.
        sha256: of the corpus.
        documents: by split.
        images: documents with an image, by split.
        words: words a document, None without documents.
        categories: by field category, those that occur, in the manifest's order.
        providers: by split.
        asked_providers: those that can be asked after.
        duplicate_images: exact ones.
        questions: by split.
        questions_a_document: None without documents.
        answers_on_page: questions with an accepted answer among the words of their page (`answers.is_on_page`), by
            split.
        questions_with_image: questions whose page has an image, by split.
        links: between entities, by split.
        warnings: plain sentences on what limits an audit of this data set.
        canaries: None where there are none.
        near_copies: by split, documents that an audit leaves out as copies of those of another split.
        drawn: the command that drew the membership, and the day.
    """

    name: str
    task: TaskKind
    assigned: Assignment
    sha256: str
    documents: Mapping[Split, int]
    images: Mapping[Split, int]
    words: Quartiles | None
    categories: Mapping[Category, FieldCounts]
    providers: Mapping[Split, ProviderCounts]
    asked_providers: AskedProviders
    duplicate_images: DuplicateImages
    questions: Mapping[Split, int]
    questions_a_document: Quartiles | None
    answers_on_page: Mapping[Split, int]
    questions_with_image: Mapping[Split, int]
    links: Mapping[Split, int]
    warnings: tuple[str, ...]
    canaries: CanaryCounts | None = None
    near_copies: Mapping[str, int] = field(default_factory=dict)
    drawn: str | None = None


def summarise(corpus: Corpus) -> Summary:
    """Count what the data set holds; decodes every page image.

    Raises:
        ManifestError: an image cannot be decoded, or has become unreadable since the corpus was loaded; each of them.
    """
    copies = find_copies(corpus)
    documents = corpus.documents
    duplicates = _duplicate_images(corpus)
    canaries = canary_counts(load_canaries(corpus))
    categories = count_fields(corpus)
    lengths = [len(document.words) for document in documents]
    numbers = [len(document.questions) for document in documents]
    standing = by_split(d.split for d in documents for question in d.questions if is_on_page(question, d.words))
    return Summary(
        name=corpus.manifest.name,
        task=corpus.manifest.task.kind,
        assigned=corpus.manifest.membership.assigned,
        drawn=_drawn(corpus.manifest.membership),
        sha256=corpus.sha256,
        documents=by_split(document.split for document in documents),
        images=by_split(document.split for document in documents if document.image is not None),
        words=quartiles(lengths) if lengths else None,
        categories=categories,
        providers={split: provider_counts(corpus.of(split)) for split in SPLITS},
        asked_providers=asked_providers(corpus),
        duplicate_images=duplicates,
        questions=by_split(document.split for document in documents for _ in document.questions),
        questions_a_document=quartiles(numbers) if numbers else None,
        answers_on_page=standing,
        questions_with_image=by_split(d.split for d in documents if d.image is not None for _ in d.questions),
        links=by_split(document.split for document in documents for _ in document.links),
        warnings=(
            *_warnings(corpus, categories, duplicates, standing),
            *copies.warnings,
            *canary_warnings(canaries),
        ),
        near_copies=counts_left_out(corpus, copies.left_out),
        canaries=canaries,
    )


def card(corpus: Corpus) -> CorpusCard:
    """Describe the data set for the record: counts only."""
    fields: dict[str, Counter[str]] = {}
    for document in corpus.documents:
        attacked = (entity.category for entity in document.entities if entity.attack)
        fields.setdefault(document.split, Counter()).update(attacked)
    return CorpusCard(
        name=corpus.manifest.name,
        sha256=corpus.sha256,
        task=corpus.manifest.task.kind,
        assigned=corpus.manifest.membership.assigned,
        drawn=corpus.manifest.membership.drawn,
        drawn_by=corpus.manifest.membership.drawn_by,
        documents=dict(Counter(document.split for document in corpus.documents)),
        fields={split: dict(sorted(counts.items())) for split, counts in fields.items()},
        providers=len({fold(document.provider) for document in corpus.documents if document.provider is not None}),
        images=sum(document.image is not None for document in corpus.documents),
        checkpoint_chosen_on=corpus.manifest.recipe.checkpoint_chosen_on,
        questions=dict(Counter(document.split for document in corpus.documents for _ in document.questions)),
    )


def _drawn(membership: Membership) -> str | None:
    return None if membership.drawn is None else f"{membership.drawn_by} on {membership.drawn}"


def _duplicate_images(corpus: Corpus) -> DuplicateImages:
    splits_of: dict[str, Counter[Split]] = defaultdict(Counter)
    for document in corpus.documents:
        if document.image is not None:
            splits_of[read_header(image_path(corpus, document)).sha256][document.split] += 1
    return DuplicateImages(
        within={split: sum(max(counts[split] - 1, 0) for counts in splits_of.values()) for split in SPLITS},
        across=sum(len(counts) > 1 for counts in splits_of.values()),
    )


def _warnings(
    corpus: Corpus,
    categories: Mapping[Category, FieldCounts],
    duplicates: DuplicateImages,
    standing: Mapping[Split, int],
) -> Iterator[str]:
    yield from _split_warnings(corpus)
    if duplicates.across:
        yield (
            f"{duplicates.across} images stand in more than one split: a copy of a trained page is no control. "
            "Keep equal images in one split."
        )
    if sum(duplicates.within.values()):
        yield f"{sum(duplicates.within.values())} documents repeat the image of another document of their split."
    yield from provider_warnings(corpus)
    if corpus.manifest.task.asks:
        yield from _question_warnings(corpus, standing)
    else:
        yield from _field_warnings(categories)
    unnamed = sum(bool(unknown_names(document, corpus.manifest.task)) for document in corpus.documents)
    if unnamed:
        yield (
            f"{unnamed} documents have labels that task.labels of the manifest lacks: an audit leaves out those that "
            "the model has no name for either."
        )
    several = sum(_several_parents(document) for document in corpus.documents)
    if corpus.manifest.task.kind == "spade-linking" and several:
        yield f"{several} fields have several parents: entity linking gives a field one, that of its first link."


def _split_warnings(corpus: Corpus) -> Iterator[str]:
    sizes = by_split(document.split for document in corpus.documents)
    for title, size in (("member", sizes["member"]), ("held-out", sizes["heldout"])):
        if size < MIN_DOCUMENTS:
            yield (
                f"{size} {title} documents: with fewer than {MIN_DOCUMENTS}, a limit of 0.05 on an excess can hardly "
                "be decided, even for a model that leaks nothing."
            )
    references = corpus.manifest.references
    models = (references.pretrained, references.auxiliary, references.baselines, references.splits)
    if not sizes["public"]:
        yield "No public split: reference models cannot be trained here and must come from the manifest or --reference."
    if not any(models):
        yield "The manifest names no reference model: attacks that compare with one need --reference or training."


def _field_warnings(categories: Mapping[Category, FieldCounts]) -> Iterator[str]:
    if not any(counts.attacked["member"] for counts in categories.values()):
        yield "No field of a member document is marked for attack: there is nothing to reconstruct."
    fields = sum(sum(counts.fields.values()) for counts in categories.values())
    unique = sum(counts.unique for counts in categories.values())
    if 2 * unique < fields:
        yield (
            f"{fields - unique} of {fields} fields have a value that stands in another document too: "
            "reconstruction is judged on the others."
        )


def _question_warnings(corpus: Corpus, standing: Mapping[Split, int]) -> Iterator[str]:
    asked = by_split(document.split for document in corpus.documents for _ in document.questions)
    if not asked["heldout"]:
        yield "No question is asked on a held-out page: nothing shows what a model answers that never saw the page."
    absent = asked["member"] - standing["member"]
    if absent > MAX_ABSENT * asked["member"]:
        yield (
            f"{absent} of {asked['member']} questions on member pages have no accepted answer among the words of their "
            "page, as whole words: what cannot be removed from a page is counted apart."
        )


def _several_parents(document: Document) -> int:
    """Entities that distinct links give more than one parent."""
    parents = Counter(child for _, child in set(document.links))
    return sum(count > 1 for count in parents.values())
