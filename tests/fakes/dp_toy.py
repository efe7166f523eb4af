"""A toy that learns privately: two numbers of a document are a point on a line.

Everything about it can be computed.
"""

import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from audit.arrays import Floats
from audit.corpus.documents import Corpus, Document, Manifest, Membership, Task, Word
from audit.extensions.private.units import Batch, Learner, Parameters, Unit


def document(
    name: str, x: float, y: float, provider: str | None = None, split: Any = "member"
) -> Document:
    """Return a document whose two words are the point (x, y)."""
    return Document(name, split, (Word(str(x)), Word(str(y))), provider=provider)


def corpus(documents: Sequence[Document], root: Path = Path("/nowhere")) -> Corpus:
    """Return a corpus of these documents, which is on no disk."""
    manifest = Manifest(1, "toy", Task("token-classification", ("O",)), Membership("random"))
    return Corpus(root, manifest, tuple(documents), "0" * 64)


def units(n: int, seed: int = 0) -> tuple[Unit, ...]:
    """Units of one document each, on whole numbers: sums of a few of their gradients are exact."""
    points = np.random.default_rng(seed).integers(-3, 4, (n, 2))
    return tuple(
        Unit(f"u{i}", (document(f"u{i}", float(x), float(y)),)) for i, (x, y) in enumerate(points)
    )


class Line(torch.nn.Module):
    """y = slope x + height, a buffer that must not change, and an embedding that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)
        self.embedding = torch.nn.Embedding(3, 2)
        self.register_buffer("fixed", torch.ones(2))
        with torch.no_grad():
            self.line.weight.fill_(0.5)
            self.line.bias.zero_()
            self.embedding.weight.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        predicted: torch.Tensor = self.line(x[:, None])[:, 0]
        return predicted


class ToyLearner(Learner):
    """Squared errors; `drawn` notes the names of documents whose samples were asked for."""

    def __init__(self) -> None:
        self.model = Line()
        self.device = "cpu"
        self.drawn: list[str] = []

    def samples_of(self, document: Document, rng: np.random.Generator) -> tuple[Any, ...]:
        """Return a document's point, and note that the document was drawn."""
        self.drawn.append(document.id)
        return (tuple(float(word.text) for word in document.words),) if document.words else ()

    def alike(self, sample: Any) -> Hashable:
        return None

    def collate(self, samples: Sequence[Any]) -> Batch:
        points = torch.tensor(samples, dtype=torch.float32)
        return {"x": points[:, 0], "y": points[:, 1]}

    def losses(self, batch: Batch) -> torch.Tensor:
        """Return half the squared error of each point."""
        return (self.model(batch["x"]) - batch["y"]).square() / 2

    def save(self, folder: Path, *, half: bool = False) -> None:
        from safetensors.torch import save_file

        save_file(
            {name: value.detach().clone() for name, value in self.model.state_dict().items()},
            folder / "model.safetensors",
        )
        (folder / "config.json").write_text(json.dumps({"model_type": "toy"}))


class NoLedger:
    """Spent steps in memory."""

    def __init__(self) -> None:
        self.spent = 0

    def restore(self, parameters: Parameters, optimizer: Any) -> int:
        return self.spent

    def spend(self) -> int:
        self.spent += 1
        return self.spent - 1

    def keep(self, parameters: Parameters, optimizer: Any, *, last: bool) -> None:
        pass


def open_toy(start: Path, corpus: Corpus, *, seed: int, device: str) -> ToyLearner:
    """Return a toy learner, whatever it should start from."""
    return ToyLearner()


def values(parameters: Parameters) -> Floats:
    """All parameters in one row."""
    return np.concatenate(
        [value.detach().double().numpy().ravel() for value in parameters.values()]
    )
