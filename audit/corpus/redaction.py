"""Redacted values and what stays around them.

See methods/redaction-context.md; Beltrame et al. 2024, section 4.2. Each value that may be attacked
is one span: hidden under a mask, in its sentence, or on a page with boxes in its lines. The other
values around it stay readable, unless the mask is "all". Sentences are divided by a small rule for
texts as courts write them: what it gets wrong makes a context longer or shorter, never a span
another one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise

import numpy as np
import numpy.typing as npt

from audit.corpus.bars import BarredPage, RedactionBar
from audit.corpus.documents import Category, Document, Entity, Mask
from audit.corpus.removal import runs

ABBREVIATION = re.compile(
    r"(?:adv|apps?|arts?|ca|cap|cf|ch|cl|co|col|corp|dept|dr|eds?|esq|et|fig|gen|gov|hon|inc|jr"
    r"|ltd?|messrs|mrs?|ms|mt"
    r"|nos?|nr|p|paras?|pp|prof|pt|reg|rep|rev|sect?|sen|sgt|sr|ste?|subs|v|viz|vols?|vs"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.",
    re.IGNORECASE,
)
"""Words that do not end a sentence with their full stop."""
_OPENING = "\"'“”‘’«([{"
_ENDS = re.compile(r"[.!?…]+[\"'”’»)\]}]*$")
_LETTERS_WITH_STOPS = re.compile(r"(?:[^\W\d_]\.)+$")
_NUMBERING = re.compile(r"\(?(?:\d+|[a-z]|[ivxlc]+)[.)]+$", re.IGNORECASE)


def sentence_starts(
    words: Sequence[str], paragraphs: Collection[int] = (), whole: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the index of the first word of every sentence, ascending; the first is 0.

    A word ends a sentence when it closes with ".", "!" or "?" and the next word begins with a
    capital or a digit, unless it is an `ABBREVIATION`, an initial ("J.", "U.K."), or the number of
    a paragraph that begins with it.

    Args:
        words: words of the text, in reading order.
        paragraphs: indices of words before which a sentence ends whatever the words are.
        whole: indices of words that belong to the same value as the word before: no sentence begins
            with them.
    """
    if not words:
        return ()
    starts = [0]
    for index in range(1, len(words)):
        if index in whole:
            continue
        if index in paragraphs or (
            _ends_sentence(words[index - 1], first=starts[-1] == index - 1)
            and _begins_sentence(words[index])
        ):
            starts.append(index)
    return tuple(starts)


def _ends_sentence(word: str, *, first: bool) -> bool:
    """Test whether a word ends a sentence; `first` is whether it begins one too."""
    if not _ENDS.search(word) or (first and _NUMBERING.match(word)):
        return False
    bare = word.lstrip(_OPENING)
    return not ABBREVIATION.fullmatch(bare) and not _LETTERS_WITH_STOPS.match(bare)


def _begins_sentence(word: str) -> bool:
    """Test whether a word may begin a sentence: by a capital or a digit, or by no letter."""
    bare = word.lstrip(_OPENING)
    return not bare or bare[0].isupper() or bare[0].isdigit()


STAR = "*"
"""Stands for a hidden character (paper, table 1)."""
FIXED = STAR * 5
"""A mask of one length (the paper does not say how long)."""
LINE_END = "\n"
"""Between the lines of a page's context; contexts of running text have none."""
TOLERANCE = 1.0
"""Pixels by which the width of a name and that of a mask may differ (Bland et al. 2023)."""


@dataclass(frozen=True)
class RedactedSpan:
    """One hidden value.

    Attributes:
        document: its id.
        entity: the id of the value within the document.
        category: what it is; what an attacker wants to recognise.
        before, after: what stays readable around it, words joined by single spaces, lines of a page
            by `LINE_END`.
        mask: what replaces it.
        n_characters: number of characters of the value, spaces between its words included.
        sentence: the document's id and the number of the sentence, or of the line, from 0.
        layout: the numbers named by `LAYOUT`, on pages with boxes; else empty.
        bar: bar on pages with boxes, what the value measures there, whatever the mask shows of it.
    """

    document: str
    entity: str
    category: Category
    before: str
    mask: str
    after: str
    n_characters: int
    sentence: tuple[str, int]
    layout: tuple[float, ...] = ()
    bar: RedactionBar | None = None

    @property
    def shown(self) -> RedactionBar | None:
        """Return the value's bar, where the mask is as long as the value; else None."""
        return self.bar if any(self.layout[2:]) else None

    @property
    def text(self) -> str:
        """Return the context with the mask in its place."""
        return self.before + self.mask + self.after


