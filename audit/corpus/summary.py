"""The contents of a data set in numbers, as `docaudit inspect` prints them.

It holds no value, id or provider.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from audit.cards import CorpusCard
from audit.corpus.canaries.schema import (
    CanaryCounts,
    canary_warnings,
    count_canaries,
    load_canaries,
)
from audit.corpus.columns import column_warnings
from audit.corpus.documents import (
    CATEGORIES,
    SPLITS,
    Assignment,
    Category,
    Corpus,
    Document,
    Split,
    TaskKind,
)
from audit.corpus.folding import fold, is_on_page, occurrences
from audit.corpus.near_copies import counts_left_out, find_copies
from audit.corpus.placement import placement_warnings
from audit.corpus.problems import EXAMPLES, TEXTS
from audit.corpus.validation import GRID, unknown_names
from audit.errors import listed
from audit.files import hub_revision

MIN_DOCUMENTS = 150
"""Members and held-out each: methods/index.md#power-and-coverage."""
MIN_PUBLIC = 20
"""Public documents, without which nothing shows whether training used the unseen ones."""
PASSING = 2 * MIN_DOCUMENTS + MIN_PUBLIC
"""Documents of a source that docaudit divides so that a pass is likely."""
MAX_ABSENT = 0.1
"""Of the members' answers, before `inspect` warns that they are not on the page."""


