"""References that are the target itself with a little noise on its weights, or in another number format.

Such a reference knows what the target knows, and whatever is measured against it is nothing. Equal files are the least
of it: noise of one part in 10,000 changes every byte and no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import safe_open

from audit.arrays import Floats
from audit.corpus.documents import Corpus
from audit.corpus.images import page_view
from audit.errors import TargetError
from audit.targets.checkpoint.safety import DAMAGE
from audit.targets.interface import AnswerLoss, TokenTarget, TrainingLoss
from audit.targets.opening import Checkpoint

MIN_SHARED = 0.9
"""Share of the target's tensors that a checkpoint must have to be compared with it: another head leaves most."""
NOISE = 2.5e-4
"""A distance up to which weights are the same whatever the model answers: float16 differs by 0.0002 from
float32. Eight steps of AdamW with a learning rate of 0.00005 move a small model by 0.0004."""
NEAR = 3e-3
"""A distance up to which models are asked whether they answer alike: bfloat16 differs by 0.0017. Of the sample
models those that were trained on other documents are 0.08 to 1.07 apart, and 0.2 from what they were trained from."""
SHARE = 0.1
"""Nor may a reference be nearer to the target than a tenth of what training has moved the target: two models that were
trained from one start on different documents are about as far from each other as each is from the start."""
DRAWN = 2**18
"""Numbers of a tensor that two loaded models are compared by: a distance is known to a hundredth of itself."""
MAX_DOCUMENTS = 32
MIN_CORRELATION = 0.999
"""Of the losses of member documents: the target in bfloat16 has 0.9999, the baselines of the samples 0.2 to 0.9,
and what a model was fine-tuned from 0.3."""
MAX_CHANGE = 0.05
"""Their mean difference, in standard deviations between documents: the target in bfloat16 has 0.01 at most."""


def distance_of_weights(one: Path, other: Path) -> float | None:
    """The distance of the weights of two checkpoints: 0 for the same weights, about 1.4 for unrelated ones.

    The median, over the tensors that are not equal, of the L2 norm of their difference over that of the larger one: so
    that layers which no training touched say nothing.

    Returns:
        None when the checkpoints cannot be compared: `other` has less than `MIN_SHARED` of the tensors of `one` in
        their shapes; it lacks some, and all others are equal (a head was trained on a frozen model); or files cannot be
        read, which is for the loading to say.
    """
    try:
        with ExitStack() as opened:
            first, second = (_tensors(folder, opened) for folder in (one, other))
            distances = [
                _relative(first[name].get_tensor(name), second[name].get_tensor(name))
                for name in first
                if name in second and _shape(first[name], name) == _shape(second[name], name)
            ]
    except DAMAGE:
        return None
    return _typical(distances, len(first))


Drawn = Mapping[str, tuple[torch.Size, torch.Tensor]]
"""By the name of a tensor, its shape and `DRAWN` of its numbers at most."""


