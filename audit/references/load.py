"""References that are given, loaded and checked.

They are models that never saw the audited documents, or only half of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from audit.cards import ReferenceCard
from audit.corpus.documents import Corpus
from audit.errors import TargetError, UsageError, is_address, typed
from audit.references import TEXTS, provenance, wording
from audit.references.recipes import UNFINISHED
from audit.targets import OWN_VOCABULARIES
from audit.targets.answering.denoiser import Denoiser, is_denoiser, load_denoiser, text_tokens
from audit.targets.checkpoint import folder as checkpoint_folder
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.checkpoint.safety import hub_hint
from audit.targets.encoders.families import PageImageReader
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
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
        """Return the opened checkpoint in the folder, in the number format asked for.

        Raises:
            TargetError: see `open_checkpoint`.
        """
        opened = checkpoint_folder.open_checkpoint(self.path, self.base)
        if self.number_format == "auto":
            return opened
        return checkpoint_folder.in_format(opened, self.number_format)


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
        recipe: recipe by which docaudit trained it.
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
        """Return the reference's card for the record."""
        return ReferenceCard(self.role, self.source, self.target.card, self.recipe, self.corpus)


def locate(
    audited: AuditedModel, given: Mapping[str, Sequence[Path]]
) -> dict[str, list[GivenFolder]]:
    """Return the folders of each reference; the command line outranks the manifest.

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
    base = _base_path(audited)
    number_format = _number_format_of(audited)
    folders: dict[str, list[GivenFolder]] = {}
    for name in REFERENCE_NAMES:
        if name in given:
            paths = list(given[name])
            source: Source = "command line"
        else:
            paths, source = _unasked_paths(name, audited)
        _check_paths(name, source, paths)
        if not paths:
            continue
        if name in SAME_KIND:
            folders[name] = [GivenFolder(path, source, base, number_format) for path in paths]
        else:
            folders[name] = [GivenFolder(path, source, base) for path in paths]
    return folders


def _base_path(audited: AuditedModel) -> Path | None:
    """Return the folder of the audited adapter's base; None for a whole model."""
    if audited.folder.base is None:
        return None
    return audited.folder.base.own_path


def _number_format_of(audited: AuditedModel) -> checkpoint_folder.NumberFormat:
    """Return the number format in which references of the target's kind are loaded."""
    if audited.folder.number_format == "auto" and audited.target.card.dtype == "bfloat16":
        return "bfloat16"  # whatever they are stored in, and half the memory
    return audited.folder.number_format


def _unasked_paths(name: str, audited: AuditedModel) -> tuple[list[Path], Source]:
    """Return the folders of a reference that the command line does not name, and their source.

    Says who names them, too.
    """
    corpus = audited.corpus
    in_manifest = getattr(corpus.manifest.references, name) or ()
    if isinstance(in_manifest, str):
        in_manifest = (in_manifest,)
    base = _base_path(audited)
    if name == "pretrained" and base is not None and not in_manifest:
        return [base], "adapter"
    return [corpus.root / path for path in in_manifest], "manifest"


def _check_paths(name: str, source: Source, paths: Sequence[Path]) -> None:
    """Refuse paths that are no folders, and several where one reference is expected.

    Raises:
        TargetError: a path is no folder.
        UsageError: there are several.
    """
    for path in paths:
        if not path.is_dir() and not checkpoint_folder.is_checkpoint(path):
            hint = hub_hint(path) if source == "command line" else ""
            raise TargetError(f"reference {name} ({source}): {path} is not a folder", hint)
    if len(paths) > 1 and name in ("auxiliary", "pretrained"):
        raise UsageError(f"--reference {name}: {len(paths)} folders", "there is one of it")


@dataclass(frozen=True)
class _Chosen:
    """A folder that is to be loaded as a reference.

    Attributes:
        role: role, see `Reference`.
        folder: the folder.
        members: members, see `Reference`.
    """

    role: str
    folder: GivenFolder
    members: frozenset[str] | None = None


def load_same_kind(
    wanted: Sequence[str], audited: AuditedModel, given: Mapping[str, Sequence[GivenFolder]]
) -> tuple[tuple[Reference, ...], tuple[str, ...]]:
    """Return loaded references of the target's kind, and why others do not count.

    Args:
        wanted: roles of `SAME_KIND`.
        audited: the target and its data set.
        given: folders by name. Of baselines each is a checkpoint, or a folder of checkpoints; of
            splits, what `docaudit references --train splits` wrote.

    Returns:
        The references, and why those that were given and cannot be asked what the target is asked
        do not count.

    Raises:
        TargetError: one cannot be loaded, is of another kind than the target, or is the target
            itself.
        ManifestError: the list of the splits' members cannot be used.
    """
    chosen: list[_Chosen] = []
    uncounted: list[str] = []
    pretrained = given.get("pretrained", ())
    if "baselines" in wanted:
        chosen += _choose_baselines(given.get("baselines", ()))
    if "pretrained" in wanted:
        for folder in pretrained:
            reason = _why_not_asked(folder, audited)
            if reason is None:
                chosen.append(_Chosen("pretrained", folder))
            else:
                uncounted.append(f"pretrained ({_name_of(folder.path)}) did not count: {reason}")
    if "splits" in wanted:
        chosen += _choose_splits(given.get("splits", ()), audited.corpus)
    start = pretrained[0].path if pretrained else None
    references = tuple(_load(choice, audited, start) for choice in chosen)
    return references, tuple(uncounted)


