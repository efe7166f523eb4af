"""Fills the references that attacks need: from the command line, from the manifest, or by training them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from audit.case import References
from audit.corpus.documents import Corpus
from audit.engine.interface import Progress
from audit.errors import TargetError, UsageError
from audit.record import ReferenceCard
from audit.targets.encoder_target import EncoderTarget
from audit.targets.interface import FillMask
from audit.targets.loading import load, load_tokenizer, weights_of
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


@dataclass(frozen=True)
class Prepared:
    """What was given, loaded and checked, and what the auxiliary would be trained from; nothing has been written yet.

    Attributes:
        auxiliary: the public masked language model, when somebody gave one.
        source: who gave it.
        pretrained: what to train it from, when nobody did and there are public documents.
    """

    auxiliary: EncoderTarget | None = None
    source: Literal["manifest", "command line"] = "manifest"
    pretrained: Path | None = None


def _locate(corpus: Corpus, given: Mapping[str, Path]) -> dict[str, tuple[Path, Literal["manifest", "command line"]]]:
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


def prepare(
    needs: Collection[str],
    target: EncoderTarget,
    target_dir: Path,
    corpus: Corpus,
    given: Mapping[str, Path],
    batch_tokens: int | None = None,
) -> Prepared:
    """Load and check the references that attacks need, as far as that writes nothing.

    Args:
        needs: names of references; only "auxiliary" is known to attacks so far.
        target: the audited checkpoint; a reference must share its tokens and must not share its weights.
        target_dir: its folder.
        corpus: the data set, whose manifest may name references and whose `public` split may train one.
        given: references named on the command line; they outrank the manifest's.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: a reference cannot be loaded, cannot serve, or is the target itself.
        UsageError: `given` names something that is no reference.
    """
    places = _locate(corpus, given)
    if "auxiliary" not in needs:
        return Prepared()
    if "auxiliary" in places:
        path, source = places["auxiliary"]
        _refuse_the_target("auxiliary", path, target_dir)
        auxiliary = load(path, device=target.card.device, batch_tokens=batch_tokens)
        _check_auxiliary(path, auxiliary, target)
        return Prepared(auxiliary, source)
    if "pretrained" in places and corpus.of("public"):
        path = places["pretrained"][0]
        _refuse_the_target("pretrained", path, target_dir)
        _check_tokens("pretrained", path, load_tokenizer(path), target)
        return Prepared(pretrained=path)
    return Prepared()


def complete(
    prepared: Prepared,
    needs: Collection[str],
    target: EncoderTarget,
    corpus: Corpus,
    cache: Path,
    seed: int,
    progress: Progress,
    batch_tokens: int | None = None,
) -> Filled:
    """Train what is missing and can be trained; everything else is as `prepare` found it.

    Args:
        prepared: see `prepare`.
        needs: names of references.
        target: the audited checkpoint.
        corpus: the data set.
        cache: where trained references are kept, by content.
        seed: of the training.
        progress: told of every epoch.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: the pretrained checkpoint cannot be trained.
        EngineError: the cache cannot be written.
    """
    if "auxiliary" not in needs:
        return Filled(References(), (), {})
    auxiliary, recipe = prepared.auxiliary, None
    source: Literal["manifest", "command line", "trained"] = prepared.source
    if auxiliary is None:
        if prepared.pretrained is None:
            return Filled(References(), (), {"auxiliary": PROVIDE_AUXILIARY})
        public = Recipe(seed=seed)
        device = target.card.device
        path = fit_public_mlm(
            prepared.pretrained, corpus.of("public"), cache, recipe=public, device=device, progress=progress
        )
        auxiliary = load(path, device=device, batch_tokens=batch_tokens)
        _check_auxiliary(path, auxiliary, target)
        source, recipe = "trained", public.as_json()
    return Filled(References(auxiliary), (ReferenceCard("auxiliary", source, auxiliary.card, recipe),), {})


def _refuse_the_target(role: str, path: Path, target_dir: Path) -> None:
    """A baseline with the target's own memory would hide every leak."""
    if weights_of(path) & weights_of(target_dir):
        raise TargetError(
            f"reference {role}: {path} holds the target's own weights",
            "a reference is a model that never saw the audited documents",
        )


def _check_auxiliary(path: Path, auxiliary: EncoderTarget, target: EncoderTarget) -> None:
    if FillMask not in auxiliary.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    if auxiliary.card.max_tokens < target.card.max_tokens:
        raise TargetError(
            f"reference auxiliary: {path} reads shorter pages than the target",
            f"give one that reads {target.card.max_tokens} tokens, not {auxiliary.card.max_tokens}",
        )
    _check_tokens("auxiliary", path, auxiliary.encoder.tokenizer, target)


def _check_tokens(role: str, path: Path, tokenizer: Any, target: EncoderTarget) -> None:
    if tokenizer.get_vocab() != target.encoder.tokenizer.get_vocab():
        raise TargetError(
            f"reference {role}: {path} has other tokens than the target",
            "the public model proposes tokens to the target: both must come from one vocabulary",
        )
