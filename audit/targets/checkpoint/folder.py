"""A checkpoint's folder, opened once.

It is checked before anything in it is loaded, and each file is hashed at most once.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import TypeAdapter, ValidationError

from audit.cards import PrivacyCard, TargetCard
from audit.errors import is_address
from audit.files import digest_of_files, hub_revision
from audit.plugins import find
from audit.targets import wording
from audit.targets.checkpoint import content
from audit.targets.checkpoint.adapters import Adapter, assemble, base_folder, read_adapter
from audit.targets.checkpoint.safety import (
    method_of,
    refuse_training,
    refuse_unsafe,
    refuse_unsafe_adapter,
)
from audit.targets.checkpoint.tree import files_of

PRIVACY_FILE = "docaudit_privacy.json"
_MAX_BYTES = 2**16
_CARD: TypeAdapter[PrivacyCard] = TypeAdapter(PrivacyCard)


def weights_sha256(folder: AnyFolder) -> str:
    """Return the hex sha256 over the digests of a checkpoint's weight files.

    They count in their order, whatever they are called.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    return hashlib.sha256(b"".join(sorted(open_checkpoint(folder).weights))).hexdigest()


def dump_privacy(card: PrivacyCard) -> bytes:
    """Return the bytes of a `PRIVACY_FILE` that states this guarantee."""
    return (json.dumps(asdict(cast("Any", card)), indent=1) + "\n").encode()


def privacy_card(folder: AnyFolder) -> PrivacyCard | None:
    """Return the privacy guarantee that a checkpoint states; None where it states none.

    None where it states none of these weights that could be ours.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    opened = open_checkpoint(folder)
    path = opened.path / PRIVACY_FILE
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        card = _CARD.validate_json(path.read_bytes())
    except (OSError, ValidationError, RecursionError):
        return None
    private = card.epsilon is not None
    could_be_ours = card.delta <= 1 / card.n_units and private == (
        card.secure and card.noise_multiplier > 0
    )
    return (
        card
        if could_be_ours and not card.curve and card.weights == weights_sha256(opened)
        else None
    )


def stated_guarantee(model: AnyFolder) -> tuple[PrivacyCard | None, tuple[str, ...]]:
    """Return the privacy guarantee that a checkpoint states, and warnings about it.

    One that does not follow from its numbers is not believed.

    Returns:
        The card with its privacy curve, None where there is none to believe, and warnings.

    Raises:
        TargetError: the folder is no checkpoint.
    """
    card = privacy_card(model)
    if card is None or card.epsilon is None:
        return card, ()
    # Loads torch and Opacus, which scans of other models do without.
    from audit.stats.dp_accounting import may_give, privacy_curve

    numbers = (card.noise_multiplier, card.delta, card.unit_rate, card.steps, card.client_rate)
    if card.sample_rate <= card.client_rate * (1 + 1e-9) and may_give(card.epsilon, *numbers):
        return replace(card, curve=privacy_curve(*numbers)[1:]), ()
    return None, wording("not_given", epsilon=card.epsilon, delta=card.delta)


NumberFormat = Literal["auto", "float32", "bfloat16"]
"""What weights are held in; "auto": see `audit.targets.checkpoint.loading.load_model`."""


@dataclass(frozen=True, eq=False)
class CheckpointFolder:
    """A folder that passed the safety checks; made by `open_checkpoint`.

    Hashes are taken before weights are loaded (`seal`), or when first asked for, and belong to this
    object, never to a path. Whoever keeps something under a hash opens the folder where the
    training begins, so that an older opening never vouches for newer files.

    Attributes:
        path: the folder that holds configuration, tokenizer and processor, and the weights but of
            an adapter.
        config: its config.json; of an adapter, the base's as the adapter changes it.
        progress: receiver of the progress of its training.
        adapter: the adapter, when the folder that was opened holds one.
        base: the model that the adapter was trained on.
        fresh: leave out the adapter's weights: the model is its base, with as many tokens as the
            adapted one has.
        number_format: what its weights are held in.
    """

    path: Path
    config: dict[str, Any]
    progress: content.TrainingProgress
    adapter: Adapter | None = None
    base: CheckpointFolder | None = None
    fresh: bool = False
    number_format: NumberFormat = "auto"

    def __str__(self) -> str:
        """Return the path that names the checkpoint in errors: an adapter's own folder."""
        return str(self.own_path)

    @property
    def own_path(self) -> Path:
        """Return the folder that was opened: of an adapter its own, not what was assembled."""
        return self.path if self.adapter is None else self.adapter.path

    @property
    def beginning(self) -> CheckpointFolder:
        """Return the folder whose weights a training begins from: of an adapter its base."""
        return self if self.base is None else self.base

    @property
    def _files(self) -> dict[str, Path]:
        """Return the hashed files of the opened folder by name."""
        # An adapter's folder itself, not what was assembled of it and its base: `docaudit gate` can
        # hash both alike.
        return files_of(self.own_path)

    @cached_property
    def _digests(self) -> dict[str, bytes]:
        """Return the sha256 of each file of the opened folder by name."""
        return {name: content.file_digest(path) for name, path in self._files.items()}

    @property
    def sha256(self) -> str:
        """Return the sha256 over names and content of configuration, tokenizer and weights.

        Those of an adapter's base count too.
        """
        own = {name: digest.hex() for name, digest in self._digests.items()}
        return digest_of_files(own, None if self.base is None else self.base.sha256)

    def seal(self) -> None:
        """Hash all files now, before they are loaded.

        Whoever loads them does this first, so that hashes are of what was there before.
        """
        assert self.sha256

    @property
    def file_hashes(self) -> dict[str, str]:
        """Return the hex sha256 of each file of the checkpoint by its path in the folder.

        Those of an adapter's base under "base/".
        """
        own = {name: digest.hex() for name, digest in self._digests.items()}
        based = {} if self.base is None else self.base.file_hashes
        return {**own, **{f"{content.BASE}{name}": digest for name, digest in based.items()}}

    @property
    def unrun_code(self) -> dict[str, str]:
        """Return the hex sha256 of each file of code that its settings name and that is not run.

        Those of an adapter's base under "base/".
        """
        hashes = content.unrun_code(self.own_path)
        if self.base is not None:
            code = self.base.unrun_code
            hashes.update({f"{content.BASE}{name}": digest for name, digest in code.items()})
        return hashes

    @property
    def weights(self) -> frozenset[bytes]:
        """Return the digests of the folder's own weight files.

        An adapter's base has others.
        """
        return frozenset(
            own for name, own in self._digests.items() if name.endswith(".safetensors")
        )

    @property
    def weights_written(self) -> dt.date | None:
        """Return the day (UTC) on which the weight files were last written.

        It is told as far as the file system tells.
        """
        times = [
            path.stat().st_mtime
            for name, path in self._files.items()
            if name.endswith(".safetensors")
        ]
        return dt.datetime.fromtimestamp(max(times), dt.UTC).date() if times else None

    @property
    def weight_names(self) -> frozenset[str]:
        """Return the names of the tensors in the weight files; of an adapter, its base's.

        Damaged files have none: what loads them says what is wrong.
        """
        from safetensors import SafetensorError, safe_open

        if self.base is not None:
            return self.base.weight_names
        names: set[str] = set()
        for name, path in files_of(self.path).items():
            if name.endswith(".safetensors"):
                with suppress(SafetensorError), safe_open(path, "pt") as tensors:
                    names.update(tensors.keys())
        return frozenset(names)

    def card(
        self,
        model: Any,
        family: str,
        task: str,
        words: str,
        *,
        max_tokens: int,
        device: str,
        **more: Any,
    ) -> TargetCard:
        """Return the card of the model that was loaded from this folder, for the record.

        `words` say what it is for.
        """
        method, architecture, revision = (
            method_of(self.config),
            f"{family}, {words}",
            hub_revision(self.own_path),
        )
        return TargetCard(
            name=self.own_path.resolve().name
            if revision is None
            else revision.partition("@")[0].rpartition("/")[2],
            family=family,
            task=task,
            architecture=architecture
            if method is None
            else f"{architecture}, weights quantised ({method})",
            parameters=model.num_parameters(),
            max_tokens=max_tokens,
            sha256=self.sha256,
            device=device,
            dtype="float32" if method is not None else _dtype_of(model),
            **self.progress.model_dump(),
            files=self.file_hashes,
            revision=revision,
            unrun_code=self.unrun_code,
            **more,
        )


