"""The shadow target: a model like the audited one whose training documents are all public.

What an attack's parameters are fitted on must not be what it is judged on
(methods/reconstruction.md#ours).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from audit import __version__
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, TargetError
from audit.references.encoders import BestLoss, fit, save
from audit.references.load import AuditedModel, check_image_input, check_tokens, locate
from audit.references.provenance import refuse_the_target
from audit.references.recipes import Recipe, key_of, made_once, starting_model
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import config_of, page_images_of
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FillMask
from audit.targets.opening import open_model
from benchmarks.tools.starts import start_with_images

MIN_DOCUMENTS = 10
"""A half with fewer documents says nothing about parameters (ours: two documents for each of five
folds)."""


@dataclass(frozen=True)
class Halves:
    """The public documents of a data set, divided; documents with the same words are in one part.

    Attributes:
        members: those that the shadow target is trained on, renamed to members; all that an attack
            on it may see.
        public: those that its adversary has, still public.
    """

    members: tuple[Document, ...]
    public: tuple[Document, ...]


def group_copies(documents: Iterable[Document]) -> list[list[Document]]:
    """Group documents of the same words: they are divided together."""
    copies: dict[tuple[str, ...], list[Document]] = defaultdict(list)
    for document in documents:
        copies[tuple(word.text for word in document.words)].append(document)
    return list(copies.values())


def halves(corpus: Corpus, share: float, seed: int) -> Halves:
    """Divide the public documents at random; member and held-out documents are not looked at.

    Args:
        corpus: the data set.
        share: of the public documents that go to the shadow target, in (0, 1).
        seed: of the division.

    Raises:
        ManifestError: a part would have fewer than `MIN_DOCUMENTS` documents.
    """
    documents = corpus.of("public")
    groups = group_copies(documents)
    chosen: set[str] = set()
    for index in np.random.default_rng([seed, *b"halves"]).permutation(len(groups)):
        if len(chosen) < round(share * len(documents)):
            chosen.update(document.id for document in groups[index])
    members = tuple(
        replace(document, split="member") for document in documents if document.id in chosen
    )
    public = tuple(document for document in documents if document.id not in chosen)
    if min(len(members), len(public)) < MIN_DOCUMENTS:
        raise ManifestError(
            f"{len(documents)} public documents divide into {len(members)} and {len(public)}: too few",
            f"give at least {MIN_DOCUMENTS} for the shadow target and {MIN_DOCUMENTS} for its adversary",
        )
    return Halves(members, public)


def pretrained_of(
    target: EncoderTarget,
    target_dir: AnyFolder,
    corpus: Corpus,
    given: Mapping[str, Sequence[Path]],
) -> Path | None:
    """The folder that the target was fine-tuned from, checked; None when nobody names it.

    Raises:
        TargetError: it is no folder, is the target itself, has other tokens, or, where that
            matters, sees other pages.
        UsageError: `given` names something that is no reference.
    """
    opened = open_model(target_dir, corpus, next(iter(given.get("pretrained", ())), None))
    own = next(
        iter(locate(AuditedModel(target, opened, corpus), given).get("pretrained", ())), None
    )
    if own is None:
        return None
    folder = own.checkpoint
    refuse_the_target("pretrained", folder, opened)
    check_tokens("pretrained", folder, load_tokenizer(folder), target)
    if FillMask not in target.answers:
        check_image_input(
            "pretrained", folder, page_images_of(folder, config_of(folder), None), target
        )
    return own.path


def fit_shadow(
    target: EncoderTarget,
    target_dir: Path,
    pretrained: Path,
    corpus: Corpus,
    documents: Sequence[Document],
    cache: Path,
    *,
    recipe: Recipe,
    device: str = "cpu",
    progress: Progress = SILENT,
) -> Path:
    """Fine-tune `pretrained` to a model like `target` on `documents`, or find it in the cache.

    Architecture, head, labels and what the training loss reads are the target's; its weights are
    not used. What the pretrained checkpoint lacks (a head, an image branch) is fresh and follows
    the recipe's seed. The weights that are kept are those of the last epoch.

    Args:
        target: the audited model.
        target_dir: its folder.
        pretrained: a checkpoint of the target's family.
        corpus: the data set of the documents; its sha256 stands for their content and images in the
            cache's key.
        documents: what to train on.
        cache: the folder that keeps trained models, by content.
        recipe: how to train.
        device: "cpu", "cuda" or "mps".
        progress: told of every epoch.

    Returns:
        The checkpoint's folder.

    Raises:
        TargetError: the pretrained checkpoint is not of the target's kind, or no document has
            words.
        EngineError: the cache cannot be written.
    """
    start = open_checkpoint(pretrained)
    depends_on = [
        start.sha256,
        target.card.sha256,
        target.encoder.label_all_tokens,
        corpus.sha256,
        [document.id for document in documents],
        recipe.as_json(),
        __version__,
    ]
    key = key_of(depends_on)

    def train(folder: Path) -> None:
        """Train the shadow target, and save it into the folder."""
        model = _starting_model(target, start, recipe.seed)
        pages = [page for page in map(target.encode, documents) if page is not None]
        progress.stage("training the shadow target, epochs", recipe.epochs)
        fit(
            model,
            target.encoder.tokenizer,
            pages,
            recipe,
            device=device,
            watch=BestLoss(progress.advance),
        )
        save(model, target.encoder.tokenizer, folder, processor_of=target_dir)

    return made_once(cache / f"shadow-{key}", train)


def _starting_model(target: EncoderTarget, pretrained: CheckpointFolder, seed: int) -> Any:
    """The pretrained encoder under a head like the target's."""
    config = target.model.config
    head = cast("HeadName", target.card.task)
    seen = target.family.sight_of(config) is not None
    branch = {
        name: getattr(config, name)
        for name in ("image_size", "image_channels")
        if hasattr(config, name)
    }
    start, own = (start_with_images, branch) if seen else (starting_model, {})
    model = start(pretrained, head, labels=target.labels, seed=seed, **own)
    if type(model) is not type(target.model):
        raise TargetError(
            f"reference pretrained: {pretrained} is not a {target.family.name}, as the target is"
        )
    shapes = _shapes(model)
    wanted = _shapes(target.model)
    other = sorted(name for name in {*shapes, *wanted} if shapes.get(name) != wanted.get(name))
    if other:
        raise TargetError(
            f"reference pretrained: {pretrained} has another size than the target, the first difference is {other[0]}",
            "give what the target was fine-tuned from",
        )
    return model


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a model, by name."""
    return {name: tuple(weights.shape) for name, weights in model.state_dict().items()}
