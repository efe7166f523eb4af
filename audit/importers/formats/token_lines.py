"""Lines of a token, its box and its label, parted by tabs, as DocBank has them.

DocBank's ten columns are the token, its box from 0 to 1000, three numbers of a colour, the font and
the label. Without colour and font the unit of the boxes is recognised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from audit.corpus.documents import Box, Word
from audit.errors import ManifestError
from audit.importers.columns import fields_of_tags
from audit.importers.faults import name_of
from audit.importers.files import read_tabbed
from audit.importers.pages import Field, Page

DOCBANK = 10
"""Columns of DocBank."""
WITHOUT_LABEL = 5
"""Columns of a token and its box alone."""
DRAWN = frozenset({"##LTFigure##", "##LTLine##"})
"""What DocBank has in the place of a token for a figure and a rule."""
DRAWN_LEFT_OUT = "figures and rules of DocBank, which have no words, left out"


@dataclass
class Tokens:
    """The tokens of a page.

    Attributes:
        words: the words with their boxes.
        labels: the label of each; none where the lines have no column of labels.
        is_docbank: whether the columns are DocBank's.
        n_drawn: number of lines of a figure or a rule.
    """

    words: list[Word] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    is_docbank: bool = False
    n_drawn: int = 0

    def fill(self, page: Page) -> None:
        """Give a page the words; neighbours of one label are a field."""
        page.words = self.words
        if self.is_docbank:
            page.unit = "thousandths"
        for label, inside in fields_of_tags(self.labels):
            value = " ".join(self.words[index].text for index in inside)
            page.fields.append(Field(label, inside, value=value))


def read_tokens(path: Path) -> Tokens | None:
    """Read a file of tokens; None where its first line is none.

    Raises:
        ManifestError: a later line is none.
    """
    tokens = Tokens()
    n_columns = 0
    for number, line in enumerate(read_tabbed(path).split("\n"), start=1):
        if not line.strip():
            continue
        cells = line.split("\t")
        box = _box_of(cells)
        if box is None and not n_columns:
            return None
        n_columns = n_columns or len(cells)
        if box is None or len(cells) != n_columns:
            place = f"{name_of(path)}:{number}"
            raise ManifestError(f"{place} is no token with a box, as the lines before it")
        _add_token(tokens, cells, box)
    if not n_columns:
        return None
    tokens.is_docbank = n_columns == DOCBANK
    return tokens


def _box_of(cells: Sequence[str]) -> Box | None:
    """Return the box in the cells behind a token; None where they are no numbers."""
    try:
        x0, y0, x1, y1 = map(float, cells[1:WITHOUT_LABEL])
    except ValueError:
        return None
    return (x0, y0, x1, y1)


def _add_token(tokens: Tokens, cells: Sequence[str], box: Box) -> None:
    """Add the token of a line to the others; count what is drawn on the page."""
    text = cells[0].strip()
    if text in DRAWN:
        tokens.n_drawn += 1
        return
    tokens.words.append(Word(text, box))
    if len(cells) > WITHOUT_LABEL:
        tokens.labels.append(cells[-1].strip())
