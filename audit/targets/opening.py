"""Opening a checkpoint as a data set's manifest says it was trained."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, Self, get_args

import torch

import audit
from audit import plugins
from audit.cards import SCANNED_WITH, Environment
from audit.corpus.canaries.pages import open_page
from audit.corpus.canaries.schema import planted_ids
from audit.corpus.documents import SPLITS, Corpus, Document, Task, TaskKind
from audit.corpus.folding import places_of
from audit.corpus.removal.tesseract import TESSERACT
from audit.errors import TargetError, UsageError
from audit.targets import wording
from audit.targets.answering.loading import is_answering, load_answering
from audit.targets.answering.target import AnsweringTarget
from audit.targets.checkpoint.content import is_adapter, names_code
from audit.targets.checkpoint.folder import AnyFolder, CheckpointFolder, open_checkpoint
from audit.targets.checkpoint.loading import is_offloaded
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.extractive import ExtractiveTarget, is_extractive, load_extractive
from audit.targets.interface import Target, TokenTarget
from audit.targets.parsing import load_parsing
from audit.targets.reference_rules import ReferenceRules

OF_A_BATCH = 6 << 30
"""Bytes that a batch of LayoutLM-base takes, rounded up (benchmarks/gpu/h100/tables.md)."""
SMALL = 200_000_000
"""Weights of a model that one core computes as fast, for each core, as all cores together. Ours."""
MODELS_OF_A_SCAN = 4
"""Models that an attack holds at most: the audited one, a public one, its start, a baseline."""


class OtherTarget(TokenTarget, ReferenceRules, Protocol):
    """A target of a kind that an extension adds; its class inherits `ReferenceRules`.

    Attributes:
        model: the transformers model.
        batch_rows: samples of one forward pass.
        lowered: number of times that it was lowered because memory ran out.
    """

    model: Any
    batch_rows: int
    lowered: int

    def check(self, corpus: Corpus) -> None:
        """Refuse a corpus that the model cannot read."""
        ...

    def rounded(self, dtype: str) -> Self:
        """Return a copy of this checkpoint that computes in another number format."""
        ...

    def unknown_names(self, documents: Sequence[Document]) -> Mapping[str, frozenset[str]]:
        """Return, by document id, the labels that the model lacks.

        A document without any is no key.
        """
        ...


Checkpoint = EncoderTarget | AnsweringTarget | ExtractiveTarget | OtherTarget
"""A target that was loaded from a folder."""


@dataclass(frozen=True)
class Opener:
    """Opens checkpoints of a kind that the core does not know.

    An entry point of `docaudit.targets`.

    Its name is the `model_type` of their configurations.

    Attributes:
        open: makes the target from the folder, the corpus, the device and the rows of a batch.
        task: the kind of task of these models; None: one that the core knows.
        recipe: a dataclass with epochs, learning_rate, batch_size and seed; None: docaudit trains
            no such models.
        train: trains a model of the sizes of another, whose weights are not read, on documents:
            `train(start, documents, recipe, folder, progress, half=half)`.
        open_learner: makes what trains with privacy from the start, the corpus, a seed and the
            device.
    """

    open: Callable[[CheckpointFolder, Corpus, str, int | None], Checkpoint]
    task: TaskKind | None = None
    recipe: type[Any] | None = None
    train: Callable[..., object] | None = None
    open_learner: Callable[[CheckpointFolder, Corpus, int, str], Any] | None = None


def trainer_of(task: TaskKind) -> Opener | None:
    """Return the extension that trains models for a task; None for tasks of the core.

    None where the core trains them, or nobody does.
    """
    if task in get_args(HeadName) or Task(task).asks:
        return None
    openers = (
        item for item in plugins.load("docaudit.targets").values() if isinstance(item, Opener)
    )
    return next(
        (opener for opener in openers if opener.task == task and opener.train is not None), None
    )


def open_model(folder: AnyFolder, corpus: Corpus, base: Path | None = None) -> CheckpointFolder:
    """Open the folder of a model that was trained on a data set's task.

    Args:
        folder: a checkpoint, or an adapter that PEFT wrote; an opened one is returned as it is.
        corpus: its manifest may name, as `references.pretrained`, the base that an adapter was
            trained on.
        base: the same, named elsewhere; it outranks the manifest's.

    Raises:
        TargetError: see `open_checkpoint`.
    """
    if isinstance(folder, CheckpointFolder) or not is_adapter(folder):
        return open_checkpoint(folder)
    places = [] if base is None else [base]
    in_manifest = corpus.manifest.references.pretrained
    if in_manifest:
        places.append(corpus.root / in_manifest)
    elsewhere = (place for place in places if place.resolve() != folder.resolve())
    return open_checkpoint(folder, next(elsewhere, None))


def target_of(
    folder: AnyFolder,
    corpus: Corpus,
    device: str = "cpu",
    batch_tokens: int | None = None,
    batch_rows: int | None = None,
) -> Checkpoint:
    """Return a checkpoint that was trained on the corpus's task.

    Args:
        folder: a Hugging Face checkpoint on this machine.
        corpus: names the model's outputs, says how it was trained, and holds the page images.
        device: device, see `load`.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.
        batch_rows: number of rows of a batch, see `AnsweringTarget` and `ExtractiveTarget`.

    Raises:
        TargetError: see `load`, `load_answering`, `load_extractive` and `load_parsing`.
    """
    folder = open_model(folder, corpus)
    opener = getattr(folder, "opener", None) or plugins.find(
        "docaudit.targets", str(folder.config.get("model_type"))
    )
    if isinstance(opener, Opener):
        return opener.open(folder, corpus, device, batch_rows)
    if is_extractive(folder):
        return load_extractive(folder, device=device, batch_rows=batch_rows)
    if is_answering(folder):
        return answering_of(folder, corpus, device, batch_rows)
    if corpus.manifest.task.kind == "parsing":
        raise TargetError(
            *wording("writes_no_text", folder=folder, kind=folder.config.get("model_type"))
        )
    return load(
        folder,
        device=device,
        labels=corpus.manifest.task,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        batch_tokens=batch_tokens,
        images=partial(open_page, corpus),
    )


def answering_of(
    folder: AnyFolder, corpus: Corpus, device: str = "cpu", batch_rows: int | None = None
) -> AnsweringTarget:
    """Return a checkpoint that was trained to answer questions, or for parsing to write pages.

    Raises:
        TargetError: see `load_answering` and `load_parsing`.
    """
    recipe = corpus.manifest.recipe
    settings: dict[str, Any] = {
        "device": device,
        "batch_rows": batch_rows,
        "images": partial(open_page, corpus),
        "prompt": recipe.prompt,
        "system": recipe.system,
    }
    if corpus.manifest.task.kind == "parsing":
        return load_parsing(folder, max_new_tokens=recipe.max_new_tokens, **settings)
    return load_answering(folder, **settings)


def check(target: Checkpoint, corpus: Corpus) -> None:
    """Refuse a corpus that the target cannot read, or that is for models of another task.

    Raises:
        ManifestError: pages lack the images that the model reads.
        TargetError: the model does not know the corpus's words, tags or intents, or is for another
            task (see `SCANNED_WITH`).
    """
    kind = corpus.manifest.task.kind
    card = target.card
    if kind != card.task and kind not in SCANNED_WITH.get(card.task, ()):
        raise TargetError(
            *wording("other_task", architecture=card.architecture, task=kind, own=card.task)
        )
    if isinstance(target, EncoderTarget):
        target.encoder.check_vocabulary(corpus.documents)
    else:
        target.check(corpus)


DEVICES = ("auto", "cpu", "cuda", "mps")
_PACKAGES = ("numpy", "pillow", "scipy", "tokenizers", "torch", "transformers")
"""The packages that a number can depend on."""


def device_named(name: str) -> str:
    """Return the device to run on: `auto` takes CUDA, then Apple's MPS, then the CPU.

    Raises:
        UsageError: an unknown name, or a device this machine lacks.
    """
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return next(device for device in ("cuda", "mps", "cpu") if present[device])
    if not present.get(name, False):
        raise UsageError(f"device {name!r} is not available here", f"one of {', '.join(DEVICES)}")
    return name


def n_gpus() -> int:
    """Count the CUDA devices of this machine."""
    return int(torch.cuda.device_count())


def count_copies(target: Checkpoint, most: int) -> int:
    """Count the workers that a GPU has room for beside this process.

    Each holds as much as this process holds now. Of several, each also needs `OF_A_BATCH`.

    Args:
        target: the model; one that lies on several devices leaves no room.
        most: number to count to.
    """
    if len({weights.device for weights in target.model.parameters()}) > 1:
        return 0
    free = torch.cuda.mem_get_info()[0]
    of_models = 1.25 * torch.cuda.memory_allocated()
    for count in range(most, 1, -1):
        if count * (of_models + OF_A_BATCH) <= free:
            return count
    return int(of_models <= free)


def is_small(target: Checkpoint, n_workers: int) -> bool:
    """Test whether a model on a CPU is so small that each core may hold it and its references."""
    n_weights = sum(weights.numel() for weights in target.model.parameters())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    needed = n_workers * MODELS_OF_A_SCAN * 4 * n_weights
    return bool(n_weights <= SMALL and needed <= memory / 2)


def device_words(device: str) -> str:
    """Return the device in general terms, for the record.

    A worker's may be none of this machine.
    """
    if device == "mps":
        return "Apple GPU"
    if device == "cuda":
        return str(torch.cuda.get_device_name()) if n_gpus() else "GPU"
    return "CPU"


def instructions() -> str:
    """Return the CPU instructions that PyTorch uses, and how it is to round with them."""
    return f"{torch.backends.cpu.get_cpu_capability()} {os.environ.get('MKL_CBWR', '')}"


def threads() -> int:
    """Return the number of CPU threads that a forward pass uses."""
    return int(torch.get_num_threads())


def use_threads(count: int) -> None:
    """Set the number of CPU threads of every forward pass."""
    torch.set_num_threads(count)


def packages() -> dict[str, str]:
    """Return versions of the packages that a number can depend on."""
    return {name: _version_of(name) for name in _PACKAGES}


@cache
def _version_of(package: str) -> str:
    """Return the version of a package, read from the disk once: each attack asks for all."""
    return importlib.metadata.version(package)


def environment(target: Checkpoint, device: str | None = None) -> Environment:
    """Return the machine and the packages of the audit, for the record.

    `device`: of workers elsewhere.
    """
    places = getattr(getattr(target, "model", None), "hf_device_map", {}).values()
    n_gpus, words = len({*places} - {"cpu"}), device_words(device or target.card.device)
    return Environment(
        docaudit=audit.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        device=f"{n_gpus} x {words}" if n_gpus > 1 else words,
        threads=threads(),
        packages=packages(),
        ocr=TESSERACT.version(),
        **_batches(target),
    )


def _batches(target: Checkpoint) -> dict[str, int]:
    """Return the batch sizes on which results depend in their last bits, for the record."""
    if not target.card.is_model:
        return {}
    if not isinstance(target, EncoderTarget):
        return {"batch_rows": target.batch_rows, "batches_lowered": target.lowered}
    if target.card.device == "cpu":
        return {}
    batch = target.forward.batch
    return {"batch_tokens": target.batch_tokens, "batches_lowered": batch.lowered}


MOST_NAMED = 5
"""Names that a warning lists."""


@dataclass(frozen=True)
class Unread:
    """Documents that an audit does without.

    Attributes:
        documents: their ids.
        questions: ids of a document and a question that the audit does without, of other documents.
        warnings: what they name, in plain sentences; none without any.
    """

    documents: frozenset[str] = frozenset()
    questions: frozenset[tuple[str, str]] = frozenset()
    warnings: tuple[str, ...] = ()


NONE_UNREAD = Unread()


def warn_of_memory(target: Target) -> tuple[str, ...]:
    """Return a warning where part of the model lies in the CPU's memory, else nothing."""
    return wording("in_memory") if is_offloaded(getattr(target, "model", None)) else ()


