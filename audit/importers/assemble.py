"""Documents of pages: boxes in pixels, fields located, questions asked.

The task that they teach; the report.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from audit.corpus.documents import ASKING, Box, Document, Entity, Question, Task, TaskKind, Word
from audit.corpus.folding import is_on_page
from audit.corpus.problems import Problems
from audit.corpus.validation import label_problems
from audit.errors import ManifestError, UsageError
from audit.importers.columns import category_of, plain_labels, plain_words, task_labels
from audit.importers.faults import shown_path
from audit.importers.files import TEXTS, page_size
from audit.importers.locate import Location, locate, quality_of
from audit.importers.pages import (
    Field,
    Page,
    Size,
    Unit,
    check_extent,
    clean,
    in_pixels,
    words_inside,
)
from audit.importers.tasks import WORDS_FIRST
from audit.importers.units import SizedBoxes, recognise_units

ANSWER = "ANSWER"
NO_WORDS = "no words on the page"
LINKS = "links"
LINKS_LEFT_OUT = "links left out"
UNATTACKED = frozenset({"header", "question", "key"})
"""Labels of text that is printed on every form alike."""
SAME_VALUE = frozenset({"exact", "punctuation", "equal amount", "equal date"})
"""Rules of `locate` whose words are the value itself in the page's own spelling, which is an answer
too."""
WITHOUT_IMAGE: Size = (1000, 1000)
"""The size given to pages without an image whose boxes are shares or thousandths."""
MADE_OF_FIELDS = (
    'questions made of fields, as "What is the ...?": '
    "the model must have been asked so (a tagger needs --task)"
)
NAMED: tuple[TaskKind, ...] = ("spade-extraction", "document-classification", "intent-slots")
"""Tasks whose labels are plain names."""

Counts = defaultdict[str, Counter[str]]


@dataclass
class ImportReport:
    """Counts of an import.

    Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: counts of documents by split, and "left out".
        located: fields by label whose words are known, by the quality of their location
            (`locate.QUALITIES`).
        not_located: other fields by label, by reason.
        unlocated: (document id, label, reason) of every field without words; no text.
        loose: (document id, label, likeness from 0 to 1) of every field that was located loosely;
            no text.
        duplicates: groups of documents with equal images, which stay in one split.
        notes: other counts that an owner wants to know.
        demands: what must be true of the audited model.
        warnings: the same, and what else the owner should read.
        task: task of the manifest.
        is_drawn: whether docaudit drew the members.
        without: number of training documents that the owner's list left out, with their copies.
    """

    documents: dict[str, int] = dataclasses.field(default_factory=dict)
    located: Counts = dataclasses.field(default_factory=lambda: defaultdict(Counter))
    not_located: Counts = dataclasses.field(default_factory=lambda: defaultdict(Counter))
    unlocated: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    loose: list[tuple[str, str, float]] = dataclasses.field(default_factory=list)
    duplicates: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    notes: Counter[str] = dataclasses.field(default_factory=Counter)
    demands: tuple[str, ...] = ()
    warnings: list[str] = dataclasses.field(default_factory=list)
    task: TaskKind | None = None
    is_drawn: bool = False
    without: int = 0

    @property
    def fields(self) -> dict[str, int]:
        """Count the fields of each label, located or not, by name of the label."""
        labels = sorted(self.located.keys() | self.not_located.keys())
        return {
            label: self.located[label].total() + self.not_located[label].total() for label in labels
        }

    def locate(self, document: str, label: str, rule: str, score: float = 1.0) -> None:
        """Count a field whose words are known; those of a score below 1 are listed."""
        self.located[label][quality_of(rule)] += 1
        if score < 1:
            self.loose.append((document, label, round(score, 3)))

    def miss(self, document: str, label: str, reason: str, name: str | None = None) -> None:
        """Count and list a field without words, by `name` where it has one."""
        self.not_located[label][reason] += 1
        self.unlocated.append((document, name or label, reason))


@dataclass(frozen=True)
class Assembly:
    """Makes the documents of pages, and counts for the report.

    Attributes:
        task: task that they are made for.
        report: takes counts of fields and notes, and sentences that the owner should read.
        labels: labels of fields, where the format fixes them; none: as found.
        tags: names of a tagger's labels in the model's order, where they are known.
        boxes: the unit of boxes that do not say it; None: recognised by the range of all.
        strict: refuse boxes that are no boxes of their page; else they are cut.
    """

    task: TaskKind
    report: ImportReport
    labels: Sequence[str] = ()
    tags: Sequence[str] = ()
    boxes: Unit | None = None
    strict: bool = True

    def documents(
        self, groups: Sequence[Sequence[Page]], problems: Problems
    ) -> dict[str, Document]:
        """Make a document of each page, by its name; all are public until they are divided.

        Args:
            groups: the pages of each source; those of one source have boxes of one unit, unless
                they say it.
            problems: problems of the sources so far.

        Raises:
            ManifestError: pages, or what was read before, have problems.
            UsageError: no page can be used.
        """
        pages = list(chain.from_iterable(groups))
        _check_names(pages, problems)
        self._use_plain_labels(pages)
        n_unanswered = sum(page.unanswered for page in pages)
        self.report.notes["questions without an answer, left out"] += n_unanswered
        used_pages = [page for page in pages if self._is_used(page)]
        sizes = _page_sizes(used_pages, problems)
        self._set_units(groups, sizes)
        documents: dict[str, Document] = {}
        for page in used_pages:
            if page.image is None or page.name in sizes:
                with problems.catch(f"{page.place}:"):
                    documents[page.name] = self._document(page, sizes.get(page.name))
        problems.raise_if_any()
        if not used_pages:
            raise UsageError(f"no page can be used for the task {self.task}")
        self._warn_of_wordless(used_pages)
        return documents

    def _use_plain_labels(self, pages: Sequence[Page]) -> None:
        """Spell labels of fields as the model's are spelled, where case alone differs."""
        plain = plain_labels(self.tags)
        for page in pages:
            page.fields = [
                replace(field, label=plain.get(field.label.lower(), field.label))
                for field in page.fields
            ]

    def _warn_of_wordless(self, pages: Sequence[Page]) -> None:
        """Tell the owner of pages without words, where the task or the fields need words."""
        wordless = [page for page in pages if not page.words]
        if not wordless:
            return
        n_with_fields = sum(bool(page.fields) for page in wordless)
        if self.task in ASKING:
            warning = TEXTS["ocr"].format(n=len(wordless), pages=len(pages))
        elif wordless[0].document is not None:
            warning = TEXTS["wordless"].format(n=len(wordless), pages=len(pages))
        elif n_with_fields:
            warning = TEXTS["locating"].format(n=n_with_fields, first=WORDS_FIRST)
        else:
            return
        self.report.warnings.append(warning)

    def described_task(self, documents: Mapping[str, Document]) -> Task:
        """Describe the task for the manifest, with the labels of the model where they are known."""
        labelled = Task(self.task, tuple(self.tags))
        if self.tags and self.task in NAMED and not any(label_problems(labelled)):
            return labelled
        if self.task == "token-classification":
            return Task(self.task, task_labels(self._bio_tags()))
        if self.task == "spade-extraction":
            labels = self.labels or sorted({*self.report.fields} - {ANSWER})
            return Task(self.task, ("O", *labels))
        if self.task == "intent-slots":
            tags: set[str] = set()
            for document in documents.values():
                tags.update(document.tags or ())
            return Task(self.task, tuple(sorted(tags)))
        return Task(self.task)

    def _bio_tags(self) -> Sequence[str]:
        """Return the model's tags; without any, BIO tags made of the format's labels."""
        if self.tags or not self.labels:
            return self.tags
        tags = ["O"]
        for label in self.labels:
            tags += [f"B-{label}", f"I-{label}"]
        return tags

    def _is_used(self, page: Page) -> bool:
        """Test whether a page becomes a document; if not, count it with the reason."""
        reason = page.unusable
        if self.task == "document-classification" and page.label is None:
            reason = "pages without a class, left out"
        elif page.image is None and not page.words and not reason:
            reason = "pages with neither words nor image, left out"
        if reason:
            self.report.notes[reason] += 1
        if page.unusable:
            for field in page.fields:
                self.report.miss(page.name, field.label, field.lost)
        return not reason

    def _set_units(self, groups: Sequence[Sequence[Page]], sizes: Mapping[str, Size]) -> None:
        """Set the unit of boxes of pages that do not state it: the owner's, or recognised.

        Raises:
            UsageError: they do not tell it.
        """
        unstated = [_without_unit(group) for group in groups]
        boxes = [_sized_boxes(pages, sizes) for pages in unstated]
        units = [self.boxes] * len(groups) if self.boxes else recognise_units(boxes)
        for pages, sized, unit in zip(unstated, boxes, units, strict=True):
            n_boxes = sum(len(page_boxes) for _, page_boxes in sized)
            self.report.notes[f"boxes in {unit} of the page"] += n_boxes
            for page in pages:
                page.unit = unit

    def _document(self, page: Page, size: Size | None) -> Document:
        """Make the document of a page; its size is None without an image."""
        size = _size_for_boxes(page, size)
        places, words = self._words(page, size)
        image = None
        if page.image is not None:
            image = f"images/{page.name}{page.image.suffix.lower()}"
        if page.document is not None:
            document_words = words if len(words) == len(page.words) else page.document.words
            return replace(page.document, words=document_words, image=image, size=size)
        located = self._entities(page, places, words, size)
        questions = list(self._questions(page, words))
        if not questions and self.task in ASKING:
            questions = list(self._asked_fields(page, words, located))
        entities = tuple(entity for entity, _ in located.values())
        return Document(
            id=page.name,
            split="public",
            words=words,
            image=image,
            size=size,
            provider=page.provider,
            person=page.person,
            entities=entities if page.tags is None else (),
            links=self._links(page, entities),
            questions=tuple(questions),
            tags=page.tags,
            intent=page.intent,
            paragraphs=page.paragraphs,
            label=page.label,
            output=page.output,
        )

    def _links(self, page: Page, entities: Sequence[Entity]) -> tuple[tuple[str, str], ...]:
        """Return the links of a page between two entities; count them and the others."""
        names = {entity.id for entity in entities}
        links = tuple(
            (parent, child)
            for parent, child in page.links
            if parent != child and {parent, child} <= names
        )
        self.report.notes[LINKS] += len(links)
        self.report.notes[LINKS_LEFT_OUT] += len(page.links) - len(links)
        return links

    def _box(self, box: Box | None, page: Page, size: Size | None) -> Box | None:
        """Return a box in pixels of the page's image; None without one."""
        if box is None or size is None:
            return None
        return in_pixels(box, page.unit or "pixels", size, strict=self.strict)

    def _words(self, page: Page, size: Size | None) -> tuple[dict[int, int], tuple[Word, ...]]:
        """Return new indices of the words with text, by index on the page, and those words.

        All words have boxes, or none has.
        """
        texts = {index: text for index, word in enumerate(page.words) if (text := clean(word.text))}
        self.report.notes["words without text, left out"] += len(page.words) - len(texts)
        boxes = {index: self._box(page.words[index].box, page, size) for index in texts}
        if None in boxes.values():
            some = any(page.words[index].box for index in texts)
            self.report.notes[
                "pages on which some words have no box: no box of theirs was taken"
            ] += some
            boxes = dict.fromkeys(texts)
        places = {index: place for place, index in enumerate(texts)}
        words = [Word(text, boxes[index], page.words[index].after) for index, text in texts.items()]
        return places, tuple(words)

    def _entities(
        self, page: Page, places: Mapping[int, int], words: Sequence[Word], size: Size | None
    ) -> dict[int, tuple[Entity, str]]:
        """Return entities of located fields, by field number, each with the rule that located it.

        They stand under the number of their field.
        """
        model_labels = {*plain_labels(self.tags).values()} if task_labels(self.tags) else None
        used_words: set[int] = set()
        located: dict[int, tuple[Entity, str]] = {}
        for number, field in enumerate(page.fields):
            if model_labels is not None and field.label not in model_labels:
                self.report.miss(page.name, field.label, "not among the model's labels")
                continue
            region = self._box(field.box, page, size)
            location = _locate_field(field, places, words, region, used_words)
            if isinstance(location, str):
                self.report.miss(page.name, field.label, location)
                continue
            used_words.update(location.words)
            self.report.locate(page.name, field.label, location.rule, location.score)
            entity = Entity(
                field.id or f"e{number + 1}",
                field.label,
                field.category or category_of(field.label),
                location.words,
                attack=field.label.lower() not in UNATTACKED,
                person=field.person,
            )
            located[number] = (entity, location.rule)
        return located

    def _questions(self, page: Page, words: Sequence[Word]) -> Iterator[Question]:
        """Yield the questions of a page, and count in the report whether an answer is on it."""
        counts = Counter(question.id for question in page.questions)
        if max(counts.values(), default=0) > 1:
            raise ManifestError("two questions have one id")
        for question in page.questions:
            if is_on_page(question, words):
                self.report.locate(page.name, ANSWER, "whole words")
            else:
                self.report.miss(page.name, ANSWER, "not found" if words else NO_WORDS, question.id)
            yield question

    def _asked_fields(
        self, page: Page, words: Sequence[Word], located: Mapping[int, tuple[Entity, str]]
    ) -> Iterator[Question]:
        """Yield a question for each field with a value.

        Those of one label share a question and its answers.
        """
        numbers_by_label: dict[str, list[int]] = {}
        for number, field in enumerate(page.fields):
            if clean(field.value or ""):
                numbers_by_label.setdefault(field.label, []).append(number)
        for numbers in numbers_by_label.values():
            entity, rule = located.get(numbers[0], (None, ""))
            fields = [page.fields[number] for number in numbers]
            spelling = None
            if entity is not None and rule in SAME_VALUE:
                spelling = " ".join(words[index].text for index in entity.words)
            if not fields[0].phrasings:
                self.report.notes[MADE_OF_FIELDS] += 1
            yield _question_about(fields, entity, spelling)


