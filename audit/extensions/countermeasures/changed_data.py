"""Countermeasures that train on a changed data set.

Extraction blocking, and few documents of each provider.

*Extraction blocking* (Pinto et al. 2024, section 4): for each training sample (I, Q, a) the
training set gains (I^-a, Q, "ANSWER NOT PRESENT"), so that there are up to twice as many steps. The
answer that it teaches may distinguish members from others:
`audit.extensions.countermeasures.scans.side_channel` measures that.

*Few documents of each provider*: what many documents repeat is memorised more: copies by Kandpal et
al. (2022), a provider's own words by Kandpal et al. (2024), who found that limiting each
contributor's share helps in part only.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL.Image import Image

from audit import __version__
from audit.corpus.documents import Corpus, Document, ReferencePaths
from audit.corpus.images import image_path, page_view
from audit.corpus.manifest import copy_image, load, write
from audit.corpus.near_copies import copies_among
from audit.corpus.problems import inside
from audit.corpus.removal import remove
from audit.engine.interface import Progress
from audit.errors import EngineError, ManifestError
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense

Redrawn = Mapping[str, Callable[[], Image]]
"""By the path of an image in the new data set, what opens its page."""
NOT_PRESENT = "ANSWER NOT PRESENT"
"""The answer that blocking teaches; the paper's words."""
BLOCKED = "blocked"
"""The folder of page images without their answers."""
MOST = 2
"""Documents of each provider that capping keeps: the fewest that show which parts of a page are the
provider's."""


def write_changed(
    corpus: Corpus,
    documents: Sequence[Document],
    out: Path,
    *,
    suffix: str,
    redrawn: Redrawn | None = None,
) -> None:
    """Write a data set of other documents, for training; references and canaries are left out.

    The audit takes the data set as it was, whose canary file the changed documents no longer fit.

    Args:
        corpus: the data set as it was.
        documents: documents of the new data set; an image that is not in `redrawn` is copied from
            the old one.
        out: the folder for it.
        suffix: ending of its name.
        redrawn: images that are new; opened one at a time.

    Raises:
        EngineError: `out` cannot be written.
        ManifestError: an image cannot be opened, or has the name of a new one.
    """
    redrawn = redrawn or {}
    taken = next((one.image for one in corpus.documents if one.image in redrawn), None)
    if taken is not None:
        raise ManifestError(f"{corpus.root} has {taken} already", "give the data set as it was")
    try:
        for document in documents:
            if document.image is None:
                continue
            if document.image in redrawn:
                path = inside(out.resolve(), document.image)
                path.parent.mkdir(parents=True, exist_ok=True)
                redrawn[document.image]().save(path)
            else:
                copy_image(image_path(corpus, document), out, document.image)
    except OSError as error:
        raise EngineError(
            f"{out}: {error.strerror or error}", "free some space or choose another folder"
        ) from None
    name = f"{corpus.manifest.name}-{suffix}"
    write(
        out,
        replace(corpus.manifest, name=name, references=ReferencePaths(), canaries=None),
        documents,
    )


def train_on(
    write_data: Callable[[Path], None],
    corpus: Corpus,
    start: Path,
    out: Path,
    name: str,
    settings: Sequence[object],
    *,
    device: str,
    progress: Progress,
) -> RetrainedModel:
    """Train a model from `start` on the changed data set that `write_data` writes.

    It is trained with the recipe of the audited one.

    Args:
        write_data: fills a folder with the changed data set.
        corpus: the data set as it was.
        start: what the audited model was fine-tuned from.
        out: gets the data set and the checkpoint, in folders named after what they depend on, once.
        name: name of the countermeasure, in the folders' names.
        settings: all that `write_data` depends on beside the data set, for `json.dumps`.
        device: "cpu", "cuda" or "mps".
        progress: advanced by every epoch.

    Raises:
        DocauditError: what `write_data` or the training raises.
    """
    from audit.references.recipes import key_of, made_once
    from audit.references.retrain import Retraining, recipe_for, retrain
    from audit.targets.opening import open_model

    key = key_of([corpus.sha256, name, *settings, __version__])
    data = load(made_once(out / f"{name}-data-{key}", write_data))
    opened = open_model(start, corpus)
    how = Retraining(recipe_for(data), device)

    def train(folder: Path) -> None:
        """Train the model on the changed data set's members, into `folder`."""
        progress.stage(f"training with {name}, epochs", how.recipe.epochs)
        retrain(how, opened, data, data.of("member"), folder, progress=progress)

    key = key_of([opened.sha256, data.sha256, how.as_json(), __version__])
    return RetrainedModel(made_once(out / f"{name}-{key}", train), data.root)


