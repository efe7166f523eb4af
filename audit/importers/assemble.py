"""Documents of pages: boxes in pixels, fields located, questions asked, and the task that they teach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from audit.corpus.documents import ASKING, Box, Category, Document, Entity, Question, Task, TaskKind, Word
from audit.corpus.folding import is_on_page
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError, listed
from audit.importers.boxes import Size, check_shape, in_pixels, recognise
from audit.importers.files import page_size
from audit.importers.labels import UNATTACKED, category_of, plain_labels, plain_words, task_labels
from audit.importers.locate import Location, locate
from audit.importers.pages import Field, Page, Unit, clean
from audit.importers.report import ImportReport

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
    "parsing": lambda found: found["an output"],
    "question-answering": lambda found: found["questions"] or found["values"],
    "extractive-qa": lambda found: (found["questions"] or found["values"]) and found["words"],
    "token-classification": lambda found: found["fields"] and found["words"],
    "spade-extraction": lambda found: found["fields"] and found["words"],
    "document-classification": lambda found: found["a class"],
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
    found = Counter(
        {
            "words": sum(bool(page.words) for page in pages),
            "fields": sum(bool(page.fields) for page in pages),
            "questions": sum(bool(page.questions) for page in pages),
            "a class": sum(page.label is not None for page in pages),
            "an output": sum(page.output is not None for page in pages),
        }
    )
    counts = f"of {len(pages)} pages, {found['words']} have words, " + ", ".join(
        f"{count} {what}" for what, count in found.items() if what != "words"
    )
    found["values"] = sum(any(field.value for field in page.fields) for page in pages)
    fitting = [task for task, teaches in _TEACHES.items() if teaches(found)]
    usual: list[TaskKind] = [] if found["questions"] else ["token-classification", "document-classification"]
    order: list[TaskKind] = ["parsing", *usual, "question-answering", "document-classification", "mlm"]
    chosen = wanted or next((task for task in order if task in fitting), None)
    if chosen in fitting:
        return chosen
    hints = [WORDS_FIRST] if found["fields"] and not found["words"] else []
    hints += [f"--task {listed(fitting, 'or')}"] if fitting else []
    raise UsageError(
        f"{name}: nothing to learn {f'the task {wanted}' if wanted else 'a task'} from: {counts}", "; or ".join(hints)
    )


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
        plain = plain_labels(self.tags)
        for page in pages:
            page.fields = [replace(one, label=plain.get(one.label.lower(), one.label)) for one in page.fields]
        self.report.notes["questions without an answer, left out"] += sum(page.unanswered for page in pages)
        kept = [page for page in pages if self._is_used(page)]
        sizes: dict[str, Size] = {}
        for page in kept:
            if page.image is not None:
                with problems.catch(f"{page.name}:"):
                    sizes[page.name] = page_size(page.image)
        for group in groups:
            self._set_unit(group, sizes)
        documents: dict[str, Document] = {}
        for page in kept:
            if page.image is None or page.name in sizes:
                with problems.catch(f"{page.name}:"):
                    documents[page.name] = self._document(page, sizes.get(page.name))
        problems.raise_if_any()
        if not kept:
            raise UsageError(f"no page can be used for the task {self.task}")
        without = [page for page in kept if not page.words]
        if self.task in ASKING and without:
            self.report.warnings.append(OCR_ADVICE.format(n=len(without), pages=len(kept)))
        elif lost := sum(bool(page.fields) for page in without):
            self.report.warnings.append(LOCATING_ADVICE.format(n=lost))
        return documents

    def described_task(self, documents: Mapping[str, Document]) -> Task:
        """Describe the task for the manifest."""
        if self.task == "token-classification":
            fixed = [f"{prefix}-{label}" for label in self.labels for prefix in "BI"]
            return Task(self.task, task_labels(self.tags or (["O", *fixed] if fixed else ())))
        if self.task == "spade-extraction":
            return Task(self.task, ("O", *(self.labels or sorted({*self.report.fields} - {ANSWER}))))
        if self.task == "intent-slots":
            return Task(self.task, tuple(sorted({tag for one in documents.values() for tag in one.tags or ()})))
        return Task(self.task)

    def _is_used(self, page: Page) -> bool:
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
        unknown = [page for page in pages if page.unit is None]
        boxes = [(sizes.get(page.name), [*_boxes_of(page)]) for page in unknown]
        unit = self.boxes or recognise(boxes)
        self.report.notes[UNITS_NOTED[unit]] += sum(len(own) for _, own in boxes)
        for page in unknown:
            page.unit = unit

    def _document(self, page: Page, size: Size | None) -> Document:
        if size is None and any(_boxes_of(page)):
            if page.unit == "pixels":
                raise ManifestError("boxes in pixels, but no image to say of how many")
            size = WITHOUT_IMAGE
        if size is not None:
            check_shape(page.shape, size)
        places, words = self._words(page, size)
        held = self._entities(page, places, words, size)
        questions = [*self._questions(page, words)]
        if not questions and self.task in ASKING:
            questions = [*self._asked_fields(page, words, held)]
        return Document(
            id=page.name,
            split="public",
            words=words,
            image=None if page.image is None else f"images/{page.name}{page.image.suffix.lower()}",
            size=size,
            provider=page.provider,
            entities=() if page.tags is not None else tuple(entity for entity, _ in held.values()),
            links=page.links,
            questions=tuple(questions),
            tags=page.tags,
            intent=page.intent,
            paragraphs=page.paragraphs,
            label=page.label,
            output=page.output,
        )

    def _box(self, box: Box | None, page: Page, size: Size | None) -> Box | None:
        """The box in pixels of the page's image; None without one."""
        if box is None or size is None:
            return None
        return in_pixels(box, page.unit or "pixels", size, strict=self.strict)

    def _words(self, page: Page, size: Size | None) -> tuple[dict[int, int], tuple[Word, ...]]:
        """By index on the page the index of every word with text, and these words; all with boxes, or none."""
        texts = {index: text for index, word in enumerate(page.words) if (text := clean(word.text))}
        self.report.notes["words without text, left out"] += len(page.words) - len(texts)
        boxes = {index: self._box(page.words[index].box, page, size) for index in texts}
        if None in boxes.values():
            some = any(page.words[index].box for index in texts)
            self.report.notes["pages on which some words have no box: no box of theirs was taken"] += some
            boxes = dict.fromkeys(texts)
        places = {index: place for place, index in enumerate(texts)}
        return places, tuple(Word(text, boxes[index]) for index, text in texts.items())

    def _entities(
        self, page: Page, places: Mapping[int, int], words: Sequence[Word], size: Size | None
    ) -> dict[int, tuple[Entity, str]]:
        """By number of the field its entity and the rule that located it, of the fields with words."""
        known = {*plain_labels(self.tags).values()} if task_labels(self.tags) else None
        taken: set[int] = set()
        held: dict[int, tuple[Entity, str]] = {}
        for number, one in enumerate(page.fields):
            if known is not None and one.label not in known:
                self.report.miss(page.name, one.label, "not among the model's labels")
                continue
            category = one.category or category_of(one.label)
            found, rule, score = _find(one, category, places, words, self._box(one.box, page, size), taken)
            if not found:
                self.report.miss(page.name, one.label, rule)
                continue
            taken.update(found)
            self.report.locate(page.name, one.label, rule, score)
            attack = one.label.lower() not in UNATTACKED
            held[number] = (Entity(one.id or f"e{number + 1}", one.label, category, found, attack=attack), rule)
        return held

    def _questions(self, page: Page, words: Sequence[Word]) -> Iterator[Question]:
        """Yield the page's own questions, counted by whether an answer is on the page."""
        counts = Counter(question.id for question in page.questions)
        repeated = [name for name, count in counts.items() if count > 1]
        if repeated:
            raise ManifestError([f"question {name} occurs several times" for name in repeated])
        for question in page.questions:
            if is_on_page(question, words):
                self.report.locate(page.name, ANSWER, ON_PAGE)
            else:
                self.report.miss(page.name, ANSWER, "not found" if words else NO_WORDS, question.id)
            yield question

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
                self.report.notes[MADE_OF_FIELDS] += 1
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
    value = clean(one.value or "")
    if one.lost or not (one.words or region or value):
        return (), one.lost or "absent", 0.0
    if one.words or (region and words):
        own = [places[index] for index in one.words if index in places]
        rule, reason = ANNOTATED, "empty"
        if not one.words and region:
            own = [index for index, word in enumerate(words) if word.box and _is_inside(word.box, region)]
            rule, reason = REGION, "no word inside the region"
        free = tuple(index for index in dict.fromkeys(own) if index not in taken)
        return free, rule if free else "words of another field" if own else reason, 1.0
    if not words:
        return (), NO_WORDS, 0.0
    location = locate(value, category, [word.text for word in words], taken)
    return (location.words, location.rule, location.score) if isinstance(location, Location) else ((), location, 0.0)


def _boxes_of(page: Page) -> Iterator[Box]:
    yield from (word.box for word in page.words if word.box is not None)
    yield from (one.box for one in page.fields if one.box is not None)


def _is_inside(box: Box, region: Box) -> bool:
    """Test whether the middle of a word's box is inside a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]