AnyFolder = Path | CheckpointFolder
"""A path that is still to be opened, or an opened folder."""


def open_checkpoint(folder: AnyFolder, base: Path | None = None) -> CheckpointFolder:
    """Return a checkpoint's folder, checked to be safe to load; an opened one as it is.

    Args:
        folder: a checkpoint, or an adapter that PEFT wrote.
        base: the model that an adapter was trained on; None: the local folder that the adapter
            names.

    Raises:
        TargetError: it is no checkpoint, loading it could run code or read a pickle, or an
            adapter's base is missing.
    """
    if isinstance(folder, CheckpointFolder):
        return folder
    if is_address(folder):
        return cast("CheckpointFolder", find("docaudit.sources", folder.parts[0][:-1])(folder))
    if not content.is_adapter(folder):
        return CheckpointFolder(folder, refuse_unsafe(folder), content.training_progress(folder))
    settings = refuse_unsafe_adapter(folder)
    under = open_checkpoint(base_folder(folder, settings, base))
    refuse_training(under, under.config)
    adapter = read_adapter(folder, settings)
    path = assemble(adapter, under.path)
    config: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return CheckpointFolder(path, config, content.training_progress(folder), adapter, under)


Places = tuple[tuple[Path, tuple[str, ...]], ...]
"""Folders, each with the names of its files."""


def places_of(folder: CheckpointFolder) -> Places:
    """Return the folders of a checkpoint, each with its files: itself, and an adapter's base.

    See `open_checkpoint`.
    """
    paths = (part.own_path.absolute() for part in (folder, folder.base) if part)
    return tuple((path, tuple(files_of(path))) for path in paths)


def in_format(folder: CheckpointFolder, number_format: NumberFormat) -> CheckpointFolder:
    """Return the folder with the number format in which its weights are to be loaded.

    So are those of an adapter's base.
    """
    base = None if folder.base is None else in_format(folder.base, number_format)
    return replace(folder, base=base, number_format=number_format)


def is_checkpoint(folder: Path) -> bool:
    """Test whether a path holds a model's configuration or an adapter, or is a server's address.

    And for the address of a server.
    """
    return is_address(folder) or (folder / "config.json").is_file() or content.is_adapter(folder)


def _dtype_of(model: Any) -> str:
    """Return the number format that most of a model's weights have."""
    sizes: Counter[str] = Counter()
    for weights in model.parameters():
        sizes[str(weights.dtype).removeprefix("torch.")] += weights.numel()
    return sizes.most_common(1)[0][0]
