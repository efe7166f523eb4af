"""Character evasion as a countermeasure: letters of shared text exchanged for look-alikes (`audit.corpus.evasion`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from audit.corpus.evasion import NOTHING, EvasionCost, evaded, evasion_cost, folded, write_evaded
from audit.defenses.interface import DataDefense

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus, Document


class Evasion(DataDefense):
    """What was redacted is harder to tell for whoever does not know of it."""

    name = "evasion"
    title = "Character evasion"
    description = "whose letters look the same and are others"
    done = "evaded"
    undone = "look-alikes folded back"
    breaks = "search and screen readers"
    nothing = (NOTHING, "evasion is for text in small Latin letters")

    def rewrite(self, document: Document) -> Document:
        """See `DataDefense.rewrite`."""
        return evaded(document)

    def undo(self, document: Document) -> Document:
        """See `DataDefense.undo`."""
        return folded(document)

    def cost(self, documents: Iterable[Document]) -> EvasionCost:
        """See `DataDefense.cost`."""
        return evasion_cost(documents)

    def write(self, corpus: Corpus, dst: Path) -> None:
        """See `DataDefense.write`."""
        write_evaded(corpus, dst)


EVASION = Evasion()
