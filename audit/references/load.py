"""References: models that never saw the audited documents, or only half of them: given, loaded and checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from audit.cards import SERVED, ReferenceCard
from audit.corpus.documents import Corpus
from audit.errors import TargetError, UsageError
from audit.references import TEXTS, provenance, wording
from audit.references.recipes import UNFINISHED
from audit.targets import OWN_VOCABULARIES, TABLE
from audit.targets.answering.denoiser import Denoiser, is_denoiser, load_denoiser, text_tokens
from audit.targets.answering.reader import TokenReader
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint import folder as checkpoint_folder
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.checkpoint.safety import hub_hint
from audit.targets.encoders.families import OpenImage, PageImageReader
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.extractive import ExtractiveTarget, is_extractive
from audit.targets.interface import FillMask
from audit.targets.opening import Checkpoint, target_of

Source = Literal["manifest", "command line", "adapter"]
SAME_KIND = ("baselines", "pretrained", "splits")
"""References that are models of the target's own kind."""
REFERENCE_NAMES = ("auxiliary", *SAME_KIND)


@dataclass(frozen=True)
class GivenFolder:
    """A reference's folder, opened once, when something is read from it.

    Attributes:
        path: the folder.
        source: who named it.
        base: the model that it was trained on, when it is an adapter.
        number_format: what its weights are held in.
    """

    path: Path
    source: Source
    base: Path | None = None
    number_format: checkpoint_folder.NumberFormat = "auto"

    @cached_property
    def checkpoint(self) -> checkpoint_folder.CheckpointFolder:
        """Open the folder.

        Raises:
            TargetError: see `open_checkpoint`.
        """
        opened = checkpoint_folder.open_checkpoint(self.path, self.base)
        return (
            opened
            if self.number_format == "auto"
            else checkpoint_folder.in_format(opened, self.number_format)
        )


@dataclass(frozen=True)
class AuditedModel:
    """The audited checkpoint, its folder, and the data set."""

    target: Checkpoint
    folder: checkpoint_folder.CheckpointFolder
    corpus: Corpus


@dataclass(frozen=True)
class Reference:
    """A reference that somebody gave, or that was trained.

    Attributes:
        role: "auxiliary", "baseline-0" ..., "pretrained", "split-0" ...
        folder: its folder.
        source: who named it.
        target: the loaded model.
        members: the ids of the documents it was trained on, for a split model.
        recipe: how docaudit trained it.
        corpus: name and sha256 of the data set it was trained on, when that is not the audited one.
    """

    role: str
    folder: checkpoint_folder.CheckpointFolder
    source: Source | Literal["trained"]
    target: Checkpoint | Denoiser
    members: frozenset[str] | None = None
    recipe: dict[str, Any] | None = None
    corpus: str | None = None

    @property
    def card(self) -> ReferenceCard:
        """Return the card for a record."""
        return ReferenceCard(self.role, self.source, self.target.card, self.recipe, self.corpus)


def locate(
    audited: AuditedModel, given: Mapping[str, Sequence[Path]]
) -> dict[str, list[GivenFolder]]:
    """List the folders of each reference; the command line outranks the manifest.

    What an adapter was fine-tuned from is its base, which is that of other adapters among the
    references too. Models of the target's own kind are held in its number format.

    Raises:
        UsageError: a name that is no reference, or several folders for a reference of which there
            is one.
        TargetError: a reference is no folder.
    """
    unknown = sorted(set(given) - set(REFERENCE_NAMES))
    if unknown:
        raise UsageError(
            f"--reference: no reference is called {unknown[0]!r}",
            f"one of {', '.join(REFERENCE_NAMES)}",
        )
    corpus = audited.corpus
    base = None if audited.folder.base is None else audited.folder.base.own_path
    number_format = audited.folder.number_format
    if number_format == "auto" and audited.target.card.dtype == "bfloat16":
        number_format = "bfloat16"  # whatever they are stored in, and half the memory
    folders: dict[str, list[GivenFolder]] = {}
    for name in REFERENCE_NAMES:
        named = getattr(corpus.manifest.references, name) or ()
        paths = [corpus.root / path for path in ((named,) if isinstance(named, str) else named)]
        source: Source = "manifest"
        if name in given:
            paths, source = [*given[name]], "command line"
        elif name == "pretrained" and base is not None and not paths:
            paths, source = [base], "adapter"
        lost = next(
            (
                path
                for path in paths
                if not path.is_dir() and not checkpoint_folder.is_checkpoint(path)
            ),
            None,
        )
        if lost is not None:
            hint = hub_hint(lost) if source == "command line" else ""
            raise TargetError(f"reference {name} ({source}): {lost} is not a folder", hint)
        if len(paths) > 1 and name in ("auxiliary", "pretrained"):
            raise UsageError(f"--reference {name}: {len(paths)} folders", "there is one of it")
        held: checkpoint_folder.NumberFormat = number_format if name in SAME_KIND else "auto"
        own = [GivenFolder(path, source, base, held) for path in paths]
        if own:
            folders[name] = own
    return folders


