"""Refuse references that saw what is audited, or that are the target itself but for noise.

A trained reference names its origin in its folder. Copies of a document count as that document. A
reference that is the target with noise on its weights, or in another number format, knows what the
target knows: noise of one part in 10,000 changes every byte and no answer.
"""

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass
from safetensors import safe_open

from audit.arrays import Floats
from audit.corpus.documents import STRICT, Corpus, Document
from audit.corpus.images import image_path, page_view, read_header
from audit.errors import ManifestError, TargetError
from audit.references import wording
from audit.references.recipes import adapter_words
from audit.targets.checkpoint.folder import CheckpointFolder
from audit.targets.checkpoint.safety import DAMAGE
from audit.targets.checkpoint.wrappers import plain_names
from audit.targets.interface import AnswerLoss, TokenTarget, TrainingLoss
from audit.targets.opening import Checkpoint

FILE_NAME = "docaudit-origin.json"


def write_origin(
    folder: Path,
    corpus: Corpus,
    documents: Sequence[Document],
    start: CheckpointFolder | None = None,
) -> None:
    """Write hashes of a model's training documents and of its start into its folder.

    Args:
        folder: folder of the checkpoint.
        corpus: the data set.
        documents: documents that it was trained on; copies share a hash.
        start: the checkpoint whose weights its training began with, if any; an adapter is named in
            words.
    """
    origin = {
        "documents": sorted(_content_digests(corpus, documents)),
        "start": [] if start is None else sorted(_weight_digests(start.beginning)),
        "adapter": None if start is None else adapter_words(start),
    }
    (folder / FILE_NAME).write_text(json.dumps(origin, indent=1) + "\n", encoding="utf-8")


def refuse_the_target(
    role: str, folder: CheckpointFolder, target: CheckpointFolder
) -> float | None:
    """Refuse the target as its own reference; return the distance of their weights.

    A baseline with the target's own memory would hide every leak.

    Returns:
        The distance of the weights, see `distance_of_weights`.

    Raises:
        TargetError: the reference holds the target's weights, or the same but for rounding. Of the
            target's own start that means that nothing of the training is in the target.
    """
    is_start = role == "pretrained"
    if is_start and folder.weights == target.weights:
        raise TargetError(*wording("untrained", target=target, folder=folder))
    # What a training left as it was may be a whole file of the start's.
    if not is_start and folder.weights & target.weights:
        raise TargetError(*wording("own_weights", role=role, folder=folder))
    distance = distance_of_weights(target.path, folder.path)
    if distance is not None and distance <= NOISE:
        if is_start:
            raise TargetError(*wording("untrained", target=target, folder=folder))
        raise _near_copy_error(role, folder.path, distance, "")
    return distance


def adapter_of(folder: Path) -> str | None:
    """Return in words the adapter with which docaudit trained a reference.

    None where none is stated.
    """
    try:
        adapter = json.loads((folder / FILE_NAME).read_text(encoding="utf-8")).get("adapter")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return adapter if isinstance(adapter, str) else None