def _choose_baselines(folders: Sequence[GivenFolder]) -> list[_Chosen]:
    """Return the checkpoints of baselines, numbered from 0."""
    checkpoints: list[GivenFolder] = []
    for folder in folders:
        checkpoints += _checkpoints(folder)
    return [_Chosen(f"baseline-{number}", folder) for number, folder in enumerate(checkpoints)]


def _choose_splits(folders: Sequence[GivenFolder], corpus: Corpus) -> list[_Chosen]:
    """Return the split models, numbered from 0, each with the ids of its documents."""
    chosen: list[_Chosen] = []
    for folder in folders:
        for path, members in provenance.read_splits(folder.path, corpus):
            checkpoint = replace(folder, path=path)
            chosen.append(_Chosen(f"split-{len(chosen)}", checkpoint, members))
    return chosen


def _why_not_asked(start: GivenFolder, audited: AuditedModel) -> str | None:
    """Return why the target's pretrained start cannot be asked the same queries as the target.

    None where it can.

    A tagger mostly begins as a masked language model or a bare encoder: these give no loss of tags,
    and are the start of a tagger's public model only. So it is loaded to tell.
    """
    target = audited.target
    if not target.starts_as_other_kind:
        denoises = is_denoiser(start.checkpoint)
        return target.accepts_start(start.checkpoint, audited.folder, denoises=denoises)
    try:
        folder = start.checkpoint
    except TargetError as error:
        return _without_folder(error, typed(start.path))
    provenance.refuse_the_target("pretrained", folder, audited.folder)
    try:
        reference = _open_beside(folder, audited)
    except TargetError as error:
        return _without_folder(error, str(folder))
    reason = target.accepts(reference)
    return None if reason is None else f"it {reason}"


def _name_of(path: Path) -> str:
    """Return the name of a reference's folder, or the address of its server."""
    if is_address(path):
        return typed(path)
    return path.name


def _without_folder(error: TargetError, folder: str) -> str:
    """Return the first problem of a reference without its folder, which the sentence names."""
    problem = error.problems[0].removeprefix("reference pretrained: ").removeprefix(f"{folder}: ")
    return problem.replace(folder, "it")


def _checkpoints(folder: GivenFolder) -> list[GivenFolder]:
    """Return the folder itself where it is a checkpoint, else the checkpoints in it by name."""
    path = folder.path
    if checkpoint_folder.is_checkpoint(path):
        return [folder]
    finished = (child for child in path.iterdir() if not child.name.startswith(UNFINISHED))
    inside = sorted(child for child in finished if checkpoint_folder.is_checkpoint(child))
    if not inside:
        raise TargetError(f"reference baselines: {path} is no checkpoint and holds none")
    return [replace(folder, path=child) for child in inside]


def _load(choice: _Chosen, audited: AuditedModel, start: Path | None) -> Reference:
    """Return a loaded reference of the target's own kind, after checking what it learnt.

    Args:
        choice: its folder and role.
        audited: the target and its data set.
        start: what the target was fine-tuned from, when somebody named it.

    Raises:
        TargetError: it cannot be loaded, is of another kind, or saw what it must not.
    """
    role = choice.role
    folder = choice.folder.checkpoint
    distance = provenance.refuse_the_target(role, folder, audited.folder)
    if choice.members is None and role != "pretrained":
        provenance.refuse_unfit(role, folder, audited.corpus, audited.folder)
    loaded = _load_of_kind(role, folder, audited)
    base = audited.folder.base
    if base is not None and not folder.weights & base.weights:
        distance = provenance.distance_of_models(audited.target.model, loaded.model)
    provenance.refuse_a_near_copy(
        provenance.Suspect(role, folder.path, loaded, distance),
        audited.target,
        audited.folder.path,
        audited.corpus,
        None if role == "pretrained" else start,
    )
    if base is not None:
        share_weights(loaded.model, audited.target.model)
    adapter = provenance.adapter_of(folder.path)
    recipe = None if adapter is None else {"adapter": adapter}
    return Reference(role, folder, choice.folder.source, loaded, choice.members, recipe)


def share_weights(model: Any, other: Any) -> None:
    """Let a model share the memory of another one's equal weights, in place.

    Of an adapter's base these are all but those that the adapter changes: models of one base are in
    memory once.
    """
    weights_of_other = dict(other.named_parameters(remove_duplicate=False))
    for name, weights in model.named_parameters():
        twin = weights_of_other.get(name)
        if twin is not None and twin.dtype == weights.dtype and torch.equal(twin, weights):
            weights.data = twin.data


