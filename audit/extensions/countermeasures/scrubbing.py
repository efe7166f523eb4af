"""Train on documents whose sensitive values were replaced by surrogates.

The sanitisation of training data that Ishihara (2023) surveys; its limits are those of the marks
(Brown et al. 2022): what nobody marked is not replaced. In a scrubbed document no value of four
characters or more (`is_searched`) is found by `find_answers`, without allowing for errors of an
OCR; shorter ones are replaced where a mark says that they stand.

The same audit before and after asks for the original values and shows the original pages. Somebody
who knows of scrubbing, its seed and a page can scrub the page likewise and show that: a scan of the
new model with the scrubbed data set, whose held-out pages are scrubbed too, is that attacker's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL.Image import Image

from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import Category, Corpus, Document, Question
from audit.corpus.folding import MIN_TEXT_LENGTH, fold
from audit.corpus.images import page_view
from audit.corpus.removal import draw_surrogates, runs
from audit.corpus.removal.matching import find_answers, normalise_ocr
from audit.engine.interface import Progress
from audit.errors import ManifestError
from audit.extensions.countermeasures.changed_data import train_on, write_changed
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense
from audit.extensions.countermeasures.surrogates import TABLES, Surrogates, core_of, replaceable

FOLDER = "scrubbed"
"""Where the images of scrubbed pages go."""


class Scrubbing(TrainingDefense):
    """Train on scrubbed documents.

    The seed need not be secret: no surrogate is computed from its value.
    """

    name = "scrub"
    title = "Scrubbed training documents"
    description = "trained on documents whose sensitive values were replaced by invented ones"

    def check(self, corpus: Corpus, start: Path) -> None:
        """Refuse documents in which nothing is to be scrubbed; images are not opened."""
        planted = planted_ids(corpus)
        members = (
            _scrubbed(document, 0, document.id in planted) for document in corpus.of("member")
        )
        _refuse_without_values(one for one in members if one is not None)

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train a model on the scrubbed documents."""
        write_data = partial(write_scrubbed, corpus)
        return train_on(
            write_data, corpus, start, out, self.name, [], device=device, progress=progress
        )


def write_scrubbed(corpus: Corpus, out: Path, *, seed: int = 0) -> None:
    """Write the data set with all its documents scrubbed.

    A document whose image shows a value that does not stand among its words, or there without a
    box, is left out, for nobody knows what to paint over.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one.
        seed: seed of the surrogates.

    Raises:
        ManifestError: no value is marked, or every member that has one is left out; an image cannot
            be opened; or the data set was scrubbed already.
        EngineError: `out` cannot be written.
    """
    planted = planted_ids(corpus)
    documents: list[Document] = []
    redrawn: dict[str, Callable[[], Image]] = {}
    results: list[Scrubbed] = []
    for number, document in enumerate(corpus.documents):
        scrubbed = _scrubbed(document, seed, document.id in planted)
        if scrubbed is None:
            continue
        results.append(scrubbed)
        made = scrubbed.document
        if made.image is not None and scrubbed.changed:
            made = replace(made, image=f"{FOLDER}/{number:06}.png")
            redrawn[str(made.image)] = partial(
                draw_surrogates, page_view(corpus, document), scrubbed.changed, made.words
            )
        documents.append(made)
    _refuse_without_values(results)
    write_changed(corpus, documents, out, suffix=FOLDER, redrawn=redrawn)


def _scrubbed(document: Document, seed: int, planted: bool) -> Scrubbed | None:
    """Scrub a document; return None where its image shows a value that cannot be painted over."""
    scrubbed = scrub(document, seed=seed, planted=planted)
    unboxed = any(document.words[index].box is None for index in scrubbed.changed)
    return None if document.image is not None and (scrubbed.not_found or unboxed) else scrubbed


def _refuse_without_values(results: Iterable[Scrubbed]) -> None:
    """Refuse results that replaced no value of any member document."""
    if not any(one.document.split == "member" and one.n_values for one in results):
        raise ManifestError(
            "no sensitive value of a member document can be replaced: there is nothing to scrub",
            "mark values as entities with a category, name slots for what they hold, or give answers and boxes",
        )


_ROUNDS = 50
_MIN_BARE = 3
"""Letters and digits of a searched value : those of 9.00."""