def redacted_spans(documents: Iterable[Document], mask: Mask) -> tuple[RedactedSpan, ...]:
    """Hide every value with `attack` set, in the order of documents and of their entities.

    Sentences are divided by `sentences`, within paragraphs and never inside a value. On pages with
    boxes the context is the value's lines and the nearest line above and below, when they are no
    further than `BLOCK`. Under masks of one length nothing may show how many lines a value fills:
    its context is its first line, the one above, and the next that has a readable word, however
    far. A value in several pieces is hidden in all of them; its context is that of the first.
    Values may overlap: what belongs to this one is hidden. Entities without words, or of white
    space alone, are left out.

    Args:
        documents: documents whose values are looked at.
        mask: "length": `STAR` for each character, the spaces between words included; "fixed":
            `FIXED`; "all": `FIXED`, and every other value of the context that may be attacked is
            hidden as well.
    """
    return tuple(chain.from_iterable(_spans(document, mask) for document in documents))


def is_page(document: Document) -> bool:
    """Test whether the document has boxes: its context then is lines, not sentences."""
    return any(word.box is not None for word in document.words)


def fits(
    width: float, character: float, lengths: npt.ArrayLike, tolerance: float = TOLERANCE
) -> int:
    """Count the names of a dictionary that are as wide as a mask (Bland et al. 2023).

    A name is taken to be as wide as its characters times the average one around the mask: for the
    values of FUNSD's scans that is off by 6.6 pixels in the median, so fewer names are kept than an
    attacker with the typeface keeps.

    Args:
        width: width of the mask, pixels.
        character: average width of a character in its line, pixels.
        lengths: (n_names,) characters of each name.
        tolerance: pixels by which the widths may differ.
    """
    return int(np.sum(np.abs(np.asarray(lengths, np.float64) * character - width) <= tolerance))


def _spans(document: Document, mask: Mask) -> Iterator[RedactedSpan]:
    """Yield the spans of a document's values that may be attacked."""
    attacked = [
        entity for entity in document.entities if entity.attack and document.text_of(entity).strip()
    ]
    if not attacked:
        return
    page = BarredPage(document) if is_page(document) else _Text(document, attacked)
    for entity in attacked:
        words = frozenset(entity.words)
        also_hidden = _words_beside(entity, attacked) if mask == "all" else []
        unread = words.union(*also_hidden)
        number, context = page.around(entity, mask, unread)
        before, hidden, after = _write_context(document, context, words, mask, also_hidden)
        layout, bar = page.layout(entity, mask, unread)
        yield RedactedSpan(
            document.id,
            entity.id,
            entity.category,
            before,
            hidden,
            after,
            len(document.text_of(entity)),
            (document.id, number),
            layout,
            bar,
        )


def _words_beside(entity: Entity, attacked: Sequence[Entity]) -> list[frozenset[int]]:
    """List the words of each other value that may be attacked, without those of this one."""
    words = frozenset(entity.words)
    return [frozenset(value.words) - words for value in attacked if value is not entity]


