"""Opening a checkpoint as a data set's manifest says it was trained."""

from __future__ import annotations

from functools import partial

from audit.corpus.canaries.schema import open_page
from audit.corpus.documents import ASKING, Corpus
from audit.errors import TargetError
from audit.targets.answering.loading import is_answering, load_answering
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.nlu.loading import is_nlu, load_nlu
from audit.targets.nlu.target import NluTarget

Checkpoint = EncoderTarget | AnsweringTarget | NluTarget
"""A target that was loaded from a folder."""


def target_of(
    folder: AnyFolder,
    corpus: Corpus,
    device: str = "cpu",
    batch_tokens: int | None = None,
    batch_rows: int | None = None,
) -> Checkpoint:
    """A checkpoint that was trained on the corpus's task.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        corpus: names the model's outputs, says how it was trained, and holds the page images.
        device: see `load`.
        batch_tokens: see `EncoderTarget`.
        batch_rows: see `AnsweringTarget` and `NluTarget`.

    Raises:
        TargetError: see `load`, `load_answering` and `load_nlu`.
    """
    folder = open_checkpoint(folder)
    if is_nlu(folder):
        return load_nlu(folder, device=device, labels=corpus.manifest.task.labels, batch_rows=batch_rows)
    if is_answering(folder):
        return load_answering(
            folder,
            device=device,
            prompt=corpus.manifest.recipe.prompt,
            batch_rows=batch_rows,
            images=partial(open_page, corpus),
        )
    return load(
        folder,
        device=device,
        labels=corpus.manifest.task.labels,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        batch_tokens=batch_tokens,
        images=partial(open_page, corpus),
    )


def encoder_of(
    folder: AnyFolder, corpus: Corpus, device: str = "cpu", batch_tokens: int | None = None
) -> EncoderTarget:
    """The same, where only an encoder will do.

    Raises:
        TargetError: it is no encoder, or see `target_of`.
    """
    target = target_of(folder, corpus, device, batch_tokens)
    if not isinstance(target, EncoderTarget):
        raise TargetError(f"{folder}: {target.card.architecture}: only an encoder can be attacked this way")
    return target


def check(target: Checkpoint, corpus: Corpus) -> None:
    """Refuse a corpus that the target cannot read, or that is for models of another task.

    Raises:
        ManifestError: pages lack the images that the model reads.
        TargetError: the model does not know the corpus's words, tags or intents, or is for another task.
    """
    check_task(target, corpus)
    if isinstance(target, EncoderTarget):
        target.encoder.check_vocabulary(corpus.documents)
    else:
        target.check(corpus)


def check_task(target: Checkpoint, corpus: Corpus) -> None:
    """Hold the manifest's task against what the model was trained to do.

    A model that writes may be asked questions, or for a page's whole output; a masked language model learns the words
    of a page, whatever tags its fields have.

    Raises:
        TargetError: the manifest names another task.
    """
    task, own = corpus.manifest.task, target.card.task
    others = {"question-answering": ASKING, "mlm": ("token-classification",)}
    if task.kind == own or task.kind in others.get(own, ()):
        return
    raise TargetError(
        f"the model is {target.card.architecture}, and manifest.toml says task.kind = {task.kind!r}",
        f'set [task] kind = "{own}" where the documents are what this model was trained on',
    )