@dataclass(frozen=True, eq=False)
class Scrubbed:
    """A scrubbed document.

    Attributes:
        document: document with surrogates: as many words, in the same places; ids, marks, tags and
            links as they were.
        changed: indices of the words that are others now, ascending.
        n_values: sensitive values that it had, each as often as it is marked or asked for.
        not_found: those of them that do not stand among the words: an image may still show them.
    """

    document: Document
    changed: tuple[int, ...]
    n_values: int
    not_found: int = 0


def scrub(document: Document, *, seed: int, planted: bool = False) -> Scrubbed:
    """Return the document with surrogates for its sensitive values; the seed fixes them.

    The draws depend on `seed` and the document's id, never on a value: who knows the seed and this
    program, and guesses a value, cannot compute its surrogate from it beyond its form.

    Args:
        document: document as it was.
        seed: seed of the surrogates.
        planted: planted values, see `marked_values`.

    Raises:
        ManifestError: a value stands so densely among the words that it cannot be replaced.
    """
    marked = [*marked_values(document, planted=planted)]
    asked = [*asked_values(document)]
    work = _Work(
        document,
        [*marked, *asked],
        np.random.default_rng([seed, *f"surrogates/{document.id}".encode()]),
    )
    not_found = sum(not work.find(value) for value in asked)
    for value in sorted(marked, key=lambda value: -len(value.words)):
        for index, new in zip(
            value.places, work.surrogates.of_value(value.words, value.category), strict=True
        ):
            work.texts[index] = new
    work.clean(work.texts, document.id)
    words = tuple(
        word if word.text == text else replace(word, text=text)
        for word, text in zip(document.words, work.texts, strict=True)
    )
    questions = tuple(work.question(question) for question in document.questions)
    changed = tuple(index for index, word in enumerate(words) if word is not document.words[index])
    made = replace(document, words=words, questions=questions)
    return Scrubbed(made, changed, len(marked) + len(asked), not_found)


def is_searched(text: str) -> bool:
    """Return whether a value is long enough to be replaced wherever it occurs."""
    return (
        len(fold(text)) >= MIN_TEXT_LENGTH
        and len(normalise_ocr(text)) >= _MIN_BARE
        and replaceable(text)
    )


class _Work:
    """The words of a document while they are being replaced."""

    def __init__(
        self, document: Document, values: Sequence[SensitiveValue], rng: np.random.Generator
    ) -> None:
        """Sort out which of a document's values are replaced wherever they occur."""
        self.document = document
        self.before = [word.text for word in document.words]
        self.texts = [*self.before]
        self.surrogates = Surrogates(rng)
        self._values = {fold(value.text): value for value in values}
        texts = [value.text for value in values] + (
            [document.provider] if document.provider else []
        )
        long_enough = {text for text in texts if is_searched(text)}
        self.searched = sorted(long_enough, key=lambda text: (-len(text), text))

    def find(self, value: SensitiveValue) -> bool:
        """Test whether an answer is on the page; replace short and misread ones at once."""
        places = find_answers(self.before, [value.text], fuzzy=False)
        if places and value.text not in self.searched:
            for run in runs(places):
                self._replace_run(self.texts, run)
        if places:
            return True
        near = find_answers(self.before, [value.text])
        for index in near:
            self.texts[index] = self.surrogates.of_word(self.texts[index])
        return bool(near)

    def clean(self, texts: list[str], name: str) -> None:
        """Replace, in place, names of persons and whatever still equals or contains a value."""
        # The original words, so that no surrogate is taken for a person's name.
        was = self.before if texts is self.texts else texts
        for index, text in enumerate(texts):
            if core_of(text) in self.surrogates.names and text == was[index]:
                texts[index] = self.surrogates.of_word(text)
        for number in range(_ROUNDS):
            hits = find_answers(texts, self.searched, fuzzy=False)
            if not hits:
                return
            for run in runs(hits):
                if number < _ROUNDS // 2:
                    self._replace_run(texts, run)
                else:  # surrogates that are known hold each other's values
                    texts[run[0] : run[-1] + 1] = [
                        self.surrogates.anew(texts[index]) for index in run
                    ]
        raise ManifestError(
            f"document {name}: its values cannot all be replaced", "mark fewer or longer values"
        )

    def question(self, question: Question) -> Question:
        """Replace values in a question's text, paraphrases and answers."""
        answers = tuple(
            dict.fromkeys(self._answer(answer, question) for answer in question.answers)
        )
        asked, *others = (
            self._sentence(text) for text in (question.question, *question.paraphrases)
        )
        return replace(question, question=asked, answers=answers, paraphrases=tuple(others))

    def _replace_run(self, texts: list[str], run: Sequence[int]) -> None:
        """Replace, in place, the words of a run by the surrogates of the value they form."""
        words = [texts[index] for index in run]
        value = self._values.get(fold("".join(words)))
        if value is not None:
            new: Iterable[str] = self.surrogates.of_value(words, value.category)
        elif len(run) == 1:
            new = [self._within(words[0])]
        else:
            new = map(self.surrogates.of_word, words)
        for index, text in zip(run, new, strict=True):
            texts[index] = text

    def _within(self, word: str) -> str:
        """Replace a value within a word ("TOTAL:9.00") and keep the rest of the word."""
        for text in self.searched:
            match = re.search(re.escape(text), word, re.IGNORECASE)
            if match is not None:
                value = self._values.get(fold(text))
                new = self.surrogates.of_value(
                    [match[0]], None if value is None else value.category
                )
                return word[: match.start()] + new[0] + word[match.end() :]
        return self.surrogates.of_word(word)

    def _answer(self, answer: str, question: Question) -> str:
        """Return the replacement of an answer: the new words at its place, or its surrogate."""
        value = self._values.get(fold(answer))
        if value is None:
            return self._sentence(answer)
        places = self._indices_of_answer(answer, question)
        if places is not None and any(self.texts[index] != self.before[index] for index in places):
            return " ".join(self.texts[index] for index in places)
        return self._sentence(" ".join(self.surrogates.of_value(answer.split(), value.category)))

    def _indices_of_answer(self, answer: str, question: Question) -> Sequence[int] | None:
        """Return the indices of the words that show an answer; None where the page does not."""
        for entity in self.document.entities:
            if entity.id == question.entity and fold(self.document.text_of(entity)) == fold(answer):
                return entity.words
        folded = [*map(fold, self.before)]
        wanted = fold(answer)
        for start in range(len(folded)):
            text = ""
            for end in range(start, len(folded)):
                text += folded[end]
                if text == wanted:
                    return range(start, end + 1)
                if not wanted.startswith(text):
                    break
        return None

    def _sentence(self, text: str) -> str:
        """Replace the values in a text; return it unchanged where it holds none."""
        words = text.split()
        cleaned = [*words]
        self.clean(cleaned, self.document.id)
        return text if cleaned == words else " ".join(cleaned)


