"""Scrubbing: the model is trained on documents whose sensitive values were replaced by surrogates.

The sanitisation of training data that Ishihara (2023) surveys; its limits are those of the marks (Brown et al. 2022):
what nobody marked is not replaced.

The same audit before and after asks for the original values and shows the original pages. Somebody who knows of
scrubbing, its seed and a page can scrub the page likewise and show that: a scan of the new model with the scrubbed data
set, whose held-out pages are scrubbed too, is that attacker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from audit.defenses.interface import RetrainedModel, TrainingDefense
from audit.errors import ManifestError

if TYPE_CHECKING:
    from PIL.Image import Image

    from audit.corpus.documents import Corpus, Document
    from audit.corpus.surrogates.scrub import Scrubbed
    from audit.engine.interface import Progress

SUFFIX = "-scrubbed"
FOLDER = "scrubbed"
"""Where the images of scrubbed pages go."""


@dataclass(frozen=True)
class ScrubCounts:
    """Result of scrubbing a data set.

    Attributes:
        documents: those with a surrogate in them.
        values: sensitive values that were replaced, each as often as it is marked or asked for.
        left_out: documents that are not in the new data set: their image shows a value, and nobody knows where.
    """

    documents: int
    values: int
    left_out: int


class Scrubbing(TrainingDefense):
    """Training on scrubbed documents.

    Args:
        seed: of the surrogates. It need not be secret: no surrogate is computed from the value that it replaces.
    """

    name = "scrub"
    title = "Scrubbed training documents"
    description = "trained on documents whose sensitive values were replaced by invented ones"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def check(self, corpus: Corpus, start: Path) -> None:
        """See `TrainingDefense.check`; images are not opened."""
        from audit.corpus.canaries.schema import planted_ids

        planted = planted_ids(corpus)
        members = (_scrubbed(document, self.seed, document.id in planted) for document in corpus.of("member"))
        _refuse_nothing(one for one in members if one is not None)

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """See `TrainingDefense.train`."""
        from audit.defenses.changed_data import train_on

        def write_data(folder: Path) -> None:
            write_scrubbed(corpus, folder, seed=self.seed)

        return train_on(
            write_data,
            corpus,
            start,
            out,
            name=self.name,
            settings=[self.seed],
            device=device,
            progress=progress,
        )


def write_scrubbed(corpus: Corpus, out: Path, *, seed: int = 0) -> ScrubCounts:
    """Write the data set with all its documents scrubbed.

    A document whose image shows a value that does not stand among its words, or there without a box, is left out, for
    nobody knows what to paint over.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one.
        seed: of the surrogates.

    Raises:
        ManifestError: no value is marked, or every member that has one is left out; an image cannot be opened; or the
            data set was scrubbed already.
        EngineError: `out` cannot be written.
    """
    from audit.corpus.canaries.schema import planted_ids
    from audit.corpus.page_view import page_view
    from audit.corpus.surrogates.painting import draw_surrogates
    from audit.defenses.changed_data import write_changed

    if any((document.image or "").startswith(f"{FOLDER}/") for document in corpus.documents):
        raise ManifestError(f"{corpus.root} has images in {FOLDER}/ already", "give the data set as it was")
    planted = planted_ids(corpus)
    documents: list[Document] = []
    redrawn: dict[str, Callable[[], Image]] = {}
    found: list[Scrubbed] = []
    left_out = 0
    for number, document in enumerate(corpus.documents):
        scrubbed = _scrubbed(document, seed, document.id in planted)
        if scrubbed is None:
            left_out += 1
            continue
        found.append(scrubbed)
        made = scrubbed.document
        if made.image is not None and scrubbed.changed:
            made = replace(made, image=f"{FOLDER}/{number:06}.png")
            redrawn[str(made.image)] = partial(
                draw_surrogates, page_view(corpus, document), scrubbed.changed, made.words
            )
        documents.append(made)
    _refuse_nothing(found)
    write_changed(corpus, documents, out, suffix=SUFFIX, redrawn=redrawn)
    return ScrubCounts(sum(bool(one.changed) for one in found), sum(one.n_values for one in found), left_out)


def _scrubbed(document: Document, seed: int, planted: bool) -> Scrubbed | None:
    """The document scrubbed; None where its image shows a value that cannot be painted over."""
    from audit.corpus.surrogates.scrub import scrub

    scrubbed = scrub(document, seed=seed, planted=planted)
    unboxed = any(document.words[index].box is None for index in scrubbed.changed)
    return None if document.image is not None and (scrubbed.not_found or unboxed) else scrubbed


def _refuse_nothing(found: Iterable[Scrubbed]) -> None:
    if not any(one.document.split == "member" and one.n_values for one in found):
        raise ManifestError(
            "no sensitive value of a member document can be replaced: there is nothing to scrub",
            "mark values as entities with a category, name slots for what they hold, or give answers and boxes",
        )