class Blocking(TrainingDefense):
    """Train on every question once more, on its page without the answer."""

    name = "blocking"
    title = "Extraction blocking"
    description = "taught to say when an answer is not on the page"
    teaches_refusal = True

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train a model on the documents without listed values."""
        write_data = partial(write_blocked, corpus)
        return train_on(
            write_data,
            corpus,
            start,
            out,
            self.name,
            [NOT_PRESENT],
            device=device,
            progress=progress,
        )

    def refuses(self, answer: str) -> bool:
        """Test whether a reply is `NOT_PRESENT`, whatever its case and spacing."""
        return " ".join(answer.split()).casefold() == NOT_PRESENT.casefold()


def write_blocked(corpus: Corpus, out: Path) -> None:
    """Write a data set with copies of pages without the answer, answered `NOT_PRESENT`.

    A model with extraction blocking is trained on it.

    Every question of a member or public document whose answer can be removed becomes a document of
    its own: the page without the answer, in the split of its document, with that one question,
    answered `NOT_PRESENT`. Public documents get such copies too, so that `train_baseline` on the
    written data set gives the baselines of a model with extraction blocking. Left out are answers
    that are not found, that stand on an image without a box, or that are all that is on the page:
    the refusal must not be taught on a page that shows the answer.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one, empty or missing.

    Raises:
        EngineError: `out` cannot be written.
        ManifestError: no answer can be removed; an image cannot be opened; or copies would
            overwrite images.
    """
    copies: list[Document] = []
    redrawn: dict[str, Callable[[], Image]] = {}
    for document in corpus.of("member", "public"):
        page = page_view(corpus, document)
        for question in document.questions:
            removal = remove(page, question.answers)
            view = removal.view
            painted = removal.view.open_page
            shown = (
                not view.words
                if page.open_page is None
                else len(removal.boxes) < len(removal.words)
            )
            if not removal.words or shown:
                continue
            image = None
            if (
                painted is not None
            ):  # not `view.image`, which would stay in memory until all are written
                image = f"{BLOCKED}/{len(copies):06}.png"
                redrawn[image] = painted
            name = f"{document.id}-{len(copies):06}-{BLOCKED}"
            given = document.provider
            asked = replace(question, answers=(NOT_PRESENT,), entity=None, category=None)
            copies.append(
                Document(
                    name, document.split, view.words, image, view.size, given, questions=(asked,)
                )
            )
    if not copies:
        raise ManifestError(
            "no answer could be removed from its page: there is nothing to block",
            "give the pages' words, and their boxes where pages have images",
        )
    write_changed(corpus, [*corpus.documents, *copies], out, suffix=BLOCKED, redrawn=redrawn)


class Capping(TrainingDefense):
    """Train on few documents of each provider, without near copies."""

    name = "cap-providers"
    title = "Few documents of each provider"
    description = (
        f"trained on at most {MOST} documents of each provider and one of each group of near copies"
    )

    def train(
        self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress
    ) -> RetrainedModel:
        """Train a model on the documents with at most a few of each value."""
        write_data = partial(write_capped, corpus)
        return train_on(
            write_data, corpus, start, out, self.name, [MOST], device=device, progress=progress
        )


def cap(corpus: Corpus, documents: Sequence[Document]) -> tuple[Document, ...]:
    """Return at most `MOST` documents of each provider, and one of each group of near copies.

    Documents are taken in random order: one that copies another that was taken is passed over, then
    one whose provider has given enough. So a page of another provider can stand for a group of
    copies.

    Args:
        corpus: the data set.
        documents: documents of one split; those without a provider are not limited.

    Returns:
        The chosen ones, in the order of `documents`.

    Raises:
        ManifestError: a page image cannot be opened.
    """
    copies: dict[str, set[str]] = {document.id: set() for document in documents}
    for one, other in copies_among(corpus, documents):
        copies[one].add(other)
        copies[other].add(one)
    chosen: set[str] = set()
    given = Counter[str]()
    for index in np.random.default_rng([0, *b"cap-providers"]).permutation(len(documents)):
        document = documents[index]
        if copies[document.id] & chosen or (
            document.provider is not None and given[document.provider] >= MOST
        ):
            continue
        chosen.add(document.id)
        given.update([document.provider] if document.provider is not None else [])
    return tuple(document for document in documents if document.id in chosen)


def write_capped(corpus: Corpus, out: Path) -> None:
    """Write the data set with its member and public documents capped.

    Held-out ones are copied as they are.

    Public documents are capped too, so that `train_baseline` gives baselines of a capped model.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one.

    Raises:
        ManifestError: no member is left out, so that nothing would change; or an image cannot be
            opened.
        EngineError: `out` cannot be written.
    """
    members, public = (cap(corpus, corpus.of(split)) for split in ("member", "public"))
    if len(members) == len(corpus.of("member")):
        raise ManifestError(
            f"no provider gave more than {MOST} training documents, and none is a near copy: nothing would be left out",
            "name each document's provider in documents.jsonl, or choose another countermeasure",
        )
    chosen = {document.id for document in (*members, *public)}
    documents = [
        document
        for document in corpus.documents
        if document.split == "heldout" or document.id in chosen
    ]
    write_changed(corpus, documents, out, suffix="capped")