def _check_names(pages: Sequence[Page], problems: Problems) -> None:
    """Add a problem for each page whose name another page has too."""
    counts = Counter(page.name for page in pages)
    repeated = [page.place for page in pages if counts[page.name] > 1]
    problems.add("", (f"{shown_path(place)}: another page has its name" for place in repeated))


def _page_sizes(pages: Sequence[Page], problems: Problems) -> dict[str, Size]:
    """Read the sizes of the pages' images, by name; faults are collected."""
    sizes: dict[str, Size] = {}
    for page in pages:
        if page.image is not None:
            with problems.catch(f"{page.place}:"):
                sizes[page.name] = page_size(page.image)
    return sizes


def _size_for_boxes(page: Page, size: Size | None) -> Size | None:
    """Return the size at which boxes are cut: the image's, or one that stands in for it.

    Raises:
        ManifestError: boxes in pixels have no image, or the page is no page of its image.
    """
    if size is None and any(page.boxes):
        if page.unit == "pixels":
            raise ManifestError("boxes in pixels, but no image to say of how many")
        size = WITHOUT_IMAGE
    if size is not None and page.shape is not None:
        check_extent(page.shape, size)
    return size


def _without_unit(pages: Sequence[Page]) -> list[Page]:
    """List the pages whose boxes are in a unit that they do not state."""
    return [page for page in pages if page.unit is None]


