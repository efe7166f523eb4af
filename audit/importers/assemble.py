"""Documents of pages: boxes in pixels, fields located, questions asked, and the task that they teach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from audit.corpus.documents import ASKING, Box, Category, Document, Entity, Question, Task, TaskKind, Word
from audit.corpus.folding import is_on_page
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError, listed
from audit.importers.boxes import Size, check_shape, in_pixels, recognise
from audit.importers.files import page_size
from audit.importers.labels import UNATTACKED, category_of, plain_labels, plain_words, task_labels
from audit.importers.locate import Location, locate
from audit.importers.pages import Field, Page, Unit, clean
from audit.importers.report import FieldTally

ANSWER, ON_PAGE, ANNOTATED, REGION = "ANSWER", "whole words", "annotated", "words inside the region"
NO_WORDS = "no words on the page"
SAME_VALUE = frozenset({"exact", "punctuation", "equal amount", "equal date"})
"""Rules of `locate` whose words are the value itself in the page's own spelling, which is an answer too."""
WITHOUT_IMAGE: Size = (1000, 1000)
"""The size given to pages without an image whose boxes are shares or thousandths."""
UNITS_NOTED: Mapping[Unit, str] = {
    "pixels": "boxes taken as pixels of the image",
    "thousandths": "boxes from 0 to 1000, converted to pixels of the image",
    "shares": "boxes from 0 to 1, converted to pixels of the image",
}
MADE_OF_FIELDS = 'questions made of fields, as "What is the ...?": the model must have been asked so'
WORDS_FIRST = "write word files beside the images (tesseract PAGE.png PAGE hocr makes PAGE.hocr) and import again"
OCR_ADVICE = (
    "{n} of {pages} pages have no words, which removal of answers needs: add them with: docaudit ocr DATA_DIR (the new "
    "data set's folder)."
)
LOCATING_ADVICE = f"Fields cannot be located on {{n}} pages without words: {WORDS_FIRST}, or --task question-answering."
_TEACHES: Mapping[TaskKind, Callable[[Counter[str]], object]] = {
    "parsing": lambda found: found["output"],
    "question-answering": lambda found: found["questions"] or found["values"],
    "extractive-qa": lambda found: (found["questions"] or found["values"]) and found["words"],
    "token-classification": lambda found: found["fields"] and found["words"],
    "spade-extraction": lambda found: found["fields"] and found["words"],
    "document-classification": lambda found: found["class"],
    "mlm": lambda found: found["words"],
}
TASKS: tuple[TaskKind, ...] = tuple(_TEACHES)
"""Every task that a source may be made into whose task is recognised."""


def choose_task(name: str, pages: Sequence[Page], wanted: TaskKind | None) -> TaskKind:
    """Choose the task: the owner's, else the first that the source speaks of.

    Outputs to be written come first, then questions, labelled words, classes; fields without words are asked for.

    Args:
        name: of the format.
        pages: of the source.
        wanted: None where the owner named none.

    Raises:
        UsageError: the source has nothing to learn the task from, or nothing at all.
    """
    found: Counter[str] = Counter()
    for page in pages:
        found["words"] += bool(page.words)
        found["fields"] += bool(page.fields)
        found["values"] += any(field.value for field in page.fields)
        found["questions"] += bool(page.questions)
        found["class"] += page.label is not None
        found["output"] += page.output is not None
    counts = (
        f"of {len(pages)} pages, {found['words']} have words, {found['fields']} fields, {found['questions']} "
        f"questions, {found['class']} a class, {found['output']} an output"
    )
    fitting = [task for task, teaches in _TEACHES.items() if teaches(found)]
    if wanted is not None and wanted not in fitting:
        hints = [WORDS_FIRST] if found["fields"] and not found["words"] else []
        hints += [f"--task {listed(fitting, 'or')}"] if fitting else []
        raise UsageError(f"{name}: nothing to learn the task {wanted} from: {counts}", "; or ".join(hints))
    usual: list[TaskKind] = [] if found["questions"] else ["token-classification", "document-classification"]
    order: list[TaskKind] = ["parsing", *usual, "question-answering", "document-classification", "mlm"]
    chosen = wanted or next((task for task in order if task in fitting), None)
    if chosen is None:
        raise UsageError(f"{name}: nothing to learn a task from: {counts}")
    return chosen


