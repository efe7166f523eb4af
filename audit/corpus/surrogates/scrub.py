"""Scrubbing of a document: every sensitive value replaced by a surrogate, wherever it stands among the words.

After it no value of four characters or more (`is_searched`) is found by `find_answers`, without allowing for errors of
an OCR; shorter ones are replaced where a mark says that they stand. Values that nobody marked stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.corpus.documents import Document, Question, Word
from audit.corpus.folding import MIN_TEXT_LENGTH, fold
from audit.corpus.redaction.lines import runs
from audit.corpus.removal.matching import find_answers, normalise_ocr
from audit.corpus.surrogates.drawing import Surrogates, core_of, replaceable
from audit.corpus.surrogates.sensitive import SensitiveValue, asked_values, marked_values
from audit.errors import ManifestError

_ROUNDS = 50
_MIN_BARE = 3
"""Letters and digits of a searched value (ours): those of 9.00."""


@dataclass(frozen=True, eq=False)
class Scrubbed:
    """A scrubbed document.

    Attributes:
        document: with surrogates: as many words, in the same places; ids, marks, tags and links as they were.
        changed: indices of the words that are others now, ascending.
        n_values: sensitive values that it had, each as often as it is marked or asked for.
        not_found: of them, those that do not stand among the words: an image may still show them.
    """

    document: Document
    changed: tuple[int, ...]
    n_values: int
    not_found: int = 0


def scrub(document: Document, *, seed: int, planted: bool = False) -> Scrubbed:
    """Replace the sensitive values of a document; the same for the same document and seed.

    The draws depend on `seed` and the document's id, never on a value: who knows the seed and this program, and guesses
    a value, cannot compute its surrogate from it beyond its form.

    Args:
        document: as it was.
        seed: of the surrogates.
        planted: see `marked_values`.

    Raises:
        ManifestError: a value stands so densely among the words that it cannot be replaced.
    """
    marked, asked = [*marked_values(document, planted=planted)], [*asked_values(document)]
    work = _Work(document, [*marked, *asked], np.random.default_rng([seed, *f"surrogates/{document.id}".encode()]))
    not_found = sum(not work.find(value) for value in asked)
    for value in sorted(marked, key=lambda value: -len(value.words)):
        work.replace_marked(value)
    work.clean(work.texts, document.id)
    words = tuple(
        word if word.text == text else Word(text, word.box)
        for word, text in zip(document.words, work.texts, strict=True)
    )
    questions = tuple(work.question(question) for question in document.questions)
    changed = tuple(index for index, word in enumerate(words) if word is not document.words[index])
    made = replace(document, words=words, questions=questions)
    return Scrubbed(made, changed, len(marked) + len(asked), not_found)


def is_searched(text: str) -> bool:
    """True for a value that is replaced wherever it stands: shorter ones occur by chance."""
    return len(fold(text)) >= MIN_TEXT_LENGTH and len(normalise_ocr(text)) >= _MIN_BARE and replaceable(text)


class _Work:
    """The words of a document while they are being replaced."""

    def __init__(self, document: Document, values: Sequence[SensitiveValue], rng: np.random.Generator) -> None:
        self.document = document
        self.before = [word.text for word in document.words]
        self.texts = [*self.before]
        self.surrogates = Surrogates(rng)
        self._values = {fold(value.text): value for value in values}
        texts = [value.text for value in values] + ([document.provider] if document.provider else [])
        found = {text for text in texts if is_searched(text)}
        self.searched = sorted(found, key=lambda text: (-len(text), text))

    def find(self, value: SensitiveValue) -> bool:
        """True where an answer stands on the page; short ones and those that an OCR misread are replaced at once."""
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

    def replace_marked(self, value: SensitiveValue) -> None:
        """Replace a value in its own place."""
        for index, new in zip(value.places, self.surrogates.of_value(value.words, value.category), strict=True):
            self.texts[index] = new

    def clean(self, texts: list[str], name: str) -> None:
        """Replace, in place, names of persons and whatever still equals or contains a value."""
        for index, text in enumerate(texts):
            if core_of(text) in self.surrogates.names and text == self._was(texts, index):
                texts[index] = self.surrogates.of_word(text)
        for number in range(_ROUNDS):
            hits = find_answers(texts, self.searched, fuzzy=False)
            if not hits:
                return
            for run in runs(hits):
                if number < _ROUNDS // 2:
                    self._replace_run(texts, run)
                else:  # surrogates that are known hold each other's values
                    texts[run[0] : run[-1] + 1] = [self.surrogates.anew(texts[index]) for index in run]
        raise ManifestError(f"document {name}: its values cannot all be replaced", "mark fewer or longer values")

    def question(self, question: Question) -> Question:
        """The question with values replaced in its words and its answers."""
        answers = tuple(dict.fromkeys(self._answer(answer, question) for answer in question.answers))
        asked, *others = (self._sentence(text) for text in (question.question, *question.paraphrases))
        return replace(question, question=asked, answers=answers, paraphrases=tuple(others))

    def _was(self, texts: list[str], index: int) -> str:
        """The word as it was, so that no surrogate is taken for somebody's name."""
        return self.before[index] if texts is self.texts else texts[index]

    def _replace_run(self, texts: list[str], run: Sequence[int]) -> None:
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
        """A word that holds a value ("TOTAL:9.00"): what is around it stays."""
        for text in self.searched:
            found = re.search(re.escape(text), word, re.IGNORECASE)
            if found is not None:
                value = self._values.get(fold(text))
                new = self.surrogates.of_value([found[0]], None if value is None else value.category)
                return word[: found.start()] + new[0] + word[found.end() :]
        return self.surrogates.of_word(word)

    def _answer(self, answer: str, question: Question) -> str:
        """What now stands where the answer stood; its own surrogate where it stood nowhere as a whole."""
        value = self._values.get(fold(answer))
        if value is None:
            return self._sentence(answer)
        places = self._places(answer, question)
        if places is not None and any(self.texts[index] != self.before[index] for index in places):
            return " ".join(self.texts[index] for index in places)
        return self._sentence(" ".join(self.surrogates.of_value(answer.split(), value.category)))

    def _places(self, answer: str, question: Question) -> Sequence[int] | None:
        for entity in self.document.entities:
            if entity.id == question.entity and fold(self.document.text_of(entity)) == fold(answer):
                return entity.words
        folded, wanted = [*map(fold, self.before)], fold(answer)
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
        """A text with values replaced; untouched where it holds none."""
        words = text.split()
        cleaned = [*words]
        self.clean(cleaned, self.document.id)
        return text if cleaned == words else " ".join(cleaned)
