"""Few documents of each provider, and one of each group of near copies: the model is trained on what is left.

What many documents repeat is remembered more firmly: copies by Kandpal et al. (2022), a provider's own words by Kandpal
et al. (2024), who found that limiting each contributor's share helps in part only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from audit.corpus.documents import Corpus, Document
from audit.corpus.near_copies import copies_among
from audit.engine.interface import Progress
from audit.errors import ManifestError, UsageError
from audit.extensions.countermeasures.changed_data import train_on, write_changed
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense

SUFFIX = "-capped"
MOST = 2
"""Documents of each provider: the fewest from which its fixed parts can be told from a page's own ."""


class Capping(TrainingDefense):
    """Training on few documents of each provider, without near copies.

    Args:
        most: documents of each provider that are kept, 1 or more; a document without a provider is kept.
        seed: of the choice among them.
    """

    name = "cap-providers"
    title = "Few documents of each provider"
    description = f"trained on at most {MOST} documents of each provider and one of each group of near copies"

    def __init__(self, most: int = MOST, seed: int = 0) -> None:
        if most < 1:
            raise UsageError(f"{most} documents of each provider: give 1 or more")
        self.most, self.seed = most, seed

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """See `TrainingDefense.train`."""

        def write_data(folder: Path) -> None:
            write_capped(corpus, folder, most=self.most, seed=self.seed)

        settings = [self.most, self.seed]
        return train_on(write_data, corpus, start, out, self.name, settings, device=device, progress=progress)


def cap(corpus: Corpus, documents: Sequence[Document], *, most: int, seed: int) -> tuple[Document, ...]:
    """Choose at most `most` documents of each provider, and one of each group of near copies.

    Documents are taken in random order: one that copies another that was taken is passed over, then one whose provider
    has given enough. So a page of another provider can stand for a group of copies.

    Args:
        corpus: the data set.
        documents: of one split.
        most: of each provider, 1 or more; documents without a provider are not limited.
        seed: of the order.

    Returns:
        Those that are kept, in the order of `documents`.

    Raises:
        ManifestError: a page image cannot be opened.
    """
    copies: dict[str, set[str]] = {document.id: set() for document in documents}
    for one, other in copies_among(corpus, documents):
        copies[one].add(other)
        copies[other].add(one)
    kept: set[str] = set()
    given = Counter[str]()
    for index in np.random.default_rng([seed, *b"cap-providers"]).permutation(len(documents)):
        document = documents[index]
        if copies[document.id] & kept or (document.provider is not None and given[document.provider] >= most):
            continue
        kept.add(document.id)
        given.update([document.provider] if document.provider is not None else [])
    return tuple(document for document in documents if document.id in kept)


def write_capped(corpus: Corpus, out: Path, *, most: int = MOST, seed: int = 0) -> None:
    """Write the data set with its member and public documents capped; held-out ones are copied as they are.

    Public documents are capped too, so that `train_baseline` gives baselines of a capped model.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one.
        most: see `cap`.
        seed: see `cap`.

    Raises:
        ManifestError: no member is left out, so that nothing would change; or an image cannot be opened.
        EngineError: `out` cannot be written.
    """
    members, public = (cap(corpus, corpus.of(split), most=most, seed=seed) for split in ("member", "public"))
    if len(members) == len(corpus.of("member")):
        raise ManifestError(
            f"no provider gave more than {most} member documents, and none is a near copy: nothing would be left out",
            "name each document's provider in documents.jsonl, or choose another countermeasure",
        )
    kept = {document.id for document in (*members, *public)}
    documents = [document for document in corpus.documents if document.split == "heldout" or document.id in kept]
    write_changed(corpus, documents, out, suffix=SUFFIX)