def load_same_kind(
    wanted: Sequence[str], audited: AuditedModel, given: Mapping[str, Sequence[GivenFolder]]
) -> tuple[tuple[Reference, ...], tuple[str, ...]]:
    """Load the references of the same kind that attacks want and somebody named.

    Args:
        wanted: of `SAME_KIND`.
        audited: the target and its data set.
        given: by name, the folders. Of baselines each is a checkpoint, or a folder of checkpoints;
            of splits, what `docaudit references --train splits` wrote.

    Returns:
        The references, and why those that were given and cannot be asked what the target is asked
        do not count.

    Raises:
        TargetError: one cannot be loaded, is of another kind than the target, or is the target
            itself.
        ManifestError: the list of the splits' members cannot be used.
    """
    chosen: list[tuple[str, GivenFolder, frozenset[str] | None]] = []
    uncounted: list[str] = []
    if "baselines" in wanted:
        folders = [own for folder in given.get("baselines", ()) for own in _checkpoints(folder)]
        chosen += [(f"baseline-{number}", folder, None) for number, folder in enumerate(folders)]
    if "pretrained" in wanted:
        for folder in given.get("pretrained", ()):
            why = _why_not_asked(folder, audited)
            uncounted += (
                [] if why is None else [f"pretrained ({folder.path.name}) did not count: {why}"]
            )
            chosen += [("pretrained", folder, None)] if why is None else []
    if "splits" in wanted:
        splits = [
            (replace(folder, path=path), members)
            for folder in given.get("splits", ())
            for path, members in provenance.read_splits(folder.path, audited.corpus)
        ]
        chosen += [(f"split-{number}", *split) for number, split in enumerate(splits)]
    start = next((folder.path for folder in given.get("pretrained", ())), None)
    return tuple(_load(*one, audited, start) for one in chosen), tuple(uncounted)


def _why_not_asked(start: GivenFolder, audited: AuditedModel) -> str | None:
    """Say why the start of the target's fine-tuning cannot be asked what the target is asked.

    None where it can.

    Models that write answers begin as such, unless they begin as T5; a masked language model too. A
    tagger, or a model that points at answers, mostly begins as a masked language model or a bare
    encoder: these give no loss of tags or answers, and are the start of a tagger's public model
    only.
    """
    target = audited.target
    if isinstance(target, EncoderTarget):
        try:
            folder = start.checkpoint
        except TargetError as error:
            return error.problems[0].replace(str(start.path), "it")
        provenance.refuse_the_target("pretrained", folder, audited.folder)
        try:
            _load_of_kind("pretrained", folder, audited)
        except TargetError as error:
            return (
                error.problems[0].removeprefix("reference pretrained: ").replace(str(folder), "it")
            )
        return None
    if isinstance(target, ExtractiveTarget):
        return None if is_extractive(start.checkpoint) else "it points at no answers"
    other, own = (folder.config.get("model_type") for folder in (start.checkpoint, audited.folder))
    if (isinstance(target, AnsweringTarget) or own == SERVED) and (
        own == other or not is_denoiser(start.checkpoint)
    ):
        return None
    return f"it is no {target.card.task} model"


