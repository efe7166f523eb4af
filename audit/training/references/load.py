"""Models beside the target that never saw the audited documents, or only half of them: given, loaded and checked.

Most are of the target's own kind; a sentence embedder is of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.corpus.documents import Corpus
from audit.errors import TargetError
from audit.targets.answering.denoiser import is_denoiser
from audit.targets.answering.loading import is_answering
from audit.targets.answering.target import AnsweringTarget
from audit.targets.embedder.target import EmbedderTarget, load_embedder
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint, target_of
from audit.training.references.cache import UNFINISHED
from audit.training.references.likeness import refuse_a_near_copy
from audit.training.references.provenance import refuse_the_target, refuse_unfit
from audit.training.references.splits import read_splits

Source = Literal["manifest", "command line"]
Place = tuple[Path, Source]
"""A reference's folder, and who named it."""
SAME_KIND = ("baselines", "pretrained", "splits")
"""References that are models of the target's own kind."""
PROVIDE_BASELINES = (
    "give models trained as this one was, without the audited documents (--reference baselines=PATH), or train them: "
    "docaudit train-baseline"
)
PROVIDE_EMBEDDER = "give a sentence embedder, such as those of sentence-transformers (--reference embedder=PATH)"


@dataclass(frozen=True)
class SameKindReference:
    """One of them.

    Attributes:
        role: "baseline-0" ..., "pretrained", "split-0" ...
        folder: where it lies.
        source: who named it.
        target: it, loaded.
        members: the ids of the documents it was trained on, for a split model.
    """

    role: str
    folder: Path
    source: Source
    target: Checkpoint
    members: frozenset[str] | None = None


@dataclass(frozen=True)
class Embedder:
    """A sentence embedder that somebody gave.

    Attributes:
        target: it, loaded.
        source: who named it.
        folder: where it lies.
    """

    target: EmbedderTarget
    source: Source
    folder: Path


def load_same_kind(
    wanted: Sequence[str],
    target: Checkpoint,
    target_dir: Path,
    corpus: Corpus,
    places: Mapping[str, Sequence[Place]],
) -> tuple[SameKindReference, ...]:
    """Load the references of the same kind that attacks want and somebody named.

    Args:
        wanted: of `SAME_KIND`.
        target: the audited checkpoint.
        target_dir: its folder.
        corpus: the data set.
        places: by name, the folders. Of baselines each is a checkpoint, or a folder of checkpoints; of splits, what
            `docaudit train-splits` wrote.

    Raises:
        TargetError: one cannot be loaded, is of another kind than the target, or is the target itself.
        ManifestError: the list of the splits' members cannot be used.
    """
    found: list[tuple[str, Path, Source, frozenset[str] | None]] = []
    if "baselines" in wanted:
        folders = [(own, source) for path, source in places.get("baselines", ()) for own in _checkpoints(path)]
        found += [(f"baseline-{number}", path, source, None) for number, (path, source) in enumerate(folders)]
    if "pretrained" in wanted:
        named = places.get("pretrained", ())
        asked = [place for place in named if _asked_alike(place[0], target, target_dir, corpus)]
        found += [("pretrained", path, source, None) for path, source in asked]
    if "splits" in wanted:
        trained = [(*split, source) for path, source in places.get("splits", ()) for split in read_splits(path, corpus)]
        found += [(f"split-{number}", path, source, members) for number, (path, members, source) in enumerate(trained)]
    start = next((path for path, _ in places.get("pretrained", ())), None)
    return tuple(_loaded(*one, target, target_dir, corpus, start) for one in found)


def _asked_alike(folder: Path, target: Checkpoint, target_dir: Path, corpus: Corpus) -> bool:
    """Whether what the target was fine-tuned from can be asked what the target is asked.

    Models that answer questions begin as such, unless they begin as T5; a masked language model too. A tagger mostly
    begins as a masked language model or a bare encoder: these give no loss of tags, and are the start of the public
    model only.
    """
    if not isinstance(target, EncoderTarget):
        return isinstance(target, AnsweringTarget) and (is_answering(folder) or not is_denoiser(folder))
    refuse_the_target("pretrained", folder, target_dir)
    try:
        _of_kind("pretrained", folder, target, corpus)
    except TargetError:
        return False
    return True


def given_embedder(target: Checkpoint, target_dir: Path, places: Mapping[str, Sequence[Place]]) -> Embedder | None:
    """The sentence embedder that somebody named, on the target's device; None when nobody did.

    Args:
        target: the audited checkpoint.
        target_dir: its folder.
        places: by name, the folders.

    Raises:
        TargetError: it cannot be loaded, or holds the target's own weights.
    """
    if "embedder" not in places:
        return None
    ((path, source),) = places["embedder"]
    refuse_the_target("embedder", path, target_dir)
    return Embedder(load_embedder(path, target.card.device), source, path)


def _checkpoints(path: Path) -> list[Path]:
    """The folder itself when it is a checkpoint, else the checkpoints in it, by name."""
    if (path / "config.json").is_file():
        return [path]
    finished = (folder for folder in path.iterdir() if not folder.name.startswith(UNFINISHED))
    inside = sorted(folder for folder in finished if (folder / "config.json").is_file())
    if not inside:
        raise TargetError(f"reference baselines: {path} is no checkpoint and holds none")
    return inside


def _loaded(
    role: str,
    folder: Path,
    source: Source,
    members: frozenset[str] | None,
    target: Checkpoint,
    target_dir: Path,
    corpus: Corpus,
    start: Path | None,
) -> SameKindReference:
    refuse_the_target(role, folder, target_dir)
    if members is None and role != "pretrained":
        refuse_unfit(role, folder, corpus, target_dir)
    reference = _of_kind(role, folder, target, corpus)
    refuse_a_near_copy(
        role, folder, target_dir, (target, reference), corpus, pretrained=None if role == "pretrained" else start
    )
    return SameKindReference(role, folder, source, reference, members)


def _of_kind(role: str, folder: Path, target: Checkpoint, corpus: Corpus) -> Checkpoint:
    """The checkpoint, which can be asked what the target is asked.

    Raises:
        TargetError: it cannot be loaded, or is of another kind than the target.
    """
    if isinstance(target, EncoderTarget):
        reference = target_of(folder, corpus, target.card.device, target.batch_tokens)
    else:
        reference = target_of(folder, corpus, target.card.device, batch_rows=target.batch_rows)
    own, other = target.card, reference.card
    if (own.family, own.task) != (other.family, other.task):
        raise TargetError(
            f"reference {role}: {folder} is {other.architecture}, the target {own.architecture}",
            "it must be of the target's own kind",
        )
    if isinstance(target, EncoderTarget) and isinstance(reference, EncoderTarget):
        _check_outputs(role, folder, reference, target)
    if role != "pretrained" and own.resolution != other.resolution:
        raise TargetError(
            f"reference {role}: {folder} sees pages of another size than the target",
            f"the target sees {own.resolution}, height and width, the reference {other.resolution}",
        )
    return reference


def _check_outputs(role: str, folder: Path, reference: EncoderTarget, target: EncoderTarget) -> None:
    """Losses compare only over the same outcomes: the same tags, or for masked language models the same tokens."""
    masked = target.card.task == "mlm"
    tokens = [model.encoder.tokenizer.get_vocab() for model in (reference, target)] if masked else [{}, {}]
    if sorted(reference.labels) != sorted(target.labels) or tokens[0] != tokens[1]:
        raise TargetError(
            f"reference {role}: {folder} has other {'tokens' if masked else 'labels'} than the target",
            "it must be of the target's own kind",
        )