def refuse_unfit(
    role: str, folder: CheckpointFolder, corpus: Corpus, target: CheckpointFolder
) -> None:
    """Refuse a reference that learnt audited documents, or that was trained from the target.

    A checkpoint that docaudit did not train says nothing about it, and is taken at its owner's
    word.

    Raises:
        TargetError: it is unfit, or the file cannot be read.
    """
    path = folder.path / FILE_NAME
    if not path.exists():
        return
    try:
        origin = json.loads(path.read_text(encoding="utf-8"))
        documents = frozenset(map(str, origin["documents"]))
        start = frozenset(map(str, origin["start"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise TargetError(f"reference {role}: {path} cannot be read") from None
    shared = documents & _content_digests(corpus, corpus.of("member", "heldout"))
    if shared:
        raise TargetError(*wording("knows_documents", role=role, folder=folder, n=len(shared)))
    if start & _weight_digests(target):
        raise TargetError(*wording("from_target", role=role, folder=folder))


def content_of(corpus: Corpus, document: Document) -> Hashable:
    """Return a key that is equal for copies of a document: its words.

    Without words its image file, byte for byte; else its id.

    Raises:
        ManifestError: the image of a document without words cannot be read.
    """
    if document.words:
        return tuple(word.text for word in document.words)
    if document.image is not None:
        return read_header(image_path(corpus, document)).sha256
    return ("id", document.id)


def _content_digests(corpus: Corpus, documents: Sequence[Document]) -> frozenset[str]:
    """Return the hex sha256 of each document's content, the same for copies."""
    return frozenset(
        hashlib.sha256(repr(content_of(corpus, document)).encode()).hexdigest()
        for document in documents
    )


def _weight_digests(folder: CheckpointFolder) -> frozenset[str]:
    """Return the hex digests of the checkpoint's weight files."""
    return frozenset(digest.hex() for digest in folder.weights)


SPLITS_FILE = "splits.json"


@strict_dataclass(frozen=True, config=STRICT)
class Splits:
    """Which documents each model is trained on: the content of `splits.json`.

    Attributes:
        corpus: the data set's sha256.
        key: over all that the models depend on.
        members: ids of the documents of each model, in file order. Model i lies in `folder_of(i)`.
    """

    schema: Literal[1]
    corpus: str
    key: str
    members: tuple[tuple[str, ...], ...]


_splits_type = TypeAdapter(Splits)


def folder_of(number: int) -> str:
    """Return the name of a model's folder, beside `splits.json`."""
    return f"model-{number:02}"


def read_splits(folder: Path, corpus: Corpus | None = None) -> list[tuple[Path, frozenset[str]]]:
    """Return the folders of split models, each with the ids of its documents.

    Each comes with the ids of the documents that it was trained on.

    Args:
        folder: folder of `train_splits`.
        corpus: the data set that they are to have been trained on; None: any.

    Raises:
        ManifestError: there is no `splits.json`, it cannot be used, or it is of another data set.
        TargetError: a model is missing.
    """
    splits = read_plan(folder)
    if corpus is not None and splits.corpus != corpus.sha256:
        raise ManifestError(*wording("other_data_set", folder=folder))
    models = [
        (folder / folder_of(number), frozenset(members))
        for number, members in enumerate(splits.members)
    ]
    missing = [path.name for path, _ in models if not path.is_dir()]
    if missing:
        raise TargetError(
            *wording(
                "models_missing", folder=folder, n=len(missing), of=len(models), first=missing[0]
            )
        )
    return models


def read_plan(folder: Path) -> Splits:
    """Return the plan of `splits.json`: the documents that each model is trained on.

    Raises:
        ManifestError: there is no `splits.json`, or it cannot be used.
    """
    path = folder / SPLITS_FILE
    try:
        return _splits_type.validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ManifestError(*wording("no_splits", folder=folder)) from None
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise ManifestError(f"{path}: not a list of the documents of split models") from None


MIN_SHARED = 0.9
"""Share of the target's tensors that a checkpoint must have to be compared with it: another head
leaves most."""
NOISE = 2.5e-4
"""A distance of weights that are the same: float16 differs by 0.0002 from float32, eight steps of
AdamW by 0.0004."""
NEAR = 3e-3
"""A distance up to which models are asked whether they answer alike: bfloat16 differs by 0.0017. Of the sample
models those that were trained on other documents are 0.08 to 1.07 apart, and 0.2 from what they
were trained from."""
SHARE = 0.1
"""Nor may a reference be nearer to the target than a tenth of what training has moved the target: two models that were
trained from one start on different documents are about as far from each other as each is from the
start."""
DRAWN = 2**18
"""Numbers of a tensor that two loaded models are compared by: a distance is known to a hundredth of
itself."""
MAX_DOCUMENTS = 32
MIN_CORRELATION = 0.999
"""Of members' losses: the target in bfloat16 has 0.9999, other models of the samples at most
0.9."""
MAX_CHANGE = 0.05
"""Their mean difference, in standard deviations between documents: the target in bfloat16 has 0.01
at most."""


def distance_of_weights(one: Path, other: Path) -> float | None:
    """Return the median relative distance of two checkpoints' tensors.

    It is 0 for the same weights, and about 1.4 for unrelated ones: the median, over the tensors
    that differ, of the L2 norm of their difference over that of the larger one. So layers which no
    training touched say nothing, rounded or not, unless there are no others.

    Returns:
        None when the checkpoints cannot be compared: `other` has less than `MIN_SHARED` of the
        tensors of `one` in their shapes; it lacks some, and all others are equal (a head was
        trained on a frozen model); or files cannot be read, which is for the loading to say.
    """
    distances: list[float] = []
    try:
        with ExitStack() as opened:
            left = _open_tensors(one, opened)
            right = _open_tensors(other, opened)
            for name, stored in left.items():
                if name in right and stored.shape == right[name].shape:
                    distances.append(_relative_distance(stored.tensor, right[name].tensor))
    except DAMAGE:
        return None
    return _median_distance(distances, len(left))


@dataclass(frozen=True)
class _StoredTensor:
    """A tensor in an open file of weights.

    Attributes:
        file: the file.
        name: its name there.
    """

    file: Any
    name: str

    @property
    def shape(self) -> list[int]:
        """Return its shape."""
        shape: list[int] = self.file.get_slice(self.name).get_shape()
        return shape

    @property
    def tensor(self) -> torch.Tensor:
        """Return the tensor, read from the file."""
        tensor: torch.Tensor = self.file.get_tensor(self.name)
        return tensor


def distance_of_models(one: Any, other: Any) -> float | None:
    """Return the distance of two loaded models, from evenly spaced numbers of each tensor.

    See `distance_of_weights`.

    Of adapters no file holds the weights that they were merged into. Of a model that is partly kept
    in memory, because no GPU holds it, only the tensors on GPUs count.
    """
    left = _loaded_tensors(one)
    right = _loaded_tensors(other)
    distances = [
        _relative_distance(_spaced_numbers(weights), _spaced_numbers(right[name]))
        for name, weights in left.items()
        if name in right and weights.shape == right[name].shape
    ]
    return _median_distance(distances, len(left))


def _loaded_tensors(model: Any) -> dict[str, torch.Tensor]:
    """Return the parameters of a model that are in memory, by name."""
    parameters = model.named_parameters(remove_duplicate=False)
    return {name: weights for name, weights in parameters if not weights.is_meta}


def _spaced_numbers(weights: torch.Tensor) -> torch.Tensor:
    """Return about `DRAWN` numbers of a tensor, evenly spaced, on the CPU."""
    numbers = weights.detach().flatten()
    return numbers[:: -(-len(numbers) // DRAWN) or 1].cpu()


def _median_distance(distances: Sequence[float], n_tensors: int) -> float | None:
    """Return the median distance of the changed tensors of two checkpoints.

    See `distance_of_weights`.
    """
    changed = [distance for distance in distances if distance]
    trained = [distance for distance in changed if distance > NOISE]
    if len(distances) < max(1, MIN_SHARED * n_tensors):
        return None
    if changed:
        return float(np.median(trained or changed))
    return 0.0 if len(distances) >= n_tensors else None


def _open_tensors(folder: Path, opened: ExitStack) -> Mapping[str, _StoredTensor]:
    """Return the tensors in the weight files of a folder, by names without those of wrappers."""
    paths = [path for path in sorted(folder.glob("*.safetensors")) if path.is_file()]
    files = [opened.enter_context(safe_open(path, "pt")) for path in paths]
    stored = {name: file for file in files for name in file.keys()}  # noqa: SIM118 (no mapping)
    renamed = plain_names(stored)
    return {plain: _StoredTensor(stored[name], name) for plain, name in renamed.items()}


def _relative_distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the relative distance of two tensors of one shape.

    Both are brought into the coarser of their formats first, so that what an export rounded counts
    as unchanged. 0 where there is nothing to compare.
    """
    if not (one.is_floating_point() and other.is_floating_point()):
        return 0.0
    coarser = max(one.dtype, other.dtype, key=_rounding)
    left = one.to(coarser).double()
    right = other.to(coarser).double()
    length = max(float(left.norm()), float(right.norm()))
    return float((left - right).norm()) / length if length else 0.0


def _rounding(number_format: torch.dtype) -> float:
    """Return the relative distance of neighbouring numbers of a format."""
    return torch.finfo(number_format).eps


@dataclass(frozen=True)
class Suspect:
    """A loaded reference that might be a copy of the target.

    Attributes:
        role: role of the reference.
        folder: folder of the reference.
        model: the loaded model.
        distance: distance of its weights from the target's, as `refuse_the_target` returns it.
    """

    role: str
    folder: Path
    model: Checkpoint
    distance: float | None


def refuse_a_near_copy(
    suspect: Suspect,
    target: Checkpoint,
    target_dir: Path,
    corpus: Corpus,
    pretrained: Path | None,
) -> None:
    """Refuse a reference whose weights are nearer to the target's than training allows.

    Either its weights are near and it answers about member documents what the target does, or it is
    much nearer to the target than the target is to its own start. Farther copies pass for models
    that were trained alike.

    Args:
        suspect: the reference.
        target: the audited model.
        target_dir: folder of the target.
        corpus: data set whose member documents both are asked about.
        pretrained: what the target was trained from, when somebody named it and it is not the
            reference.

    Raises:
        TargetError: it is a copy.
    """
    role = suspect.role
    folder = suspect.folder
    distance = suspect.distance
    if distance is None:
        return
    if distance <= NEAR and _has_equal_losses(
        _losses(target, corpus), _losses(suspect.model, corpus)
    ):
        raise _near_copy_error(role, folder, distance, ", and answers as it does")
    if pretrained is None:
        return
    moved = distance_of_weights(target_dir, pretrained)
    if moved is not None and distance < SHARE * moved:
        raise _near_copy_error(
            role, folder, distance, f", where its training has moved it by {moved:.2g}"
        )


def _near_copy_error(role: str, folder: Path, distance: float, more: str) -> TargetError:
    """Return the error for a reference that is the target but for noise; `more` says why."""
    return TargetError(
        f"reference {role}: {folder} is the target itself but for noise: its weights differ by {distance:.2g}{more}",
        "a reference is a model that never saw the audited documents: train one with docaudit references --train",
    )


def _has_equal_losses(one: Floats, other: Floats) -> bool:
    """Test whether two models' losses (n_documents,) are equal but for noise.

    False where documents are too few to tell.
    """
    spread = float(one.std()) if len(one) > 2 else 0.0
    if not spread or not float(other.std()):
        return False
    near = float(np.abs(one - other).mean()) <= MAX_CHANGE * spread
    return near and float(np.corrcoef(one, other)[0, 1]) >= MIN_CORRELATION


def _losses(model: Checkpoint, corpus: Corpus) -> Floats:
    """Return the model's training losses of the first member documents.

    None for models whose loss is not that of a document.
    """
    if AnswerLoss in model.answers:
        return _answer_losses(model, corpus)
    if TrainingLoss in model.answers:
        return _page_losses(cast("TokenTarget", model), corpus)
    return np.empty(0)


def _answer_losses(model: Checkpoint, corpus: Corpus) -> Floats:
    """Return the loss of the first answer on each of the first member documents."""
    members = corpus.of("member")
    readable = [document for document in members if document.words or document.questions]
    queries = []
    for document in readable[:MAX_DOCUMENTS]:
        for question in document.questions[:1]:
            if question.answers:
                view = page_view(corpus, document)
                queries.append(AnswerLoss(view, question.question, question.answers[0]))
    return np.array([-float(loss.mean()) for loss in model.ask(queries)])


def _page_losses(model: TokenTarget, corpus: Corpus) -> Floats:
    """Return the loss of the page of each of the first member documents."""
    encoded = [model.encode(document) for document in corpus.of("member")[:MAX_DOCUMENTS]]
    pages = [page for page in encoded if page is not None and page.has_loss]
    # The loss of the page as it is: a token in its own place.
    losses = model.ask([TrainingLoss(page, 0, page.ids[:1]) for page in pages])
    return np.array([float(loss[0]) for loss in losses])