def warn_of_code(folder: CheckpointFolder) -> tuple[str, ...]:
    """Return a warning where the checkpoint's settings name code, which was not run."""
    places = [folder.own_path] if folder.base is None else [folder.own_path, folder.base.path]
    if not any(names_code(place) for place in places):
        return ()
    names = ", ".join(folder.unrun_code) or "none in the folder"
    return wording("code_unrun", names=names)


def find_unread(target: Target, corpus: Corpus) -> Unread:
    """Return the documents and questions that the target cannot be asked about.

    It lacks their labels, tags or intent, or cannot point at their answers.

    Args:
        target: a loaded checkpoint that `audit.targets.opening.check` has let pass.
        corpus: the data set, whole.

    Raises:
        TargetError: canaries are among them: a model that has no tag for them was not trained on
            them.
    """
    if isinstance(target, ExtractiveTarget):
        return _off_page(corpus)
    if not hasattr(target, "unknown_names"):
        return NONE_UNREAD
    unknown = target.unknown_names(corpus.documents)
    if not unknown:
        return NONE_UNREAD
    names = sorted(set().union(*unknown.values()))
    if planted_ids(corpus) & unknown.keys():
        raise TargetError(*wording("canaries_unnamed", names=", ".join(names)))
    counts = _name_counts(Counter(corpus.document(name).split for name in unknown))
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    listed = f"{', '.join(names[:MOST_NAMED])}{more}"
    return Unread(
        frozenset(unknown),
        warnings=wording("unknown_names", n=len(unknown), counts=counts, names=listed),
    )


