"""Documents of drafted pages: boxes in pixels, fields located, counts for the report, and the task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from audit.corpus.answers import is_on_page
from audit.corpus.documents import ASKING, Box, Category, Document, Entity, Question, Task, TrainingRecipe, Word
from audit.corpus.problems import Problems
from audit.errors import ManifestError, UsageError
from audit.importers.gathering.boxes import Size, Unit, check_shape, in_pixels, recognise
from audit.importers.gathering.choosing import WORDS_FIRST, choose_task
from audit.importers.gathering.drafts import DraftField, DraftPage, clean
from audit.importers.gathering.labels import category_of, is_attacked, plain_labels, plain_words, task_labels
from audit.importers.interface import ImportRequest, MakeDocument, SourceContents
from audit.importers.locating import Location, locate
from audit.importers.report import FieldTally
from audit.importers.source_files import page_size

ANSWER, ON_PAGE, ANNOTATED, REGION = "ANSWER", "whole words", "annotated", "words inside the region"
NO_WORDS = "no words on the page"
WITHOUT_IMAGE: Size = (1000, 1000)
"""The size given to pages without an image whose boxes are shares or thousandths."""
UNITS_NOTED: Mapping[Unit, str] = {
    "pixels": "boxes taken as pixels of the image",
    "thousandths": "boxes from 0 to 1000, converted to pixels of the image",
    "shares": "boxes from 0 to 1, converted to pixels of the image",
}
OCR_ADVICE = (
    "{n} of {pages} pages have no words, which removal of answers needs: add them with: docaudit ocr DATA_DIR (the new "
    "data set's folder)."
)
LOCATING_ADVICE = f"Fields cannot be located on {{n}} pages without words: {WORDS_FIRST}, or --task question-answering."


class Assembly:
    """The contents of a source, made of its drafted pages.

    Args:
        name: of the format, for messages.
        pages: with distinct names.
        request: as for `Source.read`.
        problems: of the source so far; raised with those of the pages.
        tags: names of a tagger's labels in the model's order, where the source says them.
    """

    def __init__(
        self,
        name: str,
        pages: Sequence[DraftPage],
        request: ImportRequest,
        problems: Problems,
        tags: Iterable[str] = (),
    ) -> None:
        self._pages, self._request, self._problems = pages, request, problems
        self._tags = request.options.labels or tuple(tags)
        self._notes: Counter[str] = Counter()
        repeated = [page for page, count in Counter(page.name for page in pages).items() if count > 1]
        problems.add("", (f"{page}: two pages have this name" for page in repeated))
        if not pages:
            problems.raise_if_any()
            raise UsageError(f"{name}: no page was found")
        try:
            self._task = choose_task(name, pages, request.task if request.task_given else None)
        except UsageError:
            problems.raise_if_any()  # for want of what could not be read
            raise
        unanswered = sum(page.unanswered for page in pages)
        if unanswered:
            self._notes["questions without an answer, left out"] = unanswered
        known = plain_labels(self._tags)
        for page in pages:
            page.fields = [replace(one, label=known.get(one.label.lower(), one.label)) for one in page.fields]
        self._known = frozenset(known.values()) if task_labels(self._tags) else None
        labels = sorted({field.label for page in pages for field in page.fields})
        self._fields = FieldTally([*labels, *([ANSWER] if any(page.questions for page in pages) else [])])

    def contents(
        self, notes: Mapping[str, int] | None = None, recipe: TrainingRecipe | None = None, advice: Sequence[str] = ()
    ) -> SourceContents:
        """Make one document a page.

        Args:
            notes: counts of the source for the report.
            recipe: what the source says of the training.
            advice: sentences that the owner should read.

        Raises:
            ManifestError: pages, or what was read before, have problems.
        """
        sizes = self._sizes()
        unit = self._unit(sizes)
        documents: dict[str, MakeDocument] = {}
        kept = [page for page in self._pages if self._is_used(page)]
        for page in kept:
            with self._problems.catch(f"{page.name}:"):
                documents[page.name] = self._document(page, page.unit or unit, sizes.get(page.name))
        self._problems.raise_if_any()
        if not kept:
            raise UsageError(f"no page can be used for the task {self._task}")
        self._notes.update({name: count for name, count in (notes or {}).items() if count})
        return SourceContents(
            self._described_task(),
            documents,
            self._fields,
            images={page.name: page.image for page in kept if page.image is not None},
            texts={page.name: " ".join(word.text for word in page.words) for page in kept if page.image is None},
            sources={page.name: page.source for page in kept if page.source is not None},
            parts={page.name: page.part or "train" for page in kept},
            providers={page.name: page.provider for page in kept},
            n_unusable=len(self._pages) - len(kept),
            notes=dict(self._notes),
            recipe=recipe or TrainingRecipe(),
            advice=(*advice, *self._advice(kept)),
        )

    def _advice(self, kept: Sequence[DraftPage]) -> Iterator[str]:
        without = sum(not page.words for page in kept)
        if without and self._task in ASKING:
            yield OCR_ADVICE.format(n=without, pages=len(kept))
        lost = sum(not page.words and bool(page.fields) for page in kept)
        if lost and self._task not in ASKING:
            yield LOCATING_ADVICE.format(n=lost)

    def _described_task(self) -> Task:
        if self._task == "token-classification":
            return Task(self._task, task_labels(self._tags))
        if self._task == "spade-extraction":
            labels = sorted({field.label for page in self._pages for field in page.fields})
            return Task(self._task, ("O", *labels))
        return Task(self._task)

    def _is_used(self, page: DraftPage) -> bool:
        if self._task == "document-classification" and page.label is None:
            self._notes["pages without a class, left out"] += 1
            return False
        if page.image is None and not page.words:
            self._notes["pages with neither words nor image, left out"] += 1
            return False
        return True

    def _sizes(self) -> dict[str, Size]:
        """The sizes of the images of all pages that have one."""
        sizes: dict[str, Size] = {}
        for page in self._pages:
            if page.image is not None:
                with self._problems.catch(f"{page.name}:"):
                    sizes[page.name] = page_size(page.image)
        return sizes

    def _unit(self, sizes: Mapping[str, Size]) -> Unit:
        """The unit of boxes that do not say it: the owner's, or recognised."""
        unknown = [page for page in self._pages if page.unit is None]
        boxes = {page.name: list(_boxes(page)) for page in unknown}
        number = sum(map(len, boxes.values()))
        stated = self._request.options.boxes
        unit = stated or recognise([(sizes.get(name), own) for name, own in boxes.items()])
        if number:
            self._notes[UNITS_NOTED[unit]] += number
        return unit

    def _document(self, page: DraftPage, unit: Unit, size: Size | None) -> MakeDocument:
        if size is None and page.image is not None:
            return partial(Document)  # its image is a problem already
        if size is None and any(_boxes(page)):
            if unit == "pixels":
                raise ManifestError("boxes in pixels, but no image to say of how many")
            size = WITHOUT_IMAGE
        if size is not None:
            check_shape(page.shape, size)
        indices, words = self._words(page, unit, size)
        regions = {id(one): in_pixels(one.box, unit, size) for one in page.fields if one.box is not None and size}
        entities, held = self._entities(page, indices, words, regions)
        questions = tuple(self._questions(page, words, held))
        return partial(
            Document,
            words=words,
            image=None if page.image is None else f"images/{page.name}{page.image.suffix.lower()}",
            size=size,
            provider=page.provider,
            entities=entities,
            questions=questions,
            label=page.label,
            output=page.output,
        )

    def _words(self, page: DraftPage, unit: Unit, size: Size | None) -> tuple[dict[int, int], tuple[Word, ...]]:
        """By index in the draft the index of every word with text, and these words; all of them with boxes, or none."""
        texts = {index: text for index, word in enumerate(page.words) if (text := clean(word.text))}
        if len(texts) < len(page.words):
            self._notes["words without text, left out"] += len(page.words) - len(texts)
        without = sum(page.words[index].box is None for index in texts)
        if 0 < without < len(texts):
            self._notes["pages on which some words have no box: no box of theirs was taken"] += 1
        words = []
        for index, text in texts.items():
            box = page.words[index].box
            boxed = box is not None and size is not None and not without
            words.append(Word(text, in_pixels(box, unit, size) if boxed and box and size else None))
        return {index: place for place, index in enumerate(texts)}, tuple(words)

    def _entities(
        self,
        page: DraftPage,
        indices: Mapping[int, int],
        words: Sequence[Word],
        regions: Mapping[int, Box],
    ) -> tuple[tuple[Entity, ...], dict[int, str]]:
        """Entities of the fields with words, and by field (its number on the page) the id of its entity."""
        taken: set[int] = set()
        entities: list[Entity] = []
        held: dict[int, str] = {}
        for number, one in enumerate(page.fields):
            if self._known is not None and one.label not in self._known:
                self._fields.miss(page.name, one.label, "not among the model's labels")
                continue
            category = one.category or category_of(one.label)
            found, rule, score = self._find(one, category, indices, words, regions, taken)
            if not found:
                self._fields.miss(page.name, one.label, rule)
                continue
            taken.update(found)
            self._fields.locate(one.label, rule, page.name, score)
            entity = Entity(f"e{number + 1}", one.label, category, found, attack=is_attacked(one.label))
            held[number] = entity.id
            entities.append(entity)
        return tuple(entities), held

    def _find(
        self,
        one: DraftField,
        category: Category,
        indices: Mapping[int, int],
        words: Sequence[Word],
        regions: Mapping[int, Box],
        taken: set[int],
    ) -> tuple[tuple[int, ...], str, float]:
        """The words of a field, the rule that found them and their likeness; none, and the reason."""
        if one.words:
            own = tuple(indices[index] for index in one.words if index in indices)
            free = tuple(index for index in dict.fromkeys(own) if index not in taken)
            return free, ANNOTATED if free else "words of another field" if own else "empty", 1.0
        if not words:
            return (), NO_WORDS, 0.0
        region = regions.get(id(one))
        if region is not None:
            inside = [index for index, word in enumerate(words) if word.box and _is_inside(word.box, region)]
            free = tuple(index for index in inside if index not in taken)
            reason = "words of another field" if inside else "no word inside the region"
            return free, REGION if free else reason, 1.0
        value = clean(one.value or "")
        if not value:
            return (), "absent", 0.0
        location = locate(value, category, [word.text for word in words], taken)
        if isinstance(location, Location):
            return location.words, location.rule, location.score
        return (), location.reason, 0.0

    def _questions(self, page: DraftPage, words: Sequence[Word], held: Mapping[int, str]) -> Iterator[Question]:
        names = Counter(question.identifier for question in page.questions)
        repeated = [str(name) for name, count in names.items() if count > 1]
        if repeated:
            raise ManifestError([f"question {name} occurs several times" for name in repeated])
        for number, draft in enumerate(page.questions):
            question = Question(draft.identifier or f"q{number + 1}", draft.question, draft.answers)
            if is_on_page(question, words):
                self._fields.locate(ANSWER, ON_PAGE)
            else:
                self._fields.miss(page.name, ANSWER, "not found" if words else NO_WORDS, question.id)
            yield question
        if not page.questions and self._task in ASKING:
            yield from self._asked_fields(page, held)

    def _asked_fields(self, page: DraftPage, held: Mapping[int, str]) -> Iterator[Question]:
        """A question for each field with a value; those of one label share a question and its answers."""
        answers: dict[str, list[str]] = {}
        first: dict[str, int] = {}
        for number, one in enumerate(page.fields):
            value = clean(one.value or "")
            if value:
                answers.setdefault(one.label, []).append(value)
                first.setdefault(one.label, number)
        for label, values in answers.items():
            entity = held.get(first[label])
            category = None if entity else page.fields[first[label]].category or category_of(label)
            text = f"What is the {plain_words(label)}?"
            yield Question(label, text, tuple(dict.fromkeys(values)), entity, category)
            self._notes['questions made of fields, as "What is the ...?": the model must have been asked so'] += 1


def _boxes(page: DraftPage) -> Iterator[Box]:
    yield from (word.box for word in page.words if word.box is not None)
    yield from (one.box for one in page.fields if one.box is not None)


def _is_inside(box: Box, region: Box) -> bool:
    """Whether the middle of a word's box is inside a region."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return region[0] <= x <= region[2] and region[1] <= y <= region[3]
