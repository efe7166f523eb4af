"""Documents of pages: boxes in pixels, fields located, questions asked.

The task that they teach; the report.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from audit.corpus.documents import ASKING, Box, Document, Entity, Question, Task, TaskKind, Word
from audit.corpus.folding import is_on_page
from audit.corpus.problems import Problems
from audit.corpus.validation import label_problems
from audit.errors import ManifestError, UsageError, listed
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
    recognise_unit,
)

ANSWER = "ANSWER"
NO_WORDS = "no words on the page"
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
WORDS_FIRST = (
    "import again with --ocr eng (Tesseract), or with word files of another OCR beside the images"
)
_TEACHES: Mapping[TaskKind, Callable[[Counter[str]], object]] = {
    "parsing": lambda found: found["an output"],
    "question-answering": lambda found: found["questions"] or found["values"],
    "extractive-qa": lambda found: (found["questions"] or found["values"]) and found["words"],
    "token-classification": lambda found: found["fields"] and found["words"],
    "spade-extraction": lambda found: found["fields"] and found["words"],
    "document-classification": lambda found: found["a class"],
    "mlm": lambda found: found["words"],
}
NAMED: tuple[TaskKind, ...] = ("spade-extraction", "document-classification", "intent-slots")
"""Tasks whose labels are plain names."""
TASKS: tuple[TaskKind, ...] = tuple(_TEACHES)
"""Every task that a source may be made into whose task is recognised."""


Counts = defaultdict[str, Counter[str]]


@dataclass
class ImportReport:
    """Counts of an import.

    Counts of fields cover every document of the source, also those left out of all splits.

    Attributes:
        documents: by split, and "left out".
        located: by label, fields whose words are known, by the quality of their location
            (`locate.QUALITIES`).
        not_located: by label, the other fields by reason.
        unlocated: (document id, label, reason) of every field without words; no text.
        loose: (document id, label, likeness from 0 to 1) of every field that was located loosely;
            no text.
        duplicates: groups of documents with equal images, which stay in one split.
        notes: other counts that an owner wants to know.
        warnings: what must be true of the audited model, and what else the owner should read.
        task: of the manifest.
    """

    documents: dict[str, int] = field(default_factory=dict)
    located: Counts = field(default_factory=lambda: defaultdict(Counter))
    not_located: Counts = field(default_factory=lambda: defaultdict(Counter))
    unlocated: list[tuple[str, str, str]] = field(default_factory=list)
    loose: list[tuple[str, str, float]] = field(default_factory=list)
    duplicates: list[tuple[str, ...]] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    task: TaskKind | None = None

    @property
    def fields(self) -> dict[str, int]:
        """Number of fields of each label, located or not, by name of the label."""
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


def choose_task(name: str, pages: Sequence[Page], wanted: TaskKind | None) -> TaskKind:
    """Choose the task: the owner's, else the first that the source speaks of.

    Outputs to be written come first, then questions, labelled words, classes; fields without words
    are asked for.

    Args:
        name: of the format.
        pages: of the source.
        wanted: None where the owner named none.

    Raises:
        UsageError: the source has nothing to learn the task from, or nothing at all.
    """
    has: Mapping[str, Callable[[Page], object]] = {
        "words": lambda page: page.words,
        "fields": lambda page: page.fields,
        "questions": lambda page: page.questions,
        "a class": lambda page: page.label is not None,
        "an output": lambda page: page.output is not None,
        "values": lambda page: any(field.value for field in page.fields),
    }
    found = Counter({what: sum(bool(test(page)) for page in pages) for what, test in has.items()})
    fitting = [task for task, teaches in _TEACHES.items() if teaches(found)]
    usual: list[TaskKind] = (
        [] if found["questions"] else ["token-classification", "document-classification"]
    )
    order: list[TaskKind] = [
        "parsing",
        *usual,
        "question-answering",
        "document-classification",
        "mlm",
    ]
    chosen = wanted or next((task for task in order if task in fitting), None)
    if chosen in fitting:
        return chosen
    hints = [] if found["words"] else [WORDS_FIRST]
    hints += [f"--task {listed(fitting, 'or')}"] if fitting else []
    counts = f"of {len(pages)} pages, " + ", ".join(
        f"{count} have {what}" for what, count in found.items()
    )
    task = f"the task {wanted}" if wanted else "a task"
    raise UsageError(f"{name}: nothing to learn {task} from: {counts}", "; or ".join(hints))


@dataclass(frozen=True)
class Assembly:
    """Makes the documents of pages, and counts for the report.

    Attributes:
        task: that they are made for.
        report: takes counts of fields and notes, and sentences that the owner should read.
        labels: of fields, where the format fixes them; none: as found.
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
            problems: of the sources so far.

        Raises:
            ManifestError: pages, or what was read before, have problems.
            UsageError: no page can be used.
        """
        pages = [page for group in groups for page in group]
        counts = Counter(page.name for page in pages)
        repeated = [page.place for page in pages if counts[page.name] > 1]
        problems.add("", (f"{shown_path(place)}: another page has its name" for place in repeated))
        plain = plain_labels(self.tags)
        for page in pages:
            page.fields = [
                replace(one, label=plain.get(one.label.lower(), one.label)) for one in page.fields
            ]
        self.report.notes["questions without an answer, left out"] += sum(
            page.unanswered for page in pages
        )
        kept = [page for page in pages if self._is_used(page)]
        sizes: dict[str, Size] = {}
        for page in kept:
            if page.image is not None:
                with problems.catch(f"{page.place}:"):
                    sizes[page.name] = page_size(page.image)
        for group in groups:
            self._set_unit([page for page in group if page.unit is None], sizes)
        documents: dict[str, Document] = {}
        for page in kept:
            if page.image is None or page.name in sizes:
                with problems.catch(f"{page.place}:"):
                    documents[page.name] = self._document(page, sizes.get(page.name))
        problems.raise_if_any()
        if not kept:
            raise UsageError(f"no page can be used for the task {self.task}")
        without = [page for page in kept if not page.words]
        if without and (self.task in ASKING or without[0].document is not None):
            why = "ocr" if self.task in ASKING else "wordless"
            self.report.warnings.append(TEXTS[why].format(n=len(without), pages=len(kept)))
        elif lost := sum(bool(page.fields) for page in without):
            self.report.warnings.append(TEXTS["locating"].format(n=lost, first=WORDS_FIRST))
        return documents

    def described_task(self, documents: Mapping[str, Document]) -> Task:
        """Describe the task for the manifest, with the labels of the model where they are known."""
        known = Task(self.task, tuple(self.tags))
        if self.tags and self.task in NAMED and not any(label_problems(known)):
            return known
        if self.task == "token-classification":
            fixed = [f"{prefix}-{label}" for label in self.labels for prefix in "BI"]
            return Task(self.task, task_labels(self.tags or (["O", *fixed] if fixed else ())))
        if self.task == "spade-extraction":
            return Task(
                self.task, ("O", *(self.labels or sorted({*self.report.fields} - {ANSWER})))
            )
        if self.task == "intent-slots":
            return Task(
                self.task,
                tuple(sorted({tag for one in documents.values() for tag in one.tags or ()})),
            )
        return Task(self.task)

    def _is_used(self, page: Page) -> bool:
        """Test whether a document is made of a page; else count it with the reason."""
        reason = page.unusable
        if self.task == "document-classification" and page.label is None:
            reason = "pages without a class, left out"
        elif page.image is None and not page.words and not reason:
            reason = "pages with neither words nor image, left out"
        if reason:
            self.report.notes[reason] += 1
        for one in page.fields if page.unusable else ():
            self.report.miss(page.name, one.label, one.lost)
        return not reason

    def _set_unit(self, pages: Sequence[Page], sizes: Mapping[str, Size]) -> None:
        """Give pages that do not say it the unit of their boxes: the owner's, or recognised."""
        boxes = [(sizes.get(page.name), [*page.boxes]) for page in pages]
        unit = self.boxes or recognise_unit(boxes)
        self.report.notes[f"boxes in {unit} of the page"] += sum(len(found) for _, found in boxes)
        for page in pages:
            page.unit = unit

    def _document(self, page: Page, size: Size | None) -> Document:
        if size is None and any(page.boxes):
            if page.unit == "pixels":
                raise ManifestError("boxes in pixels, but no image to say of how many")
            size = WITHOUT_IMAGE
        if size is not None and page.shape is not None:
            check_extent(page.shape, size)
        places, words = self._words(page, size)
        image = None if page.image is None else f"images/{page.name}{page.image.suffix.lower()}"
        if page.document is not None:
            kept = words if len(words) == len(page.words) else page.document.words
            return replace(page.document, words=kept, image=image, size=size)
        located = self._entities(page, places, words, size)
        questions = [*self._questions(page, words)]
        if not questions and self.task in ASKING:
            questions = [*self._asked_fields(page, words, located)]
        return Document(
            id=page.name,
            split="public",
            words=words,
            image=image,
            size=size,
            provider=page.provider,
            entities=()
            if page.tags is not None
            else tuple(entity for entity, _ in located.values()),
            links=page.links,
            questions=tuple(questions),
            tags=page.tags,
            intent=page.intent,
            paragraphs=page.paragraphs,
            label=page.label,
            output=page.output,
        )

    def _box(self, box: Box | None, page: Page, size: Size | None) -> Box | None:
        """Return a box in pixels of the page's image; None without one."""
        if box is None or size is None:
            return None
        return in_pixels(box, page.unit or "pixels", size, strict=self.strict)

    def _words(self, page: Page, size: Size | None) -> tuple[dict[int, int], tuple[Word, ...]]:
        """Return the words with text, all with boxes or none, and their indices by those on the page."""
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
        return places, tuple(
            Word(text, boxes[index], page.words[index].after) for index, text in texts.items()
        )

    def _entities(
        self, page: Page, places: Mapping[int, int], words: Sequence[Word], size: Size | None
    ) -> dict[int, tuple[Entity, str]]:
        """Return the entity and the rule that located it, by number of the field, of the fields with words."""
        known = {*plain_labels(self.tags).values()} if task_labels(self.tags) else None
        taken: set[int] = set()
        located: dict[int, tuple[Entity, str]] = {}
        for number, one in enumerate(page.fields):
            if known is not None and one.label not in known:
                self.report.miss(page.name, one.label, "not among the model's labels")
                continue
            found = _locate_field(one, places, words, self._box(one.box, page, size), taken)
            if isinstance(found, str):
                self.report.miss(page.name, one.label, found)
                continue
            taken.update(found.words)
            self.report.locate(page.name, one.label, found.rule, found.score)
            attack = one.label.lower() not in UNATTACKED
            category = one.category or category_of(one.label)
            entity = Entity(
                one.id or f"e{number + 1}", one.label, category, found.words, attack=attack
            )
            located[number] = (entity, found.rule)
        return located

    def _questions(self, page: Page, words: Sequence[Word]) -> Iterator[Question]:
        """Yield the questions of a page, counted by whether an answer is on the page."""
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
        numbers: dict[str, list[int]] = {}
        for number, one in enumerate(page.fields):
            if clean(one.value or ""):
                numbers.setdefault(one.label, []).append(number)
        for label, same in numbers.items():
            first = page.fields[same[0]]
            entity, rule = located.get(same[0], (None, ""))
            answers = [clean(page.fields[number].value or "") for number in same]
            asked, *paraphrases = first.phrasings or (f"What is the {plain_words(label)}?",)
            if not first.phrasings:
                self.report.notes[MADE_OF_FIELDS] += 1
            elif entity is not None and rule in SAME_VALUE:
                answers.append(" ".join(words[index].text for index in entity.words))
            accepted = tuple(dict.fromkeys(answers))
            category = first.category or category_of(label) if entity is None else None
            holder = None if entity is None else entity.id
            yield Question(first.id or label, asked, accepted, holder, category, tuple(paraphrases))


def _locate_field(
    one: Field,
    places: Mapping[int, int],
    words: Sequence[Word],
    region: Box | None,
    taken: set[int],
) -> Location | str:
    """Locate a field: by the words that it names, by those in its region, by its value.

    Else return the reason.
    """
    value = clean(one.value or "")
    if one.lost or not (one.words or region or value):
        return one.lost or "absent"
    if one.words:
        inside, rule, reason = (
            [places[index] for index in one.words if index in places],
            "annotated",
            "empty",
        )
    elif not words:
        return NO_WORDS
    elif region:
        inside = [
            index for index, word in enumerate(words) if word.box and _is_inside(word.box, region)
        ]
        rule, reason = "words inside the region", "no word inside the region"
    else:
        return locate(
            value, one.category or category_of(one.label), [word.text for word in words], taken
        )
    free = tuple(index for index in dict.fromkeys(inside) if index not in taken)
    return Location(free, rule) if free else "words of another field" if inside else reason


def _is_inside(box: Box, region: Box) -> bool:
    """Test whether the middle of a word's box is inside a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]
