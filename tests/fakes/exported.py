"""A tagger that learnt its members by heart through an adapter, and exports of it.

Two labels in five are drawn at random: who knows these has seen the document.
"""

import copy
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import tiny
import torch
from adapters import TARGETS

from audit.corpus import manifest as manifests
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Split, Task
from audit.extensions.private.learners import open_learner
from audit.targets.checkpoint.safety import quiet

N = 60
"""Documents on each side, and public ones."""
DRAWN = 0.4
"""Share of the labels that are drawn at random."""
BASE_STEPS = 30
"""Steps of the base's training, each over all public documents."""
RANK = 8


def write_corpus(folder: Path) -> Corpus:
    """Write receipts some of whose values have a label drawn at random, but for public ones."""
    rng = np.random.default_rng(0)
    pages = tiny.documents(N, N, N)
    documents = [page if page.split == "public" else _relabelled(page, rng) for page in pages]
    task = Task("token-classification", tiny.LABELS)
    manifests.write(folder, Manifest(1, "by heart", task, Membership("random")), documents)
    return manifests.load(folder)


def _relabelled(page: Document, rng: np.random.Generator) -> Document:
    """Return a page some of whose values have another label."""
    entities = []
    for entity in page.entities:
        label = entity.label
        if rng.random() < DRAWN:
            label = str(rng.choice(tiny.CLASSES[1:]))
        entities.append(replace(entity, label=label))
    return replace(page, entities=tuple(entities))


def train_base(folder: Path, corpus: Corpus) -> Path:
    """Train a tagger on the public documents alone."""
    learner = open_learner(tiny.checkpoint(folder, "bert", "token-classification"), corpus)
    steps = _steps(learner, corpus, "public", learner.model.parameters(), 3e-3)
    for _ in islice(steps, BASE_STEPS):
        pass
    learner.save(folder)
    return folder


def train_adapters(base: Path, corpus: Corpus, folders: Mapping[int, Path]) -> dict[int, Any]:
    """Train a LoRA over a base on the members, and save it after some of its steps.

    Args:
        base: folder of the base.
        corpus: data set with the members.
        folders: folder of the adapter by the step after which it is saved.

    Returns:
        The model with the adapter merged into it, by step.
    """
    import peft

    learner = open_learner(base, corpus)
    config = peft.LoraConfig(
        r=RANK, lora_alpha=2 * RANK, target_modules=[*TARGETS, "dense"], task_type="TOKEN_CLS"
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        wrapped = peft.get_peft_model(learner.model, config)
    merged = {}
    for step in _steps(learner, corpus, "member", wrapped.parameters(), 1e-2):
        if step in folders:
            with quiet():
                wrapped.save_pretrained(folders[step])
            merged[step] = copy.deepcopy(wrapped).merge_and_unload()
        if len(merged) == len(folders):
            break
    return merged


def save_export(model: Any, base: Path, folder: Path) -> Path:
    """Save an export with the tokenizer of its base."""
    with quiet():
        model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(base / name, folder / name)
    return folder


def pruned(model: Any, share: float) -> Any:
    """Return a copy of a model in which the smallest weights of each layer are 0."""
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for weights in copied.parameters():
            if weights.dim() > 1:
                smallest = weights.abs().flatten().kthvalue(int(share * weights.numel())).values
                weights[weights.abs() <= smallest] = 0.0
    return copied


def _steps(
    learner: Any,
    corpus: Corpus,
    split: Split,
    parameters: Iterable[torch.nn.Parameter],
    rate: float,
) -> Iterator[int]:
    """Train on all documents of a split at once, and yield the number of steps after each."""
    rng = np.random.default_rng(0)
    samples = []
    for document in corpus.of(split):
        samples += learner.samples_of(document, rng)
    batch = learner.collate(samples)
    trained = [weights for weights in parameters if weights.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate)
    for step in count(1):
        optimizer.zero_grad()
        learner.losses(batch).mean().backward()
        optimizer.step()
        yield step
