"""Fills the references that attacks need: from the command line, from the manifest, or by training them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from audit.case import References
from audit.corpus.documents import Corpus
from audit.errors import TargetError, UsageError
from audit.record import ReferenceCard
from audit.targets.encoder_target import EncoderTarget
from audit.targets.interface import FillMask
from audit.targets.loading import load
from audit.training.fitting import Recipe
from audit.training.masked_lm import fit_public_mlm

REFERENCE_NAMES = ("auxiliary", "pretrained")
PROVIDE_AUXILIARY = (
    "give the public masked language model (--reference auxiliary=PATH), or what the target was fine-tuned from "
    "(--reference pretrained=PATH) together with documents of split public"
)


@dataclass(frozen=True)
class Filled:
    """The references, their cards, and for every one that an attack needs and nobody gave: what to provide."""

    references: References
    cards: tuple[ReferenceCard, ...]
    missing: Mapping[str, str]


def locate(corpus: Corpus, given: Mapping[str, Path]) -> dict[str, tuple[Path, Literal["manifest", "command line"]]]:
    """Where each reference lies and who said so; the command line outranks the manifest.

    Raises:
        UsageError: a name that is no reference.
    """
    unknown = sorted(set(given) - set(REFERENCE_NAMES))
    if unknown:
        raise UsageError(f"--reference: no reference is called {unknown[0]!r}", f"one of {', '.join(REFERENCE_NAMES)}")
    places: dict[str, tuple[Path, Literal["manifest", "command line"]]] = {}
    for name in REFERENCE_NAMES:
        path = getattr(corpus.manifest.references, name)
        if path is not None:
            places[name] = (corpus.root / path, "manifest")
        if name in given:
            places[name] = (given[name], "command line")
    for name, (path, source) in places.items():
        if not path.is_dir():
            raise TargetError(f"reference {name} ({source}): {path} is not a folder")
    return places


def fill(
    needs: Sequence[str],
    target: EncoderTarget,
    corpus: Corpus,
    given: Mapping[str, Path],
    *,
    cache: Path,
    seed: int,
    batch_tokens: int | None = None,
) -> Filled:
    """The references that attacks need, by name.

    Args:
        needs: names of references; only "auxiliary" is known to attacks so far.
        target: the audited checkpoint; a reference must share its tokens.
        corpus: the data set; its `public` split trains what is missing.
        given: references named on the command line.
        cache: where trained references are kept, by content.
        seed: of the training.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: a reference cannot be loaded, has no masked-language-model head, or other tokens than the target.
    """
    if "auxiliary" not in needs:
        return Filled(References(), (), {})
    places = locate(corpus, given)
    recipe: dict[str, Any] | None = None
    source: Literal["manifest", "command line", "trained"]
    if "auxiliary" in places:
        path, source = places["auxiliary"]
    elif "pretrained" in places and corpus.of("public"):
        pretrained = places["pretrained"][0]
        public = Recipe(seed=seed)
        path = fit_public_mlm(pretrained, corpus.of("public"), cache, recipe=public, device=target.card.device)
        source, recipe = "trained", public.as_json()
    else:
        return Filled(References(), (), {"auxiliary": PROVIDE_AUXILIARY})
    auxiliary = load(path, device=target.card.device, batch_tokens=batch_tokens)
    if FillMask not in auxiliary.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    if auxiliary.encoder.tokenizer.get_vocab() != target.encoder.tokenizer.get_vocab():
        raise TargetError(
            f"reference auxiliary: {path} has other tokens than the target",
            "the public model proposes tokens to the target: train it from the same pretrained checkpoint",
        )
    return Filled(References(auxiliary), (ReferenceCard("auxiliary", source, auxiliary.card, recipe),), {})