def _load_of_kind(
    role: str, folder: checkpoint_folder.CheckpointFolder, audited: AuditedModel
) -> Checkpoint:
    """Return a loaded checkpoint that answers the target's queries; refuse any other kind.

    Raises:
        TargetError: it cannot be loaded, or is of another kind than the target.
    """
    target = audited.target
    reference = _open_beside(folder, audited)
    reason = target.accepts(reference)
    if reason is not None:
        raise TargetError(*wording("other_kind", role=role, folder=folder, reason=reason))
    sees_alike = target.card.resolution == reference.card.resolution
    if role == "pretrained" or sees_alike or target.is_served_as(reference):
        return reference
    raise TargetError(
        *wording(
            "other_pictures",
            role=role,
            folder=folder,
            own=target.card.resolution,
            other=reference.card.resolution,
        )
    )


def _open_beside(folder: checkpoint_folder.CheckpointFolder, audited: AuditedModel) -> Checkpoint:
    """Return a checkpoint loaded on the target's device, with batches of the target's size."""
    target = audited.target
    return target_of(folder, audited.corpus, target.card.device, **target.batch_options)


PublicModel = EncoderTarget | Denoiser
"""A masked language model, or what proposes as one does."""


def takes_public_model(target: Checkpoint) -> bool:
    """Test whether a public model can propose tokens to this target.

    It reads pages as tokens of the target's vocabulary.
    """
    if target.card.family in OWN_VOCABULARIES:
        return False
    return target.public_tokenizer is not None


def advise_public_model(target: Checkpoint) -> str:
    """Return advice on how to provide a public model for this target."""
    return str(TEXTS[target.public_kind]).format(family=target.card.family)


def has_masked_head(target: Checkpoint) -> bool:
    """Test whether a masked language model of the target's own family can be trained."""
    return target.public_kind == "masked"


def is_masked(folder: checkpoint_folder.CheckpointFolder) -> bool:
    """Test whether a checkpoint's architecture is a masked language model."""
    return any(
        str(name).endswith("ForMaskedLM") for name in folder.config.get("architectures") or ()
    )


def may_propose(path: Path, target: Checkpoint) -> bool:
    """Test whether a checkpoint is a masked language model over the target's tokens."""
    try:
        folder = checkpoint_folder.open_checkpoint(path)
        check_tokens("pretrained", folder, load_tokenizer(folder), target)
    except TargetError:
        return False
    return is_masked(folder)


def load_public(
    path: checkpoint_folder.AnyFolder, target: Checkpoint, batch_tokens: int | None = None
) -> PublicModel:
    """Return the public model in a folder, checked to serve the target.

    Args:
        path: a checkpoint.
        target: target, see `takes_public_model`.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.

    Raises:
        TargetError: it cannot be loaded, has no head for it, or reads other pages or other tokens
            than the target.
    """
    path = checkpoint_folder.open_checkpoint(path)
    device = target.card.device
    images = target.public_images
    if target.takes_denoiser and is_denoiser(path):
        denoiser = load_denoiser(path, device=device, images=images)
        _check_text_tokens(path, denoiser, target)
        return denoiser
    public = load(path, device=device, batch_tokens=batch_tokens, images=images)
    if FillMask not in public.answers:
        raise TargetError(f"reference auxiliary: {path} has no masked-language-model head")
    needed = target.longest_public_page
    if public.card.max_tokens < needed:
        raise TargetError(
            *wording("shorter_pages", path=path, needed=needed, read=public.card.max_tokens)
        )
    check_tokens("auxiliary", path, public.encoder.tokenizer, target)
    check_image_input("auxiliary", path, public.encoder.page_images, target)
    return public


def _check_text_tokens(
    path: checkpoint_folder.CheckpointFolder, denoiser: Denoiser, target: Checkpoint
) -> None:
    """Refuse a denoiser whose text tokens differ from the target's.

    Raises:
        TargetError: they are not.
    """
    tokens = text_tokens(target.public_tokenizer)
    for token, number in denoiser.text_tokens.items():
        if tokens.get(token) != number:
            raise TargetError(*wording("other_tokens", role="auxiliary", path=path))


def check_image_input(
    role: str,
    path: checkpoint_folder.CheckpointFolder,
    page_images: PageImageReader | None,
    target: Checkpoint,
) -> None:
    """Refuse a public model that reads page images otherwise than the target.

    Raises:
        TargetError: it does not.
    """
    if page_images is None:
        return
    taken_by_target = target.page_images
    if taken_by_target is not None:
        size_and_scale = (page_images.size, page_images.scale)
        if (taken_by_target.size, taken_by_target.scale) == size_and_scale:
            return
    raise TargetError(*wording("other_images", role=role, path=path))


def check_tokens(
    role: str, path: checkpoint_folder.CheckpointFolder, tokenizer: Any, target: Checkpoint
) -> None:
    """Refuse a tokenizer whose vocabulary differs from the target's.

    Raises:
        TargetError: it has one.
    """
    if tokenizer.get_vocab() != target.public_tokenizer.get_vocab():
        raise TargetError(*wording("other_tokens", role=role, path=path))