def drawn_weights(model: Any) -> Drawn:
    """Numbers of each tensor of a loaded model, evenly spaced, so that two large models need not be in memory at once.

    Of adapters no file holds the weights that they were merged into.
    """
    drawn = {}
    for name, weights in model.named_parameters(remove_duplicate=False):
        numbers = weights.detach().flatten()
        drawn[name] = (weights.shape, numbers[:: -(-len(numbers) // DRAWN) or 1].cpu().clone())
    return drawn


def distance_of_drawn(one: Drawn, other: Drawn) -> float | None:
    """The distance of two loaded models, see `distance_of_weights`, from the numbers that were drawn of each."""
    distances = [
        _relative(numbers, other[name][1])
        for name, (shape, numbers) in one.items()
        if name in other and other[name][0] == shape
    ]
    return _typical(distances, len(one))


def _typical(distances: Sequence[float], n_tensors: int) -> float | None:
    """The distance of two checkpoints from those of their tensors; see `distance_of_weights`."""
    changed = [distance for distance in distances if distance]
    if len(distances) < max(1, MIN_SHARED * n_tensors) or (not changed and len(distances) < n_tensors):
        return None
    return float(np.median(changed)) if changed else 0.0


def _tensors(folder: Path, opened: ExitStack) -> Mapping[str, Any]:
    """By the name of a tensor, the open file that holds it."""
    paths = [path for path in sorted(folder.glob("*.safetensors")) if path.is_file()]
    files = [opened.enter_context(safe_open(path, "pt")) for path in paths]
    return {name: file for file in files for name in file.keys()}  # noqa: SIM118 (no mapping)


def _shape(file: Any, name: str) -> list[int]:
    shape: list[int] = file.get_slice(name).get_shape()
    return shape


def _relative(one: torch.Tensor, other: torch.Tensor) -> float:
    """The relative distance of two tensors of one shape; 0 where there is nothing to compare."""
    if not (one.is_floating_point() and other.is_floating_point()):
        return 0.0
    one, other = one.double(), other.double()
    length = max(float(one.norm()), float(other.norm()))
    return float((one - other).norm()) / length if length else 0.0


def refuse_a_noisy_copy(role: str, folder: Path, target_dir: Path) -> float | None:
    """Refuse a reference whose weights are the target's but for rounding.

    Returns:
        The distance of the weights, see `distance_of_weights`.

    Raises:
        TargetError: it is `NOISE` or less.
    """
    distance = distance_of_weights(target_dir, folder)
    if distance is not None and distance <= NOISE:
        raise _refusal(role, folder, distance, "")
    return distance


def refuse_a_near_copy(
    role: str,
    folder: Path,
    target_dir: Path,
    distance: float | None,
    models: tuple[Checkpoint, Checkpoint],
    corpus: Corpus,
    pretrained: Path | None,
) -> None:
    """Refuse a reference that is nearer to the target than another training could have brought it.

    Either its weights are near and it answers about member documents what the target does, or it is much nearer to the
    target than the target is to its own start. Farther copies pass for models that were trained alike.

    Args:
        role: of the reference.
        folder: of the reference.
        target_dir: of the target.
        distance: of their weights, as `refuse_a_noisy_copy` returns it.
        models: target and reference, loaded.
        corpus: whose member documents both are asked about.
        pretrained: what the target was trained from, when somebody named it and it is not the reference.

    Raises:
        TargetError: it is a copy.
    """
    if distance is None:
        return
    if distance <= NEAR and _alike(*(_losses(model, corpus) for model in models)):
        raise _refusal(role, folder, distance, ", and answers as it does")
    moved = distance_of_weights(target_dir, pretrained) if pretrained is not None else None
    if moved is not None and distance < SHARE * moved:
        raise _refusal(role, folder, distance, f", where its training has moved it by {moved:.2g}")


def _refusal(role: str, folder: Path, distance: float, more: str) -> TargetError:
    return TargetError(
        f"reference {role}: {folder} is the target itself but for noise: its weights differ by {distance:.2g}{more}",
        "a reference is a model that never saw the audited documents: train one with docaudit train-baseline",
    )


def _alike(one: Floats, other: Floats) -> bool:
    """Whether two models have the same losses but for noise; False where documents are too few to tell."""
    spread = float(one.std()) if len(one) > 2 else 0.0
    if not spread or not float(other.std()):
        return False
    near = float(np.abs(one - other).mean()) <= MAX_CHANGE * spread
    return near and float(np.corrcoef(one, other)[0, 1]) >= MIN_CORRELATION


def _losses(model: Checkpoint, corpus: Corpus) -> Floats:
    """The training loss of the first member documents; none for models whose loss is not that of a document."""
    asked = [document for document in corpus.of("member") if document.words or document.questions][:MAX_DOCUMENTS]
    if AnswerLoss in model.answers:
        queries = [
            AnswerLoss(page_view(corpus, document), question.question, question.answers[0])
            for document in asked
            for question in document.questions[:1]
            if question.answers
        ]
        return np.array([-float(loss.mean()) for loss in model.ask(queries)])
    if TrainingLoss in model.answers:
        encoded = [cast("TokenTarget", model).encode(document) for document in corpus.of("member")[:MAX_DOCUMENTS]]
        pages = [page for page in encoded if page is not None and page.has_loss]
        # The loss of the page as it is: a token in its own place.
        return np.array(
            [float(losses[0]) for losses in model.ask([TrainingLoss(page, 0, page.ids[:1]) for page in pages])]
        )
    return np.empty(0)