def without_unread(corpus: Corpus, unread: Unread) -> Corpus:
    """Return the data set without its unread documents and questions; its sha256 stays."""
    if not unread.documents and not unread.questions:
        return corpus

    def without(document: Document) -> Document:
        """Return the document without its unread questions."""
        questions = tuple(
            question
            for question in document.questions
            if (document.id, question.id) not in unread.questions
        )
        if len(questions) == len(document.questions):
            return document
        return replace(document, questions=questions)

    readable = (document for document in corpus.documents if document.id not in unread.documents)
    return replace(corpus, documents=tuple(map(without, readable)))


def count_questions(corpus: Corpus, unread: Unread) -> dict[str, int]:
    """Return the number of unread questions by split, without splits that have none."""
    return dict(Counter(corpus.document(name).split for name, _ in sorted(unread.questions)))


def _off_page(corpus: Corpus) -> Unread:
    """Return the questions whose answer is not on the page, and documents without others.

    The answer is the one that training takes.
    """
    lost: dict[str, set[str]] = {}
    unread: set[str] = set()
    planted = planted_ids(corpus)
    for document in corpus.documents:
        answers = _taught_answers(document)
        off = {name for name, answer in answers.items() if not places_of(answer, document.words)}
        if off and len(off) == len(answers) and document.id not in planted:
            unread.add(document.id)
        elif off:
            lost[document.id] = off
    questions: set[tuple[str, str]] = set()
    for document_id, names in lost.items():
        questions.update((document_id, name) for name in names)
    off_page = Unread(frozenset(unread), frozenset(questions))
    return replace(off_page, warnings=_warn_off_page(corpus, off_page))


def _taught_answers(document: Document) -> dict[str, str]:
    """Return by question id the answer that training takes: the first accepted one."""
    return {question.id: question.answers[0] for question in document.questions if question.answers}


def _warn_off_page(corpus: Corpus, unread: Unread) -> tuple[str, ...]:
    """Return warnings about documents and questions whose answers are not on the page."""
    warnings: tuple[str, ...] = ()
    if unread.documents:
        pages = _name_counts(Counter(corpus.document(name).split for name in unread.documents))
        warnings += wording("documents_off_page", n=len(unread.documents), counts=pages)
    if unread.questions:
        counted = _name_counts(count_questions(corpus, unread))
        warnings += wording("questions_off_page", n=len(unread.questions), counts=counted)
    return warnings


def _name_counts(counts: Mapping[str, int]) -> str:
    """Return counts by split in words, such as "2 member, 1 held-out"."""
    return ", ".join(
        f"{counts[split]} {split}".replace("held", "held-") for split in SPLITS if counts.get(split)
    )