def _checkpoints(folder: GivenFolder) -> list[GivenFolder]:
    """List the folder itself when it is a checkpoint, else the checkpoints in it, by name."""
    path = folder.path
    if checkpoint_folder.is_checkpoint(path):
        return [folder]
    finished = (own for own in path.iterdir() if not own.name.startswith(UNFINISHED))
    inside = sorted(own for own in finished if checkpoint_folder.is_checkpoint(own))
    if not inside:
        raise TargetError(f"reference baselines: {path} is no checkpoint and holds none")
    return [replace(folder, path=own) for own in inside]


def _load(
    role: str,
    given: GivenFolder,
    members: frozenset[str] | None,
    audited: AuditedModel,
    start: Path | None,
) -> Reference:
    folder = given.checkpoint
    distance = provenance.refuse_the_target(role, folder, audited.folder)
    if members is None and role != "pretrained":
        provenance.refuse_unfit(role, folder, audited.corpus, audited.folder)
    loaded = _load_of_kind(role, folder, audited)
    if audited.folder.base is not None and not folder.weights & audited.folder.base.weights:
        distance = provenance.distance_of_models(audited.target.model, loaded.model)
    start = None if role == "pretrained" else start
    models = (audited.target, loaded)
    provenance.refuse_a_near_copy(
        role, folder.path, audited.folder.path, distance, models, audited.corpus, start
    )
    if audited.folder.base is not None:
        share_weights(loaded.model, audited.target.model)
    adapter = provenance.adapter_of(folder.path)
    recipe = None if adapter is None else {"adapter": adapter}
    return Reference(role, folder, given.source, loaded, members, recipe)


def share_weights(model: Any, other: Any) -> None:
    """Let a model hold in the memory of another one all weights that are the same, bit for bit.

    Of an adapter's base these are all but those that the adapter changes: models of one base are in
    memory once.
    """
    known = dict(other.named_parameters(remove_duplicate=False))
    for name, weights in model.named_parameters():
        twin = known.get(name)
        if twin is not None and twin.dtype == weights.dtype and torch.equal(twin, weights):
            weights.data = twin.data


def _load_of_kind(
    role: str, folder: checkpoint_folder.CheckpointFolder, audited: AuditedModel
) -> Checkpoint:
    """Load a checkpoint that can be asked what the target is asked.

    Raises:
        TargetError: it cannot be loaded, or is of another kind than the target.
    """
    target, corpus = audited.target, audited.corpus
    if isinstance(target, EncoderTarget):
        reference = target_of(folder, corpus, target.card.device, target.batch_tokens)
    else:
        reference = target_of(folder, corpus, target.card.device, batch_rows=target.batch_rows)
    own, other = target.card, reference.card
    if SERVED in (own.family, other.family) and own.task == other.task:
        return reference
    if (own.family, own.task) != (other.family, other.task):
        raise TargetError(
            *wording(
                "other_kind",
                role=role,
                folder=folder,
                other=other.architecture,
                own=own.architecture,
            )
        )
    if isinstance(target, EncoderTarget) and isinstance(reference, EncoderTarget):
        # Losses compare only over the same tags, or for masked language models the same tokens.
        masked = own.task == "mlm"
        tokens = (
            [model.encoder.tokenizer.get_vocab() for model in (reference, target)]
            if masked
            else [{}, {}]
        )
        if sorted(reference.labels) != sorted(target.labels) or tokens[0] != tokens[1]:
            raise TargetError(
                *wording(
                    "other_outputs", role=role, folder=folder, what=("labels", "tokens")[masked]
                )
            )
    if role != "pretrained" and own.resolution != other.resolution:
        raise TargetError(
            *wording(
                "other_pictures",
                role=role,
                folder=folder,
                own=own.resolution,
                other=other.resolution,
            )
        )
    return reference


PublicModel = EncoderTarget | Denoiser
"""A masked language model, or what proposes as one does."""


def takes_public_model(target: Checkpoint) -> bool:
    """Test whether a public model can propose tokens to this target: it reads pages as tokens of its vocabulary."""
    if target.card.family in OWN_VOCABULARIES:
        return False
    return isinstance(target, EncoderTarget) or tokenizer_of(target) is not None