@dataclass
class FieldCounts:
    """The fields of one category.

    Attributes:
        fields: fields by split.
        attacked: those of them that an attack may try to reconstruct, by split.
        values: distinct values after folding.
        unique: fields whose value occurs in no other document (`folding.Occurrence.unique`).
    """

    fields: dict[Split, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    attacked: dict[Split, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    values: int = 0
    unique: int = 0


@dataclass(frozen=True)
class Summary:
    """A data set in numbers.

    Attributes:
        name: name of the manifest.
        task: kind of the task.
        assigned: how membership was assigned.
        sha256: sha256 of the corpus.
        counts: counts by what is counted, by split.
        categories: categories by field category, those that occur, in the manifest's order.
        asked_providers: providers that can be asked after.
        warnings: plain sentences on what limits an audit of this data set.
        canaries: canaries of the data set; None where there are none.
        drawn: the command that drew the membership, and the day.
    """

    name: str
    task: TaskKind
    assigned: Assignment
    sha256: str
    counts: Mapping[str, Mapping[Split, int]]
    categories: Mapping[Category, FieldCounts]
    asked_providers: AskedProviders
    warnings: tuple[str, ...]
    canaries: CanaryCounts | None = None
    drawn: str | None = None


def summarise(corpus: Corpus) -> Summary:
    """Count what the data set holds; decodes every page image.

    Raises:
        ManifestError: an image cannot be decoded, or has become unreadable since the corpus was
            loaded; each of them.
    """
    copies = find_copies(corpus)
    membership = corpus.manifest.membership
    categories = _fields(corpus)
    canaries = load_canaries(corpus)
    planted = None if canaries is None else count_canaries(canaries)
    counts = {split: _counts(corpus.of(split)) for split in SPLITS}
    left_out = counts_left_out(corpus, copies.left_out)
    rows: dict[str, dict[Split, int]] = {}
    for name in counts["member"]:
        rows[name] = {split: counts[split][name] for split in SPLITS}
    rows["copies of another split's, left out"] = {
        split: left_out.get(split, 0) for split in SPLITS
    }
    return Summary(
        name=corpus.manifest.name,
        task=corpus.manifest.task.kind,
        assigned=membership.assigned,
        drawn=None if membership.drawn is None else f"{membership.drawn_by} on {membership.drawn}",
        sha256=corpus.sha256,
        counts=rows,
        categories=categories,
        asked_providers=asked_providers(corpus),
        warnings=(*_warnings(corpus, categories), *copies.warnings, *canary_warnings(planted)),
        canaries=planted,
    )


def _counts(documents: tuple[Document, ...]) -> dict[str, int]:
    """Count the contents of a split."""
    providers: set[str] = set()
    n_questions = 0
    n_on_page = 0
    for document in documents:
        if document.provider is not None:
            providers.add(fold(document.provider))
        n_questions += len(document.questions)
        n_on_page += sum(is_on_page(question, document.words) for question in document.questions)
    return {
        "documents": len(documents),
        "with an image": sum(document.image is not None for document in documents),
        "with boxes of words": sum(_has_boxes(document) for document in documents),
        "providers": len(providers),
        "questions": n_questions,
        "answers among the page's words": n_on_page,
    }


def _has_boxes(document: Document) -> bool:
    """Test whether the words of a page have boxes."""
    return any(word.box is not None for word in document.words)


def _fields(corpus: Corpus) -> dict[Category, FieldCounts]:
    """Count the fields of each category that occurs, in the manifest's order."""
    by_value = occurrences(corpus)
    counts: dict[Category, FieldCounts] = defaultdict(FieldCounts)
    values: dict[Category, set[str]] = defaultdict(set)
    for document in corpus.documents:
        for entity in document.entities:
            value = fold(document.text_of(entity))
            values[entity.category].add(value)
            category_counts = counts[entity.category]
            category_counts.fields[document.split] += 1
            category_counts.attacked[document.split] += entity.attack
            category_counts.unique += by_value[value].unique
            category_counts.values = len(values[entity.category])
    return {category: counts[category] for category in CATEGORIES if category in counts}


def card(corpus: Corpus) -> CorpusCard:
    """Describe the data set for the record: counts only."""
    manifest = corpus.manifest
    return CorpusCard(
        name=manifest.name,
        sha256=corpus.sha256,
        task=manifest.task.kind,
        **vars(manifest.membership),
        revision=manifest.revision or hub_revision(corpus.root),
        documents=dict(Counter(document.split for document in corpus.documents)),
        fields=_count_attacked(corpus),
        providers=_count_providers(corpus),
        images=sum(document.image is not None for document in corpus.documents),
        checkpoint_chosen_on=manifest.recipe.checkpoint_chosen_on,
        questions=_count_questions(corpus),
    )


def _count_attacked(corpus: Corpus) -> dict[str, dict[str, int]]:
    """Count the fields that attacks may try, by split and category."""
    fields: dict[str, Counter[str]] = defaultdict(Counter)
    for document in corpus.documents:
        fields[document.split].update(
            entity.category for entity in document.entities if entity.attack
        )
    return {split: dict(sorted(counts.items())) for split, counts in fields.items()}


def _count_providers(corpus: Corpus) -> int:
    """Count the providers that documents name, as `folding.fold` compares names."""
    names = (document.provider for document in corpus.documents)
    return len({fold(name) for name in names if name is not None})


def _count_questions(corpus: Corpus) -> dict[str, int]:
    """Count questions by split; splits without any are missing."""
    counts = Counter[str]()
    for document in corpus.documents:
        if document.questions:
            counts[document.split] += len(document.questions)
    return dict(counts)


def _warnings(corpus: Corpus, categories: Mapping[Category, FieldCounts]) -> Iterator[str]:
    """Yield the warnings about splits, layout, providers, and questions or fields of a data set."""
    task = corpus.manifest.task
    yield from _split_warnings(corpus)
    yield from _layout_warnings(corpus)
    yield from provider_warnings(corpus)
    yield from _question_warnings(corpus) if task.asks else _field_warnings(categories)
    if unnamed := sum(bool(unknown_names(document, task)) for document in corpus.documents):
        yield TEXTS["unnamed_labels"].format(n=unnamed)


def _split_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of few documents in a split, and of a manifest that names no reference model."""
    sizes = {split: len(corpus.of(split)) for split in SPLITS}
    is_drawn = corpus.manifest.membership.drawn is not None
    warning = size_warning(sizes, is_drawn=is_drawn)
    if warning:
        yield warning
    if not (is_drawn and _is_too_small(sizes)):
        yield from public_warnings(sizes["public"])
    if not any(vars(corpus.manifest.references).values()):
        yield TEXTS["no_reference"]


def public_warnings(n_public: int) -> list[str]:
    """Warn of a data set with no public documents, or with fewer than membership needs."""
    if n_public == 0:
        return [TEXTS["no_public"].format(needed=MIN_PUBLIC)]
    if n_public < MIN_PUBLIC:
        return [TEXTS["few_public"].format(n=n_public, needed=MIN_PUBLIC)]
    return []


def size_warning(sizes: Mapping[Split, int], *, is_drawn: bool) -> str:
    """Warn of a data set without unseen documents, or with few of either side; empty for others.

    Where docaudit drew the sides of a source that is too small for a pass, the source is named.

    Args:
        sizes: documents of each split.
        is_drawn: whether docaudit drew the members.
    """
    members = sizes["member"]
    heldout = sizes["heldout"]
    if min(members, heldout) >= MIN_DOCUMENTS:
        return ""
    if not heldout:
        return TEXTS["no_heldout"]
    if is_drawn and _is_too_small(sizes):
        return TEXTS["few_drawn"].format(
            n=sum(sizes.values()), needed=PASSING, side=MIN_DOCUMENTS, public=MIN_PUBLIC
        )
    return TEXTS["small"].format(members, heldout, MIN_DOCUMENTS)


def _is_too_small(sizes: Mapping[Split, int]) -> bool:
    """Test whether no division of so many documents gives all that a pass takes."""
    return sum(sizes.values()) < PASSING


def _layout_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of pages without boxes among pages with them, and of boxes that lie off their words."""
    corners: list[tuple[float, float]] = []
    sizes: list[tuple[int, int]] = []
    unboxed: list[str] = []
    for document in corpus.documents:
        boxes = [word.box for word in document.words if word.box is not None]
        if boxes and document.size is not None:
            _, _, right, bottom = map(max, zip(*boxes, strict=True))
            corners.append((right, bottom))
            sizes.append(document.size)
        elif document.words:
            unboxed.append(document.id)
    if corners and unboxed:
        n = len(unboxed)
        examples = listed(unboxed[:EXAMPLES], "and")
        yield TEXTS["no_boxes"].format(n=n, all=len(corners) + n, examples=examples)
    if corners:
        yield from _grid_warnings(corners, sizes)
    yield from placement_warnings(corpus)
    yield from column_warnings(corpus)


def _grid_warnings(
    corners: Sequence[tuple[float, float]], sizes: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """Warn of boxes that look like thousandths of larger pages.

    Args:
        corners: the lower right corner of all boxes of each page.
        sizes: sizes of the pages.
    """
    right, bottom = map(max, zip(*corners, strict=True))
    width, height = map(max, zip(*sizes, strict=True))
    fills_grid = min(right, bottom) > 0.8 * GRID and max(right, bottom) <= GRID
    if fills_grid and max(width, height) > 1.2 * GRID:
        yield TEXTS["look_small"].format(width=width, height=height)


def _field_warnings(categories: Mapping[Category, FieldCounts]) -> Iterator[str]:
    """Warn of a data set without member fields to attack, or with mostly shared values."""
    if not any(counts.attacked["member"] for counts in categories.values()):
        yield TEXTS["no_field"]
    fields = sum(sum(counts.fields.values()) for counts in categories.values())
    unique = sum(counts.unique for counts in categories.values())
    if 2 * unique < fields:
        yield TEXTS["shared_values"].format(n=fields - unique, all=fields)


def _question_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn where held-out documents have no questions, or answers stand on few pages."""
    if not any(document.questions for document in corpus.of("heldout")):
        yield TEXTS["no_heldout_question"]
    members = _counts(corpus.of("member"))
    absent = members["questions"] - members["answers among the page's words"]
    if absent > MAX_ABSENT * members["questions"]:
        yield TEXTS["absent"].format(n=absent, all=members["questions"])


MAX_HALF_WIDTH = 0.05
"""Of balanced accuracy over providers, before `inspect` warns: 384 providers, half of them in,
reach it."""


@dataclass(frozen=True)
class AskedProviders:
    """The providers of whom an attack can ask whether they were trained on.

    See methods/provider-membership.md. A provider is in when one of its documents is a member; what
    is asked about are its held-out ones, kept aside. Names that differ in case or spacing only are
    one provider (`folding.fold`), here and everywhere.

    Attributes:
        n_in: providers in with documents kept aside.
        n_out: providers out with documents kept aside.
        unasked: providers in without one.
        also_public: providers of those with documents kept aside that have public documents too.
    """

    n_in: int
    n_out: int
    unasked: int
    also_public: int

    @property
    def half_width(self) -> float:
        """Compute the half width of a 95 % interval of balanced accuracy near 0.5.

        It is a normal approximation.

        Infinite without some of both.
        """
        both = self.n_in and self.n_out
        return 1.96 * 0.25 * math.sqrt(1 / self.n_in + 1 / self.n_out) if both else math.inf


def asked_providers(corpus: Corpus) -> AskedProviders:
    """Count the providers that an attack can ask after in this data set."""
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        if document.provider is not None:
            splits[fold(document.provider)].add(document.split)
    kept_aside = [provider for provider in splits.values() if "heldout" in provider]
    n_in = sum("member" in provider for provider in kept_aside)
    n_members = sum("member" in provider for provider in splits.values())
    n_public = sum("public" in provider for provider in kept_aside)
    return AskedProviders(n_in, len(kept_aside) - n_in, n_members - n_in, n_public)


def unnamed_members(corpus: Corpus) -> int:
    """Count the documents of training that name no provider."""
    return sum(not fold(document.provider or "") for document in corpus.of("member"))


def provider_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of all that limits an attack on providers; nothing for a data set that names none."""
    if all(document.provider is None for document in corpus.documents):
        return
    if nameless := unnamed_members(corpus):
        yield TEXTS["nameless"].format(n=nameless)
    providers = asked_providers(corpus)
    counts = TEXTS["asked"].format(n_in=providers.n_in, n_out=providers.n_out)
    if not (providers.n_in and providers.n_out):
        yield counts + TEXTS["one_sided"]
    elif providers.half_width > MAX_HALF_WIDTH:
        yield counts + TEXTS["few_providers"].format(points=100 * providers.half_width)
    if corpus.manifest.membership.assigned == "by-provider":
        yield from _division_warnings(providers)


def _division_warnings(providers: AskedProviders) -> Iterator[str]:
    """Warn of providers that a division by provider should have left out, or not published."""
    if providers.unasked:
        yield TEXTS["unasked"].format(n=providers.unasked)
    if providers.also_public:
        yield TEXTS["also_public"].format(n=providers.also_public)
