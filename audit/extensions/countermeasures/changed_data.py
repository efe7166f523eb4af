"""Training on a changed data set: written once, the model trained on it as the audited one was on its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from PIL.Image import Image

from audit import __version__
from audit.corpus.documents import Corpus, Document, ReferencePaths
from audit.corpus.images import image_path
from audit.corpus.manifest import load, write
from audit.corpus.problems import inside
from audit.corpus.publishing import copy_image
from audit.engine.interface import Progress
from audit.errors import EngineError
from audit.extensions.countermeasures.interface import RetrainedModel

Redrawn = Mapping[str, Callable[[], Image]]
"""By the path of an image in the new data set, what gives its page."""


def write_changed(
    corpus: Corpus, documents: Sequence[Document], out: Path, *, suffix: str, redrawn: Redrawn | None = None
) -> None:
    """Write a data set of other documents, for training; references and canaries are left out.

    What its documents were is audited on the data set as it was, whose canary file the changed ones no longer fit.

    Args:
        corpus: the data set as it was.
        documents: those of the new one; an image that is not in `redrawn` is copied from the old one.
        out: the folder for it.
        suffix: of its name.
        redrawn: images that are new; opened one at a time.

    Raises:
        EngineError: `out` cannot be written.
        ManifestError: an image cannot be opened.
    """
    redrawn = redrawn or {}
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
        raise EngineError(f"{out}: {error.strerror or error}", "free some space or choose another folder") from None
    name = f"{corpus.manifest.name}{suffix}"
    write(out, replace(corpus.manifest, name=name, references=ReferencePaths(), canaries=None), documents)


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
    """Train a model from `start`, with the recipe of the audited one, on the members of a changed data set.

    Args:
        write_data: fills a folder with the changed data set.
        corpus: the data set as it was.
        start: what the audited model was fine-tuned from.
        out: gets the data set and the checkpoint, in folders named after what they depend on, once.
        name: of the countermeasure, in the folders' names.
        settings: all that `write_data` depends on beside the data set, for `json.dumps`.
        device: "cpu", "cuda" or "mps".
        progress: told of every epoch.

    Raises:
        DocauditError: what `write_data` or the training raises.
    """
    from audit.references.recipes import key_of, made_once
    from audit.references.retrain import Retraining, recipe_for, retrain
    from audit.targets.opening import open_model

    how, opened = Retraining(recipe_for(corpus), device), open_model(start, corpus)
    key = key_of([corpus.sha256, name, *settings, __version__])
    data_dir = made_once(out / f"{name}-data-{key}", write_data)
    data = load(data_dir)

    def train(folder: Path) -> None:
        progress.stage(f"training with {name}, epochs", how.recipe.epochs)
        retrain(how, opened, data, data.of("member"), folder, progress=progress)

    key = key_of([opened.sha256, data.sha256, how.as_json(), __version__])
    return RetrainedModel(made_once(out / f"{name}-{key}", train), data_dir)
