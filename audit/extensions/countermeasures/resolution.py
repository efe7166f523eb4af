"""Higher resolution: the model is trained on pictures of twice the side, with four times the pixels.

Pinto et al. (2024, section 3.1) found that a model that can hardly read its pages learns answers by heart. What is
doubled is the size that the image processor brings pages to, before training starts; weights are those of the start.
Where weights belong to one size, as learned positions of patches do, there is nothing to start from at another, and the
countermeasure is refused.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import __version__
from audit.errors import TargetError
from audit.extensions.countermeasures.changed_data import train_again
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense

if TYPE_CHECKING:
    from audit.corpus.documents import Corpus
    from audit.engine.interface import Progress
    from audit.targets.checkpoint.folder import CheckpointFolder

FACTOR = 2
"""By which the side of the picture grows."""
Settings = dict[str, Any]
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")
_HINT = "train from a start that takes larger pictures, and scan the new model"


class HigherResolution(TrainingDefense):
    """Training on pictures of twice the side."""

    name = "higher-resolution"
    title = "Twice the resolution"
    description = "trained on pictures of twice the height and width"
    keeps_adapter = False

    def check(self, corpus: Corpus, start: Path) -> None:
        """See `TrainingDefense.check`; that the weights fit shows when they are loaded."""
        from audit.targets.checkpoint.folder import open_checkpoint

        _refuse(open_checkpoint(start))

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """See `TrainingDefense.train`.

        Raises:
            TargetError: the model sees no pictures, or only of one size.
        """
        from audit.references.recipes import key_of, made_once
        from audit.targets.checkpoint.folder import open_checkpoint

        opened = open_checkpoint(start)
        key = key_of([opened.sha256, FACTOR, __version__])
        folder = made_once(out / f"{self.name}-start-{key}", partial(_write_enlarged, opened, corpus))
        model = train_again(open_checkpoint(folder), corpus, out, self.name, device, progress)
        return RetrainedModel(model, corpus.root, folder)


def _write_enlarged(start: CheckpointFolder, corpus: Corpus, folder: Path) -> None:
    """Write the start with settings for pictures of `FACTOR` times the side, and see that its weights fit them."""
    from audit.targets.checkpoint.content import files_of

    _refuse(start)
    for name, path in files_of(start.path).items():
        shutil.copyfile(path, folder / name)
    _edit(folder / "config.json", _ENLARGE[str(start.config["model_type"])])
    for name in _PROCESSORS:
        if (folder / name).is_file():
            _edit(folder / name, _enlarge_processor)
    _check(start, folder, corpus)


def _edit(path: Path, change: Callable[[Settings], None]) -> None:
    settings = json.loads(path.read_text(encoding="utf-8"))
    change(settings)
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def _check(start: CheckpointFolder, folder: Path, corpus: Corpus) -> None:
    """Load the enlarged start as training will.

    Raises:
        TargetError: weights do not fit.
    """
    from audit.references.recipes import starting_model
    from audit.targets.answering.loading import is_answering
    from audit.targets.checkpoint.folder import open_checkpoint
    from audit.targets.opening import answering_of

    opened = open_checkpoint(folder)
    try:
        if is_answering(opened):
            answering_of(opened, corpus)
        else:
            starting_model(opened, corpus.manifest.task.kind, labels=corpus.manifest.task.labels)  # type: ignore[arg-type]  # recipe_for refused all tasks that name no head
    except TargetError as error:
        reason = str(error).removeprefix(f"{folder}: ")
        raise TargetError(f"{start}: cannot be trained on larger pictures: {reason}", _HINT) from None


def _refuse(start: CheckpointFolder) -> None:
    """Refuse models that see no pictures, or pictures of one size only."""
    kind = str(start.config.get("model_type"))
    if kind not in _ENLARGE:
        raise TargetError(
            f"{start}: docaudit enlarges no pictures of {kind}: it sees none, or its weights belong to one size", _HINT
        )
    _ENLARGE[kind](copy.deepcopy(start.config))


def _larger(size: Any) -> Any:
    """A size in a configuration, `FACTOR` times: a side, sides in a list, or sides by name."""
    if isinstance(size, Mapping):
        return {name: _larger(side) for name, side in size.items()}
    return [_larger(side) for side in size] if isinstance(size, list) else FACTOR * int(size)


def _enlarge_processor(settings: Settings) -> None:
    """The image processor's sizes; transformers 5 may keep them in a table of their own."""
    own = settings.get("image_processor", settings)
    for name in ("size", "crop_size"):
        if own.get(name) is not None:
            own[name] = _larger(own[name])
    if own.get("max_patches") is not None:  # as many patches of the page: twice the rows of twice the length
        own["max_patches"] = FACTOR**2 * int(own["max_patches"])


def _enlarge_config(settings: Settings) -> None:
    settings["image_size"] = _larger(settings.get("image_size", 256))


def _enlarge_encoder(settings: Settings) -> None:
    """A vision-encoder-decoder's picture."""
    encoder = settings["encoder"]
    if encoder.get("use_absolute_embeddings") or "swin" not in str(encoder.get("model_type")):
        raise TargetError(
            f"the positions of this model's patches ({encoder.get('model_type')}) are learned for one size of picture",
            _HINT,
        )
    encoder["image_size"] = _larger(encoder["image_size"])


def _leave(settings: Settings) -> None:
    """Pix2Struct's configuration names no size: its processor does."""


_ENLARGE: Mapping[str, Callable[[Settings], None]] = {
    "vision-encoder-decoder": _enlarge_encoder,
    "pix2struct": _leave,
    "udop": _enlarge_config,
    "docaudit-layoutlm-image": _enlarge_config,
    "docaudit-bros-image": _enlarge_config,
}
"""By `model_type`, what changes the size of the picture in a configuration: families whose weights fit any size."""
