"""Loading an NLU model from a local folder, as safely as `audit.targets.checkpoint.loading` does for encoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from safetensors import safe_open

from audit.errors import TargetError
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_whole_model
from audit.targets.nlu.config import NluConfig
from audit.targets.nlu.model import NluModel
from audit.targets.nlu.target import NluTarget
from audit.targets.nlu.vocabulary import Vocabulary

FAMILY = "BiLSTM-CRF"
TASK = "intent-slots"


def is_nlu(folder: AnyFolder) -> bool:
    """True for a checkpoint whose configuration is that of an NLU model.

    Raises:
        TargetError: the folder is no checkpoint, or is unsafe to load.
    """
    return open_checkpoint(folder).config.get("model_type") == NluConfig.model_type


def load_nlu(
    folder: AnyFolder, *, device: str = "cpu", labels: Sequence[str] = (), batch_rows: int | None = None
) -> NluTarget:
    """Load an NLU model as a target.

    Args:
        folder: what `audit.references.nlu.fit_nlu` wrote.
        device: "cpu", "cuda" or "mps".
        labels: the tags that the manifest names, if any; they must be the model's, in any order.
        batch_rows: see `NluTarget`.

    Raises:
        TargetError: the folder holds no NLU model, or lacks weights or words, or its tags are not `labels`.
    """
    folder = open_checkpoint(folder)
    if not is_nlu(folder):
        raise TargetError(f"{folder}: no NLU model", f"its config.json must say model_type {NluConfig.model_type!r}")
    model = load_whole_model(folder, NluModel)
    vocabulary = Vocabulary.load(folder.path)
    config = model.config
    if len(vocabulary.words) != config.vocab_size:
        raise TargetError(f"{folder}: the vocabulary has {len(vocabulary.words)} words, the model {config.vocab_size}")
    if config.max_tokens < 1:
        raise TargetError(f"{folder}: the model reads no word", "correct max_tokens in config.json")
    _check_whole(model, folder)
    own = [str(config.id2label.get(index)) for index in range(config.num_labels)]
    if labels and sorted(labels) != sorted(own):
        raise TargetError(f"{folder}: the model's labels are not the manifest's", f"the model has {', '.join(own)}")
    layer = ", character layer" if config.n_characters else ""
    card = folder.card(
        model,
        family=FAMILY,
        task=TASK,
        architecture=f"{FAMILY}, intent and slots{layer}",
        vocabulary=config.vocab_size,
        max_tokens=config.max_tokens,
        device=device,
    )
    return NluTarget(model.to(device), vocabulary, card, batch_rows)


def _check_whole(model: NluModel, folder: CheckpointFolder) -> None:
    """Refuse weights that the configuration leaves out, and characters that the character layer cannot look up."""
    stored: set[str] = set()
    for path in folder.path.glob("*.safetensors"):
        with safe_open(path, framework="pt") as weights:
            stored.update(weights.keys())
    left_over = sorted(stored - model.state_dict().keys())
    if left_over:
        raise TargetError(f"{folder}: config.json describes less than the weights have, no {left_over[0]}")
    if model.characters is None:
        return
    numbers: torch.Tensor = model.spellings
    if bool((numbers < 0).any()) or bool((numbers >= model.config.n_characters).any()):
        raise TargetError(f"{folder}: the table of words' characters names characters that the model lacks")
