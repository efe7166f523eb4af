r"""What gradients of single units cost: ways to compute them against a plain batch of the same pages.

A LayoutLM of 6 layers of 384 units with random weights tags 16 pages of 128 tokens, a unit each.
"exact" is what private training does, one backward pass a unit; "vmap" are the per-sample gradients
of torch.func and "hooks" those of Opacus, of a whole batch. All clip and add the gradients; the
plain batch has one backward pass over 8 pages at a time, as ordinary training. All run on one
thread, in turn, several times; the ratio is that of the medians of processor seconds. Two choices
of what is trained: everything but the embeddings, and the query and value projections of attention
(those that low-rank adapters change).

    OMP_NUM_THREADS=1 python -m benchmarks.performance.dp_engines  # writes dp_engines.json
    # does it run?
    OMP_NUM_THREADS=1 python -m benchmarks.performance.dp_engines --pages 4 --rounds 1 \
        --out /tmp/engines.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from opacus.grad_sample import GradSampleHooks
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.func import functional_call, grad, vmap
from transformers import BertTokenizerFast, LayoutLMConfig, LayoutLMForTokenClassification

from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task, Word
from audit.extensions.private.gradients import Tensors, clipped_sum, gradient_of
from audit.extensions.private.learners import open_learner
from audit.extensions.private.units import Batch, DrawnUnit, Learner, Parameters

TOKENS = 128
ROWS = 8
WORDS = 1000
OfBatch = Callable[[Learner, Parameters, Batch], Tensors]
LABELS = ("O", "B-TOTAL", "I-TOTAL")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        learner, units = material(Path(folder), given.pages)
    found = {
        words: measure(learner, own, units, given.rounds)
        for words, own in trained(learner.model).items()
    }
    result = {
        "machine": "2-core CPU",
        "date": datetime.now(UTC).date().isoformat(),
        "torch": torch.__version__,
        "threads": 1,
        "model": "LayoutLM, 6 layers of 384, token classification, random weights",
        "pages": given.pages,
        "tokens of a page": TOKENS,
        "samples of a forward pass": ROWS,
        "trained": found,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def material(folder: Path, n_pages: int) -> tuple[Learner, list[DrawnUnit]]:
    """The learner, and a unit of each page."""
    words = tuple(f"w{number}" for number in range(WORDS))
    inner = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate((*SPECIAL, *words))}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    BertTokenizerFast(tokenizer_object=inner, model_max_length=TOKENS).save_pretrained(folder)
    config = LayoutLMConfig(
        vocab_size=WORDS + len(SPECIAL),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=TOKENS,
        num_labels=len(LABELS),
    )
    torch.manual_seed(0)
    LayoutLMForTokenClassification(config).save_pretrained(folder)
    rng = np.random.default_rng(0)
    pages = tuple(page(f"d{number}", rng.choice(words, TOKENS - 2)) for number in range(n_pages))
    manifest = Manifest(1, "pages", Task("token-classification", LABELS), Membership("random"))
    learner = open_learner(folder, Corpus(folder, manifest, pages, "0" * 64))
    return learner, [DrawnUnit(learner.samples_of(document, rng), (1.0,)) for document in pages]


def page(name: str, texts: Any) -> Document:
    """A page of these words, the last two of which are its total."""
    words = tuple(
        Word(
            str(text),
            (10.0 * (i % 12), 10.0 * (i // 12), 10.0 * (i % 12) + 9, 10.0 * (i // 12) + 9),
        )
        for i, text in enumerate(texts)
    )
    return Document(
        name,
        "member",
        words,
        size=(200, 200),
        entities=(Entity("e", "TOTAL", "amount", (len(words) - 2, len(words) - 1)),),
    )


def trained(model: Any) -> dict[str, Parameters]:
    """What is trained, by the words of the result."""
    own = {name: weights for name, weights in model.named_parameters() if "embeddings" not in name}
    projections = {
        name: own[name] for name in own if name.endswith(("self.query.weight", "self.value.weight"))
    }
    return {"all but embeddings": own, "query and value projections": projections}


def measure(
    learner: Learner, parameters: Parameters, units: list[DrawnUnit], rounds: int
) -> dict[str, Any]:
    """Processor seconds of each way, as medians, and their ratios to the plain batch."""
    for name, weights in learner.model.named_parameters():
        weights.requires_grad_(name in parameters)
    ways: dict[str, Callable[[], Any]] = {
        "plain batch": lambda: plain(learner, parameters, units),
        "exact": lambda: clipped_sum(
            parameters, iter(units), lambda one: gradient_of(learner, parameters, one, ROWS), 1.0
        ),
        "vmap": lambda: clip_batches(learner, parameters, units, vmapped),
        "hooks": lambda: clip_batches(learner, parameters, units, hooked),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, run in ways.items():
            began = time.process_time()
            run()
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "parameters": sum(weights.numel() for weights in parameters.values()),
        "processor seconds": {name: round(value, 3) for name, value in medians.items()},
        "times a plain batch": {
            name: round(value / medians["plain batch"], 2) for name, value in medians.items()
        },
    }


def clip_batches(
    learner: Learner, parameters: Parameters, units: list[DrawnUnit], of_batch: OfBatch
) -> None:
    """Clip and add gradients of single samples that a batch gives at once."""
    for start in range(0, len(units), ROWS):
        samples = [unit.samples[0] for unit in units[start : start + ROWS]]
        found = of_batch(learner, parameters, learner.collate(samples))
        rows = (
            {name: values[row] for name, values in found.items()} for row in range(len(samples))
        )
        clipped_sum(parameters, rows, lambda row: row, 1.0)  # type: ignore[arg-type, return-value]


def vmapped(learner: Learner, parameters: Parameters, batch: Batch) -> Tensors:
    """Gradients of single samples by torch.func."""

    class Losses(torch.nn.Module):
        model = learner.model

        def forward(self, one: Batch) -> torch.Tensor:
            """Return the losses of one batch."""
            return learner.losses(one)

    losses = Losses()
    losses.model = learner.model
    values = {f"model.{name}": own.detach() for name, own in parameters.items()}

    def loss(values: Tensors, sample: Batch) -> Any:
        """Return the loss of a single sample under these parameters."""
        return functional_call(
            losses, values, ({name: value[None] for name, value in sample.items()},)
        )[0]

    with torch.no_grad():
        found = vmap(grad(loss), in_dims=(None, 0))(values, batch)
    return {name.removeprefix("model."): own for name, own in found.items()}


def hooked(learner: Learner, parameters: Parameters, batch: Batch) -> Tensors:
    """Gradients of single samples by Opacus' hooks."""
    layers = [
        layer
        for layer in learner.model.modules()
        if any(own.requires_grad for own in layer.parameters(False))
    ]
    for layer in layers:
        layer.training = True
    hooks = GradSampleHooks(learner.model, loss_reduction="sum")
    torch.autograd.grad(learner.losses(batch).sum(), [*parameters.values()], allow_unused=True)
    rows = len(next(iter(batch.values())))
    gradients = {}
    for name, weights in parameters.items():
        # Opacus' hooks put it there; it is None where the loss does not depend on the weights.
        of_samples = getattr(weights, "grad_sample")  # noqa: B009
        if of_samples is None:
            gradients[name] = weights.new_zeros((rows, *weights.shape))
        else:
            gradients[name] = of_samples.detach()
    hooks.cleanup()
    for layer in layers:
        layer.training = False
    return gradients


def plain(learner: Learner, parameters: Parameters, units: list[DrawnUnit]) -> None:
    """One gradient of all pages, as ordinary training has it."""
    samples = [sample for unit in units for sample in unit.samples]
    for start in range(0, len(samples), ROWS):
        loss = learner.losses(learner.collate(samples[start : start + ROWS])).mean()
        torch.autograd.grad(loss, [*parameters.values()], allow_unused=True)


if __name__ == "__main__":
    main()