def advise_public_model(target: Checkpoint) -> str:
    """Advise the owner how to provide a public model."""
    if not isinstance(target, EncoderTarget):
        return str(
            TEXTS[
                "longformer" if target.card.family in TABLE["answering"]["robertas"] else "denoiser"
            ]
        )
    return str(TEXTS["masked" if has_masked_head(target) else "text_model"]).format(
        family=target.family.name
    )


def has_masked_head(target: EncoderTarget) -> bool:
    """Test whether a public model of the target's own family can be trained."""
    return "mlm" in target.family.heads


def is_masked(folder: checkpoint_folder.CheckpointFolder) -> bool:
    """Test whether a checkpoint is a masked language model, by its architecture."""
    return any(
        str(name).endswith("ForMaskedLM") for name in folder.config.get("architectures") or ()
    )


def may_propose(path: Path, target: Checkpoint) -> bool:
    """Test whether a checkpoint is a masked language model with the target's tokens."""
    try:
        folder = checkpoint_folder.open_checkpoint(path)
        check_tokens("pretrained", folder, load_tokenizer(folder), target)
    except TargetError:
        return False
    return is_masked(folder)


def tokenizer_of(target: Checkpoint) -> Any:
    """Return the tokenizer of a target that answers questions from a page's words.

    None for all others.
    """
    if isinstance(target, AnsweringTarget) and isinstance(target.reader, TokenReader):
        return target.reader.tokenizer
    return None


def load_public(
    path: checkpoint_folder.AnyFolder, target: Checkpoint, batch_tokens: int | None = None
) -> PublicModel:
    """Load the public model of a folder and check that it can serve the target.

    Args:
        path: a checkpoint.
        target: see `takes_public_model`.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: it cannot be loaded, has no head for it, or reads other pages or other tokens
            than the target.
    """
    path = checkpoint_folder.open_checkpoint(path)
    if not isinstance(target, EncoderTarget) and is_denoiser(path):
        denoiser = load_denoiser(path, device=target.card.device, images=_images_of(target))
        own: Mapping[str, int] = text_tokens(tokenizer_of(target))
        if any(own.get(token) != number for token, number in denoiser.text_tokens.items()):
            raise TargetError(*wording("other_tokens", role="auxiliary", path=path))
        return denoiser
    public = load(
        path, device=target.card.device, batch_tokens=batch_tokens, images=_images_of(target)
    )
    if FillMask not in public.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    # Beside a page's words the row of a model that answers holds an end and a question of two
    # tokens at least, and to a masked language model the page comes with its own two tokens around
    # it.
    needed = target.card.max_tokens - (0 if isinstance(target, EncoderTarget) else 1)
    if public.card.max_tokens < needed:
        raise TargetError(
            *wording("shorter_pages", path=path, needed=needed, read=public.card.max_tokens)
        )
    check_tokens("auxiliary", path, public.encoder.tokenizer, target)
    check_image_input("auxiliary", path, public.encoder.page_images, target)
    return public


def _images_of(target: Checkpoint) -> OpenImage | None:
    """Return the function that opens the pages' images; None for targets that see none."""
    if isinstance(target, EncoderTarget):
        return getattr(target.encoder.page_images, "open_image", None)
    return target.images if isinstance(target, AnsweringTarget) else None


def check_image_input(
    role: str,
    path: checkpoint_folder.CheckpointFolder,
    page_images: PageImageReader | None,
    target: Checkpoint,
) -> None:
    """Refuse a public model that sees images otherwise than the target does.

    Raises:
        TargetError: it does not.
    """
    own = target.encoder.page_images if isinstance(target, EncoderTarget) else None
    if page_images is not None and (
        own is None or (own.size, own.scale) != (page_images.size, page_images.scale)
    ):
        raise TargetError(*wording("other_images", role=role, path=path))


def check_tokens(
    role: str, path: checkpoint_folder.CheckpointFolder, tokenizer: Any, target: Checkpoint
) -> None:
    """Refuse a tokenizer with another vocabulary than the target's.

    Raises:
        TargetError: it has one.
    """
    own = target.encoder.tokenizer if isinstance(target, EncoderTarget) else tokenizer_of(target)
    if tokenizer.get_vocab() != own.get_vocab():
        raise TargetError(*wording("other_tokens", role=role, path=path))
