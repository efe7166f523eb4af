"""The public model that proposes candidates to a target: loaded, and checked to read and write what the target does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.corpus.documents import Corpus, Document
from audit.errors import ManifestError, TargetError
from audit.targets.answering.denoiser import Denoiser, has_sentinels, is_denoiser, load_denoiser, text_tokens
from audit.targets.answering.reader import TokenReader
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.loading import load
from audit.targets.encoders.page_images import OpenImage, PageImageReader
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FillMask
from audit.targets.opening import Checkpoint

PublicModel = EncoderTarget | Denoiser
"""A masked language model, or what proposes as one does."""
PROVIDE_MASKED = (
    "give the public masked language model (--reference auxiliary=PATH), or what the target was fine-tuned from "
    "(--reference pretrained=PATH) together with documents of split public"
)
PROVIDE_DENOISER = (
    "give a public model with the target's tokens (--reference auxiliary=PATH): T5, or a VT5 made of it, which put "
    "back hidden spans; or a masked language model, where the target has its vocabulary"
)
_ONE_VOCABULARY = "the public model proposes tokens to the target: both must come from one vocabulary"


def proposed_to(target: Checkpoint) -> bool:
    """Whether a public model can propose tokens to this target: it reads pages as tokens of a public vocabulary."""
    return isinstance(target, EncoderTarget) or tokenizer_of(target) is not None


def provide(target: Checkpoint) -> str:
    """What the owner can give where there is no public model."""
    return PROVIDE_MASKED if isinstance(target, EncoderTarget) else PROVIDE_DENOISER


def tokenizer_of(target: Checkpoint) -> Any:
    """The tokenizer of a target that answers questions from a page's words; None for all others."""
    if isinstance(target, AnsweringTarget) and isinstance(target.reader, TokenReader):
        return target.reader.tokenizer
    return None


def load_public(path: Path, target: Checkpoint, batch_tokens: int | None = None) -> PublicModel:
    """The public model that lies there, when it can serve the target.

    Args:
        path: a checkpoint.
        target: see `proposed_to`.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: it cannot be loaded, or cannot serve.
    """
    images = images_of(target)
    if not isinstance(target, EncoderTarget) and is_denoiser(path):
        return checked_denoiser("auxiliary", path, target)
    found = load(path, device=target.card.device, batch_tokens=batch_tokens, images=images)
    check_public(path, found, target)
    return found


def images_of(target: Checkpoint) -> OpenImage | None:
    """What opens the pages' images; None for targets that see none."""
    if isinstance(target, EncoderTarget):
        return target.encoder.images
    return target.images if isinstance(target, AnsweringTarget) else None


def checked_denoiser(role: str, path: Path, target: Checkpoint) -> Denoiser:
    """The denoiser that lies there.

    Raises:
        TargetError: it cannot be loaded, or some of its tokens are not the target's.
    """
    found = load_denoiser(path, device=target.card.device, images=images_of(target))
    own: Mapping[str, int] = text_tokens(tokenizer_of(target))
    if any(own.get(token) != number for token, number in found.text_tokens.items()):
        raise TargetError(f"reference {role}: {path} has other tokens than the target", _ONE_VOCABULARY)
    return found


def refuse_audited(public: Corpus, corpus: Corpus) -> None:
    """Refuse public documents that are audited ones: a model of them would hide what the target gives away.

    Raises:
        ManifestError: there are none, or some of them are.
    """
    if not public.of("public"):
        raise ManifestError(f"--public {public.root}: no document of split public")
    audited = {_texts(document) for document in corpus.of("member", "heldout") if document.words}
    shared = [document.id for document in public.of("public") if _texts(document) in audited]
    if shared:
        raise ManifestError(
            f"--public {public.root}: {len(shared)} public documents have the words of a member or held-out document "
            f"of {corpus.root}, the first is {shared[0]}",
            "the public model must not have seen what is audited",
        )


def _texts(document: Document) -> tuple[str, ...]:
    return tuple(word.text for word in document.words)


def pretrained_denoiser(path: Path, target: Checkpoint) -> Denoiser | None:
    """What a target that answers questions was fine-tuned from, where that puts back hidden spans; else None.

    Raises:
        TargetError: it does, and cannot be loaded, or some of its tokens are not the target's.
    """
    return checked_denoiser("pretrained", path, target) if is_denoiser(path) and has_sentinels(path) else None


def check_public(path: Path, auxiliary: EncoderTarget, target: Checkpoint) -> None:
    """Refuse a masked language model that cannot serve the target.

    Raises:
        TargetError: it has no head for it, or reads other pages or other tokens than the target.
    """
    if FillMask not in auxiliary.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    needed = longest_page(target)
    if auxiliary.card.max_tokens < needed:
        raise TargetError(
            f"reference auxiliary: {path} reads shorter pages than the target",
            f"give one that reads {needed} tokens, not {auxiliary.card.max_tokens}",
        )
    check_tokens("auxiliary", path, auxiliary.encoder.tokenizer, target)
    check_image_input("auxiliary", path, auxiliary.encoder.page_images, target)


def longest_page(target: Checkpoint) -> int:
    """The longest page that is proposed for, special tokens included.

    Beside a page's words the row of a model that answers holds an end and a question of two tokens at least, and to a
    masked language model the page comes with its own two tokens around it.
    """
    return target.card.max_tokens - (0 if isinstance(target, EncoderTarget) else 1)


def check_image_input(role: str, path: Path, page_images: PageImageReader | None, target: Checkpoint) -> None:
    """The public model reads the pages that the target reads: it sees no image, or the target's own.

    Raises:
        TargetError: it does not.
    """
    own = target.encoder.page_images if isinstance(target, EncoderTarget) else None
    if page_images is not None and (own is None or (own.size, own.scale) != (page_images.size, page_images.scale)):
        raise TargetError(
            f"reference {role}: {path} sees page images, and the target sees none or takes them otherwise",
            "give one that sees no images, or images of the target's size and scale",
        )


def check_tokens(role: str, path: Path, tokenizer: Any, target: Checkpoint) -> None:
    """Refuse a tokenizer with another vocabulary than the target's.

    Raises:
        TargetError: it has one.
    """
    own = target.encoder.tokenizer if isinstance(target, EncoderTarget) else tokenizer_of(target)
    if tokenizer.get_vocab() != own.get_vocab():
        raise TargetError(f"reference {role}: {path} has other tokens than the target", _ONE_VOCABULARY)