@dataclass(frozen=True)
class SensitiveValue:
    """A value that is to be replaced.

    Attributes:
        words: words as they are written.
        category: its kind; None: not known.
        places: indices of its words on the page, where a mark says so; (): wherever it stands.
    """

    words: tuple[str, ...]
    category: Category | None
    places: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Join the words by single spaces."""
        return " ".join(self.words)


def slot_category(label: str) -> Category | None:
    """Derive the category of a slot's values from its name, such as "B-account_number".

    None: not sensitive.
    """
    words = set(re.split(r"[^a-z]+", label.removeprefix("B-").removeprefix("I-").lower()))
    return next(
        (category for category, known in TABLES["slots"].items() if words & {*known.split()}), None
    )


def marked_values(document: Document, *, planted: bool = False) -> Iterator[SensitiveValue]:
    """Yield the values whose place is annotated: fields, or slots where there are no fields.

    Args:
        document: document of any task.
        planted: whether it holds a canary: then no field of it is there for other attacks, and all
            are sensitive.
    """
    for entity in document.entities:
        if entity.attack or planted:
            words = tuple(document.words[index].text for index in entity.words)
            yield SensitiveValue(words, entity.category, entity.words)
    if not document.entities and document.tags is not None:
        for places in _spans(document.tags):
            category = slot_category(document.tags[places[0]])
            if category is not None:
                yield SensitiveValue(
                    tuple(document.words[index].text for index in places), category, places
                )


def asked_values(document: Document) -> Iterator[SensitiveValue]:
    """Yield the sensitive answers of a document's questions."""
    for question in document.questions:
        held = (entity.category for entity in document.entities if entity.id == question.entity)
        category = next(held, question.category)
        for answer in question.answers:
            # Names and numbers have a capital or a digit.
            telling = any(character.isdecimal() or character.isupper() for character in answer)
            if answer.split() and (category is not None or telling):
                yield SensitiveValue(tuple(answer.split()), category)


def _spans(tags: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Yield the word indices of each slot in BIO tags."""
    span: list[int] = []
    for index, tag in enumerate((*tags, "O")):
        continues = tag.startswith("I-") and bool(span) and tags[span[0]][2:] == tag[2:]
        if not continues and span:
            yield tuple(span)
            span = []
        if tag != "O":
            span.append(index)