def _sized_boxes(pages: Sequence[Page], sizes: Mapping[str, Size]) -> list[SizedBoxes]:
    """Return the size of the image of each page, None without one, and the page's boxes."""
    return [(sizes.get(page.name), [*page.boxes]) for page in pages]


def _question_about(
    fields: Sequence[Field], entity: Entity | None, spelling: str | None
) -> Question:
    """Make the question that asks for the values of all fields of one label.

    Args:
        fields: fields with a value; the first one says how it is asked.
        entity: the entity of the first field, where it has one.
        spelling: the value of the first field in the page's own spelling, which answers the
            questions of the source too.
    """
    first = fields[0]
    answers = [clean(field.value or "") for field in fields]
    if first.phrasings:
        question, *paraphrases = first.phrasings
        if spelling is not None:
            answers.append(spelling)
    else:
        question = f"What is the {plain_words(first.label)}?"
        paraphrases = []
    category = None
    if entity is None:
        category = first.category or category_of(first.label)
    return Question(
        first.id or first.label,
        question,
        tuple(dict.fromkeys(answers)),
        None if entity is None else entity.id,
        category,
        tuple(paraphrases),
    )


def _locate_field(
    field: Field,
    places: Mapping[int, int],
    words: Sequence[Word],
    region: Box | None,
    used_words: set[int],
) -> Location | str:
    """Locate a field: by the words that it names, by those in its region, by its value.

    Else return the reason.
    """
    value = clean(field.value or "")
    if field.lost:
        return field.lost
    if field.words:
        return _locate_annotated(field, places, used_words)
    if not (region or value):
        return "absent"
    if not words:
        return NO_WORDS
    if region:
        location = _location_of_unused(
            words_inside(words, region), used_words, "words inside the region"
        )
        return location or "no word inside the region"
    return _locate_value(field, value, words, used_words)


def _locate_value(
    field: Field, value: str, words: Sequence[Word], used_words: set[int]
) -> Location | str:
    """Locate the value of a field among all words; else return the reason."""
    category = field.category or category_of(field.label)
    return locate(value, category, [word.text for word in words], used_words)


def _locate_annotated(
    field: Field, places: Mapping[int, int], used_words: set[int]
) -> Location | str:
    """Locate a field by the words that it names; else return the reason."""
    annotated = [places[index] for index in field.words if index in places]
    return _location_of_unused(annotated, used_words, "annotated") or "empty"


def _location_of_unused(indices: Sequence[int], used_words: set[int], rule: str) -> Location | str:
    """Return a location of those words that no other field uses; else the reason.

    Else the reason; an empty one where there are no words at all.
    """
    free = tuple(index for index in dict.fromkeys(indices) if index not in used_words)
    if free:
        return Location(free, rule)
    return "words of another field" if indices else ""