class Assembly:
    """The documents of pages, with counts for the report.

    Args:
        task: that they are made for.
        labels: of fields, in the order of the report, where the format fixes them; none: as found.
        tags: names of a tagger's labels in the model's order, where they are known.
        boxes: the unit of boxes that do not say it; None: recognised by the range of all.
        strict: refuse boxes that are no boxes of their page; else they are cut.

    Attributes:
        fields: counted by label.
        notes: other counts.
        advice: sentences that the owner should read.
    """

    def __init__(
        self,
        task: TaskKind,
        *,
        labels: Sequence[str] = (),
        tags: Sequence[str] = (),
        boxes: Unit | None = None,
        strict: bool = True,
    ) -> None:
        self._task, self._labels, self._tags, self._boxes, self._strict = task, labels, tags, boxes, strict
        self._plain = plain_labels(tags)
        self._known = frozenset(self._plain.values()) if task_labels(tags) else None
        self._found: list[str] = []
        self.fields = FieldTally(())
        self.notes: Counter[str] = Counter()
        self.advice: list[str] = []

    def documents(self, groups: Sequence[Sequence[Page]], problems: Problems) -> dict[str, Document]:
        """Make one document a page, by its name; all are public until they are divided.

        Args:
            groups: the pages of each source; those of one source have boxes of one unit, unless they say it.
            problems: of the sources so far.

        Raises:
            ManifestError: pages, or what was read before, have problems.
            UsageError: no page can be used.
        """
        pages = [page for group in groups for page in group]
        repeated = [page for page, count in Counter(page.name for page in pages).items() if count > 1]
        problems.add("", (f"{page}: two pages have this name" for page in repeated))
        for page in pages:
            page.fields = [replace(one, label=self._plain.get(one.label.lower(), one.label)) for one in page.fields]
        self._found = sorted({field.label for page in pages for field in page.fields})
        answers = [ANSWER] if any(page.questions for page in pages) else []
        self.fields = FieldTally([*self._labels, *self._found, *answers])
        self.notes["questions without an answer, left out"] = sum(page.unanswered for page in pages)
        kept = [page for page in pages if self._is_used(page)]
        sizes = _sizes(kept, problems)
        for group in groups:
            self._set_unit(group, sizes)
        documents: dict[str, Document] = {}
        for page in kept:
            if page.image is None or page.name in sizes:
                with problems.catch(f"{page.name}:"):
                    documents[page.name] = self._document(page, page.unit or "pixels", sizes.get(page.name))
        problems.raise_if_any()
        if not kept:
            raise UsageError(f"no page can be used for the task {self._task}")
        without = [page for page in kept if not page.words]
        if self._task in ASKING and without:
            self.advice.append(OCR_ADVICE.format(n=len(without), pages=len(kept)))
        elif lost := sum(bool(page.fields) for page in without):
            self.advice.append(LOCATING_ADVICE.format(n=lost))
        return documents

    def task(self, documents: Mapping[str, Document]) -> Task:
        """Describe the task for the manifest."""
        if self._task == "token-classification":
            fixed = [f"{prefix}-{label}" for label in self._labels for prefix in "BI"]
            return Task(self._task, task_labels(self._tags or (["O", *fixed] if fixed else ())))
        if self._task == "spade-extraction":
            return Task(self._task, ("O", *(self._labels or self._found)))
        if self._task == "intent-slots":
            return Task(self._task, tuple(sorted({tag for one in documents.values() for tag in one.tags or ()})))
        return Task(self._task)

    def _is_used(self, page: Page) -> bool:
        reason = page.unusable
        if self._task == "document-classification" and page.label is None:
            reason = "pages without a class, left out"
        elif page.image is None and not page.words and not reason:
            reason = "pages with neither words nor image, left out"
        if reason:
            self.notes[reason] += 1
            for one in page.fields if page.unusable else ():
                self.fields.miss(page.name, one.label, one.lost)
        return not reason

    def _set_unit(self, pages: Sequence[Page], sizes: Mapping[str, Size]) -> None:
        """Give pages that do not say it the unit of their boxes: the owner's, or recognised."""
        unknown = [page for page in pages if page.unit is None]
        boxes = [(sizes.get(page.name), [*_boxes_of(page)]) for page in unknown]
        number = sum(len(own) for _, own in boxes)
        unit = self._boxes or recognise(boxes)
        if number:
            self.notes[UNITS_NOTED[unit]] += number
        for page in unknown:
            page.unit = unit

    def _document(self, page: Page, unit: Unit, size: Size | None) -> Document:
        if size is None and any(_boxes_of(page)):
            if unit == "pixels":
                raise ManifestError("boxes in pixels, but no image to say of how many")
            size = WITHOUT_IMAGE
        if size is not None:
            check_shape(page.shape, size)
        places, words = self._words(page, unit, size)
        entities, held = self._entities(page, places, words, unit, size)
        return Document(
            id=page.name,
            split="public",
            words=words,
            image=None if page.image is None else f"images/{page.name}{page.image.suffix.lower()}",
            size=size,
            provider=page.provider,
            entities=entities,
            links=page.links,
            questions=tuple(self._questions(page, words, held)),
            tags=page.tags,
            intent=page.intent,
            paragraphs=page.paragraphs,
            label=page.label,
            output=page.output,
        )

    def _words(self, page: Page, unit: Unit, size: Size | None) -> tuple[dict[int, int], tuple[Word, ...]]:
        """By index on the page the index of every word with text, and these words; all with boxes, or none."""
        texts = {index: text for index, word in enumerate(page.words) if (text := clean(word.text))}
        if len(texts) < len(page.words):
            self.notes["words without text, left out"] += len(page.words) - len(texts)
        without = sum(page.words[index].box is None for index in texts)
        if 0 < without < len(texts):
            self.notes["pages on which some words have no box: no box of theirs was taken"] += 1
        words = []
        for index, text in texts.items():
            box = page.words[index].box
            boxed = box is not None and size is not None and not without
            words.append(
                Word(text, in_pixels(box, unit, size, strict=self._strict) if boxed and box and size else None)
            )
        return {index: place for place, index in enumerate(texts)}, tuple(words)

    def _entities(
        self, page: Page, places: Mapping[int, int], words: Sequence[Word], unit: Unit, size: Size | None
    ) -> tuple[tuple[Entity, ...], dict[int, tuple[Entity, str]]]:
        """The entities of fields with words; by number of the field its entity and the rule that located it."""
        taken: set[int] = set()
        held: dict[int, tuple[Entity, str]] = {}
        for number, one in enumerate(page.fields):
            if self._known is not None and one.label not in self._known:
                self.fields.miss(page.name, one.label, "not among the model's labels")
                continue
            category = one.category or category_of(one.label)
            region = None if one.box is None or size is None else in_pixels(one.box, unit, size, strict=self._strict)
            found, rule, score = _find(one, category, places, words, region, taken)
            if not found:
                self.fields.miss(page.name, one.label, rule)
                continue
            taken.update(found)
            self.fields.locate(one.label, rule, page.name, score)
            attack = one.label.lower() not in UNATTACKED
            held[number] = (Entity(one.id or f"e{number + 1}", one.label, category, found, attack=attack), rule)
        entities = () if page.tags is not None else tuple(entity for entity, _ in held.values())
        return entities, held

    def _questions(
        self, page: Page, words: Sequence[Word], held: Mapping[int, tuple[Entity, str]]
    ) -> Iterator[Question]:
        counts = Counter(question.id for question in page.questions)
        repeated = [name for name, count in counts.items() if count > 1]
        if repeated:
            raise ManifestError([f"question {name} occurs several times" for name in repeated])
        for question in page.questions:
            if is_on_page(question, words):
                self.fields.locate(ANSWER, ON_PAGE)
            else:
                self.fields.miss(page.name, ANSWER, "not found" if words else NO_WORDS, question.id)
            yield question
        if not page.questions and self._task in ASKING:
            yield from self._asked_fields(page, words, held)

    def _asked_fields(
        self, page: Page, words: Sequence[Word], held: Mapping[int, tuple[Entity, str]]
    ) -> Iterator[Question]:
        """Yield a question for each field with a value; those of one label share a question and its answers."""
        numbers: dict[str, list[int]] = {}
        for number, one in enumerate(page.fields):
            if clean(one.value or ""):
                numbers.setdefault(one.label, []).append(number)
        for label, own in numbers.items():
            first = page.fields[own[0]]
            entity, rule = held.get(own[0], (None, ""))
            answers = [clean(page.fields[number].value or "") for number in own]
            asked, *paraphrases = first.phrasings or (f"What is the {plain_words(label)}?",)
            if not first.phrasings:
                self.notes[MADE_OF_FIELDS] += 1
            elif entity is not None and rule in SAME_VALUE:
                answers.append(" ".join(words[index].text for index in entity.words))
            yield Question(
                first.id or label,
                asked,
                tuple(dict.fromkeys(answers)),
                None if entity is None else entity.id,
                None if entity is not None else first.category or category_of(label),
                tuple(paraphrases),
            )


