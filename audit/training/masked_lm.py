"""The public masked language model (PUB-MLM): what an adversary without the audited documents can train."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError

from audit import __version__
from audit.corpus.documents import Document
from audit.engine.interface import SILENT, Progress
from audit.errors import EngineError, TargetError
from audit.targets.encoding import Encoder
from audit.targets.families import FAMILIES
from audit.targets.loading import load_model, load_tokenizer, max_tokens_of, sha256_of
from audit.training.fitting import Recipe, fit

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

    Returns:
        The checkpoint's folder.

    Raises:
        TargetError: the pretrained checkpoint cannot be used, or no document has words.
        EngineError: the cache cannot be written.
    """
    folder = cache / f"public-mlm-{_key(pretrained, documents, recipe)}"
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=cache))
        try:
            _train(pretrained, documents, recipe, device, unfinished, progress)
            os.replace(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EngineError(f"{cache}: {reason}", "free some space or choose another --out") from None
    return folder


def _key(pretrained: Path, documents: Sequence[Document], recipe: Recipe) -> str:
    digest = hashlib.sha256()
    digest.update(json.dumps([sha256_of(pretrained), recipe.as_json(), __version__], sort_keys=True).encode())
    for document in documents:
        digest.update(json.dumps(asdict(cast("Any", document)), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()[:16]


def _train(
    pretrained: Path, documents: Sequence[Document], recipe: Recipe, device: str, folder: Path, progress: Progress
) -> None:
    model = _masked_lm(pretrained, recipe.seed)
    tokenizer = load_tokenizer(pretrained)
    encoder = Encoder(tokenizer, max_tokens_of(model.config, tokenizer))
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
    fitted.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _masked_lm(pretrained: Path, seed: int) -> Any:
    """The checkpoint with a masked-language-model head, a fresh one when it has none; its encoder must be whole."""
    try:
        kind = json.loads((pretrained / "config.json").read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        kind = None
    if kind not in FAMILIES:
        raise TargetError(f"reference pretrained: {pretrained} is not a checkpoint of a known family", "see README")
    # The head, where it is fresh, follows from the recipe's seed.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, missing = load_model(pretrained, FAMILIES[kind].heads["mlm"])
    lost = [name for name in missing if not name.startswith("cls.")]
    if lost:
        raise TargetError(f"reference pretrained: {pretrained} lacks {len(lost)} parameters, the first is {lost[0]}")
    return model
