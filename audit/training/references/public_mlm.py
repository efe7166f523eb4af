"""The public masked language model (PUB-MLM): what an adversary without the audited documents can train."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from audit import __version__
from audit.corpus.documents import Document
from audit.engine.interface import SILENT, Progress
from audit.targets.checkpoint.loading import config_of, load_tokenizer, max_tokens_of, page_images_of, sha256_of
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.page_images import OpenImage, PageImageReader
from audit.training.encoders import Recipe, fit, save
from audit.training.references.cache import made_once
from audit.training.starting import starting_model

VALIDATION_SHARE = 0.1
"""Share of the public pages that choose the epoch (lowest loss) instead of training (ours)."""


def fit_public_mlm(
    pretrained: Path,
    documents: Sequence[Document],
    cache: Path,
    *,
    recipe: Recipe,
    device: str = "cpu",
    progress: Progress = SILENT,
    images: OpenImage | None = None,
) -> Path:
    """Fine-tune `pretrained` on public documents as a masked language model, or find it in the cache.

    The cache is keyed by content: the pretrained checkpoint, the documents, the recipe and docaudit's version. A folder
    appears there whole or not at all. A pretrained encoder without a masked-language-model head gets a fresh one.

    Args:
        pretrained: a checkpoint of a known family, with or without a masked-language-model head.
        documents: the public ones.
        cache: the folder that keeps trained references; made when missing.
        recipe: how to train.
        device: "cpu", "cuda" or "mps".
        progress: told of every epoch.
        images: opens a document's page, for pretrained checkpoints that see it.

    Returns:
        The checkpoint's folder.

    Raises:
        TargetError: the pretrained checkpoint cannot be used, or no document has words (or the image that it sees).
        EngineError: the cache cannot be written.
    """
    page_images = page_images_of(pretrained, config_of(pretrained), images)
    folder = cache / f"public-mlm-{_key(pretrained, documents, recipe, page_images)}"
    return made_once(
        folder, lambda unfinished: _train(pretrained, documents, recipe, device, unfinished, progress, page_images)
    )


def _key(pretrained: Path, documents: Sequence[Document], recipe: Recipe, page_images: PageImageReader | None) -> str:
    digest = hashlib.sha256()
    digest.update(json.dumps([sha256_of(pretrained), recipe.as_json(), __version__], sort_keys=True).encode())
    for document in documents:
        digest.update(json.dumps(asdict(cast("Any", document)), sort_keys=True).encode() + b"\n")
        page_image = page_images(document) if page_images is not None else None
        if page_image is not None:
            # The document names a file; what was trained on is its content.
            digest.update(page_image.pixels.tobytes())
    return digest.hexdigest()[:16]


def _train(
    pretrained: Path,
    documents: Sequence[Document],
    recipe: Recipe,
    device: str,
    folder: Path,
    progress: Progress,
    page_images: PageImageReader | None,
) -> None:
    model = starting_model(pretrained, "mlm", seed=recipe.seed)
    tokenizer = load_tokenizer(pretrained)
    encoder = Encoder(tokenizer, max_tokens_of(model.config, tokenizer), page_images=page_images)
    pages = [page for page in map(encoder.encode, documents) if page is not None]
    n_validation = int(VALIDATION_SHARE * len(pages))
    progress.stage("training the public model, epochs", recipe.epochs)
    fitted = fit(
        model,
        tokenizer,
        pages[n_validation:],
        recipe,
        validation=pages[:n_validation],
        device=device,
        on_epoch=progress.advance,
    )
    if fitted.loss is not None:
        fitted.model.load_state_dict(fitted.loss)
    save(fitted.model, tokenizer, folder, processor_of=pretrained)