def _find(
    one: Field,
    category: Category,
    places: Mapping[int, int],
    words: Sequence[Word],
    region: Box | None,
    taken: set[int],
) -> tuple[tuple[int, ...], str, float]:
    """Find the words of a field, the rule that located them and their likeness; none, and the reason."""
    if one.lost:
        return (), one.lost, 0.0
    if one.words:
        own = tuple(places[index] for index in one.words if index in places)
        free = tuple(index for index in dict.fromkeys(own) if index not in taken)
        return free, ANNOTATED if free else "words of another field" if own else "empty", 1.0
    value = clean(one.value or "")
    if region is None and not value:
        return (), "absent", 0.0
    if not words:
        return (), NO_WORDS, 0.0
    if region is not None:
        inside = [index for index, word in enumerate(words) if word.box and _is_inside(word.box, region)]
        free = tuple(index for index in inside if index not in taken)
        return free, REGION if free else "words of another field" if inside else "no word inside the region", 1.0
    location = locate(value, category, [word.text for word in words], taken)
    if isinstance(location, Location):
        return location.words, location.rule, location.score
    return (), location.reason, 0.0


def _sizes(pages: Sequence[Page], problems: Problems) -> dict[str, Size]:
    """The sizes of the images of all pages that have one that can be read."""
    sizes: dict[str, Size] = {}
    for page in pages:
        if page.image is not None:
            with problems.catch(f"{page.name}:"):
                sizes[page.name] = page_size(page.image)
    return sizes


def _boxes_of(page: Page) -> Iterator[Box]:
    yield from (word.box for word in page.words if word.box is not None)
    yield from (one.box for one in page.fields if one.box is not None)


def _is_inside(box: Box, region: Box) -> bool:
    """Test whether the middle of a word's box is inside a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]
