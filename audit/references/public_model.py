"""The public model that proposes candidates to a target: loaded or trained, and checked to have the target's tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from audit import __version__
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, TargetError
from audit.references import TEXTS
from audit.references.recipes import Recipe, made_once, starting_model
from audit.targets import OWN_VOCABULARIES, TABLE
from audit.targets.answering.denoiser import Denoiser, is_denoiser, load_denoiser, text_tokens
from audit.targets.answering.reader import TokenReader
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import OpenImage, PageImageReader
from audit.targets.encoders.loading import config_of, load, max_tokens_of, page_images_of
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FillMask
from audit.targets.opening import Checkpoint

PublicModel = EncoderTarget | Denoiser
"""A masked language model, or what proposes as one does."""
VALIDATION_SHARE = 0.1
"""Share of the public pages that choose the epoch (lowest loss) instead of training."""
_ONE_VOCABULARY = "the public model proposes tokens to the target: both must come from one vocabulary"


def takes_public_model(target: Checkpoint) -> bool:
    """Test whether a public model can propose tokens to this target: it reads pages as tokens of its vocabulary."""
    if target.card.family in OWN_VOCABULARIES:
        return False
    return isinstance(target, EncoderTarget) or tokenizer_of(target) is not None


def advise_public_model(target: Checkpoint) -> str:
    """Advise the owner how to provide a public model."""
    if not isinstance(target, EncoderTarget):
        return str(TEXTS["longformer" if target.card.family in TABLE["answering"]["robertas"] else "denoiser"])
    return str(TEXTS["masked" if has_masked_head(target) else "text_model"]).format(family=target.family.name)


def has_masked_head(target: EncoderTarget) -> bool:
    """Test whether a public model of the target's own family can be trained."""
    return "mlm" in target.family.heads


def tokenizer_of(target: Checkpoint) -> Any:
    """Return the tokenizer of a target that answers questions from a page's words; None for all others."""
    if isinstance(target, AnsweringTarget) and isinstance(target.reader, TokenReader):
        return target.reader.tokenizer
    return None


def load_public(path: AnyFolder, target: Checkpoint, batch_tokens: int | None = None) -> PublicModel:
    """Load the public model of a folder and check that it can serve the target.

    Args:
        path: a checkpoint.
        target: see `takes_public_model`.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: it cannot be loaded, has no head for it, or reads other pages or other tokens than the target.
    """
    path = open_checkpoint(path)
    if not isinstance(target, EncoderTarget) and is_denoiser(path):
        return checked_denoiser("auxiliary", path, target)
    public = load(path, device=target.card.device, batch_tokens=batch_tokens, images=_images_of(target))
    if FillMask not in public.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    # Beside a page's words the row of a model that answers holds an end and a question of two tokens at least, and to a
    # masked language model the page comes with its own two tokens around it.
    needed = target.card.max_tokens - (0 if isinstance(target, EncoderTarget) else 1)
    if public.card.max_tokens < needed:
        raise TargetError(
            f"reference auxiliary: {path} reads shorter pages than the target",
            f"give one that reads {needed} tokens, not {public.card.max_tokens}",
        )
    check_tokens("auxiliary", path, public.encoder.tokenizer, target)
    check_image_input("auxiliary", path, public.encoder.page_images, target)
    return public


def _images_of(target: Checkpoint) -> OpenImage | None:
    """Return the function that opens the pages' images; None for targets that see none."""
    if isinstance(target, EncoderTarget):
        return target.encoder.images
    return target.images if isinstance(target, AnsweringTarget) else None


def checked_denoiser(role: str, path: CheckpointFolder, target: Checkpoint) -> Denoiser:
    """Load the denoiser of a folder and check its tokens.

    Raises:
        TargetError: it cannot be loaded, or some of its tokens are not the target's.
    """
    denoiser = load_denoiser(path, device=target.card.device, images=_images_of(target))
    own: Mapping[str, int] = text_tokens(tokenizer_of(target))
    if any(own.get(token) != number for token, number in denoiser.text_tokens.items()):
        raise TargetError(f"reference {role}: {path} has other tokens than the target", _ONE_VOCABULARY)
    return denoiser


def refuse_audited(public: Corpus, corpus: Corpus) -> None:
    """Refuse public documents that are audited ones: a model of them would hide what the target gives away.

    Raises:
        ManifestError: there are none, or some of them are.
    """
    if not public.of("public"):
        raise ManifestError(f"--reference public={public.root}: no document of split public")
    audited = {_texts(document) for document in corpus.of("member", "heldout") if document.words}
    shared = [document.id for document in public.of("public") if _texts(document) in audited]
    if shared:
        raise ManifestError(
            f"--reference public={public.root}: {len(shared)} public documents have the words of a member or held-out "
            f"document of {corpus.root}, the first is {shared[0]}",
            "the public model must not have seen what is audited",
        )


def _texts(document: Document) -> tuple[str, ...]:
    return tuple(word.text for word in document.words)


def check_image_input(
    role: str, path: CheckpointFolder, page_images: PageImageReader | None, target: Checkpoint
) -> None:
    """Refuse a public model that sees images otherwise than the target does.

    Raises:
        TargetError: it does not.
    """
    own = target.encoder.page_images if isinstance(target, EncoderTarget) else None
    if page_images is not None and (own is None or (own.size, own.scale) != (page_images.size, page_images.scale)):
        raise TargetError(
            f"reference {role}: {path} sees page images, and the target sees none or takes them otherwise",
            "give one that sees no images, or images of the target's size and scale",
        )


def check_tokens(role: str, path: CheckpointFolder, tokenizer: Any, target: Checkpoint) -> None:
    """Refuse a tokenizer with another vocabulary than the target's.

    Raises:
        TargetError: it has one.
    """
    own = target.encoder.tokenizer if isinstance(target, EncoderTarget) else tokenizer_of(target)
    if tokenizer.get_vocab() != own.get_vocab():
        raise TargetError(f"reference {role}: {path} has other tokens than the target", _ONE_VOCABULARY)


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
    start = open_checkpoint(pretrained)
    page_images = page_images_of(start, config_of(start), images)
    digest = hashlib.sha256(json.dumps([start.sha256, recipe.as_json(), __version__], sort_keys=True).encode())
    for document in documents:
        digest.update(json.dumps(asdict(cast("Any", document)), sort_keys=True).encode() + b"\n")
        page_image = page_images(document) if page_images is not None else None
        if page_image is not None:
            # The document names a file; what was trained on is its content.
            digest.update(page_image.pixels.tobytes())

    def train(folder: Path) -> None:
        # Imported here, as a scan that trains nothing starts sooner without.
        from audit.references.encoders import fit, save

        model = starting_model(start, "mlm", seed=recipe.seed)
        tokenizer = load_tokenizer(start)
        encoder = Encoder(tokenizer, max_tokens_of(model.config, tokenizer), page_images=page_images)
        pages = [page for page in map(encoder.encode, documents) if page is not None]
        n = int(VALIDATION_SHARE * len(pages))
        progress.stage("training the public model, epochs", recipe.epochs)
        on_epoch = progress.advance
        fitted = fit(model, tokenizer, pages[n:], recipe, validation=pages[:n], device=device, on_epoch=on_epoch)
        if fitted.loss is not None:
            fitted.model.load_state_dict(fitted.loss)
        save(fitted.model, tokenizer, folder, processor_of=start.path)

    return made_once(cache / f"public-mlm-{digest.hexdigest()[:16]}", train)