class _Text:
    """A running text, in sentences."""

    def __init__(self, document: Document, attacked: Sequence[Entity]) -> None:
        """Divide a document into sentences that show nothing of the attacked values."""
        self.document = document
        hidden: set[int] = set()
        within: set[int] = set()
        for entity in attacked:
            hidden.update(entity.words)
            for run in runs(entity.words):
                within.update(run[1:])
        # Where sentences begin must not show what is hidden: a capital, or a full stop.
        words = ["X" if index in hidden else word.text for index, word in enumerate(document.words)]
        starts = sentence_starts(words, frozenset(document.paragraphs), within)
        self.sentences = [range(start, end) for start, end in pairwise((*starts, len(words)))]
        self.number: dict[int, int] = {}
        for number, sentence in enumerate(self.sentences):
            self.number |= dict.fromkeys(sentence, number)

    def around(
        self, entity: Entity, mask: Mask, unread: Collection[int]
    ) -> tuple[int, list[list[int]]]:
        """Return the number of the entity's sentence, and its words, as one line."""
        number = self.number[min(entity.words)]
        return number, [list(self.sentences[number])]

    def layout(
        self, entity: Entity, mask: Mask, unread: Collection[int]
    ) -> tuple[tuple[float, ...], RedactionBar | None]:
        """Return no layout and no bar: a text has none."""
        return (), None


def _write_context(
    document: Document,
    context: list[list[int]],
    words: Collection[int],
    mask: Mask,
    others: Iterable[Collection[int]],
) -> tuple[str, str, str]:
    """Write the context before the value, its mask, and the context after it.

    Where a value goes on after a mask of one length with nothing readable between, no other mask
    follows, and no line that would be empty: how many lines a value fills does not show.

    Args:
        document: the text or page.
        context: indices of words, by line.
        words: words of the value.
        mask: how it is hidden.
        others: words of the values that are hidden with it; of those that share a word, the first
            one's mask is shown.
    """
    owners: dict[int, int] = dict.fromkeys(words, 0)
    for number, other_words in enumerate(others, start=1):
        for index in other_words:
            owners.setdefault(index, number)
    writer = _ContextWriter(mask)
    for line_number, line in enumerate(context):
        writer.begin_line(is_first=line_number == 0)
        for owner, run in groupby(line, owners.get):
            writer.add(owner, [document.words[index].text for index in run])
    return writer.finish()


class _ContextWriter:
    """Writes a context piece by piece.

    Args:
        mask: how values are hidden.
    """

    def __init__(self, mask: Mask) -> None:
        """Start an empty context, in which values are replaced by `mask`."""
        self._mask: Mask = mask
        self._before: list[str] = []
        self._after: list[str] = []
        self._hidden: str | None = None
        self._last_owner: int | None = None
        """Whose mask was the last to be shown, nothing readable after it."""
        self._has_line_end = True

    def begin_line(self, *, is_first: bool) -> None:
        """Begin a line: an end of line is written before its first piece, but for the first."""
        self._has_line_end = is_first

    def add(self, owner: int | None, texts: Sequence[str]) -> None:
        """Write neighbouring words of a line, or the mask of the value that they belong to.

        Args:
            owner: number of the value that they are of, 0 for that in question; None: of no value.
            texts: the words.
        """
        if owner is not None and owner == self._last_owner and self._mask != "length":
            return
        if not self._has_line_end:
            self._pieces.append(LINE_END)
            self._has_line_end = True
        self._last_owner = owner
        if owner is None:
            self._pieces.extend(texts)
        elif owner == 0 and self._hidden is None:
            self._hidden = _mask(texts, self._mask)
        else:
            self._pieces.append(_mask(texts, self._mask))

    @property
    def _pieces(self) -> list[str]:
        """Return the pieces before the value, or those after it where its mask was written."""
        return self._before if self._hidden is None else self._after

    def finish(self) -> tuple[str, str, str]:
        """Return the context before the value, its mask, and the context after it."""
        assert self._hidden is not None
        before = _join_words(self._before, closed=True)
        return before, self._hidden, _join_words(self._after, closed=False)


def _mask(texts: Sequence[str], mask: Mask) -> str:
    """Return the mask of a value: stars of its length, or the text of one fixed length."""
    return STAR * len(" ".join(texts)) if mask == "length" else FIXED


def _join_words(texts: Sequence[str], *, closed: bool) -> str:
    """Join words by single spaces, lines by their ends alone, with a space on the mask's side."""
    text = " ".join(texts).replace(f" {LINE_END}", LINE_END).replace(f"{LINE_END} ", LINE_END)
    if closed:
        return text if not text or text.endswith(LINE_END) else f"{text} "
    return text if not text or text.startswith(LINE_END) else f" {text}"
