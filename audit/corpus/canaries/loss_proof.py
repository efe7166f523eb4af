"""Proof that training gave planted secrets a loss: a file beside the model, written while it was trained.

A secret that is masked out of the loss, or cut off, was never learned: that it does not come out shows nothing. The
file comes from whoever trained the model; a scan holds it against the canaries and cannot verify it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.canaries.schema import Canary
from audit.corpus.documents import STRICT, Corpus
from audit.corpus.paths import inside
from audit.files import write_atomically

LOSS_FILE = "docaudit_canaries.json"
_MAX_BYTES = 2**22
Count = Annotated[int, Field(ge=0)]


@strict_dataclass(frozen=True, config=STRICT)
class LossProof:
    """Describe what training did with canaries.

    Attributes:
        canaries: sha256 of the canary file.
        epochs: that were watched.
        rows: by id of a canary that was put in, examples in which every token of its secret had a loss.
        trainable: tensors that training could change.
        changed: of these, tensors that it did change.
    """

    canaries: str
    epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    rows: dict[str, Count]
    trainable: Count
    changed: Count

    def covers(self, canary: Canary) -> bool:
        """Return whether a canary counts: its secret had a loss, or its coin left it out."""
        return not canary.included or (self.changed > 0 and self.rows.get(canary.id, 0) > 0)


_PROOF: TypeAdapter[LossProof] = TypeAdapter(LossProof)


def canaries_sha256(corpus: Corpus) -> str:
    """The sha256 of the data set's canary file, which it has."""
    assert corpus.manifest.canaries is not None
    return hashlib.sha256(inside(corpus.root, str(corpus.manifest.canaries["file"])).read_bytes()).hexdigest()


def write_proof(folder: Path, proof: LossProof) -> None:
    """Write the proof beside a model.

    Raises:
        EngineError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / LOSS_FILE, _PROOF.dump_json(proof, indent=1) + b"\n")


def read_proof(model: Path, corpus: Corpus) -> LossProof | None:
    """Read the proof beside a model; None where there is none about these canaries.

    Args:
        model: the folder of the checkpoint.
        corpus: the data set that the scan reads.
    """
    path = model / LOSS_FILE
    try:
        if corpus.manifest.canaries is None or not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return None
        proof = _PROOF.validate_json(path.read_bytes(), strict=True)
        return proof if proof.canaries == canaries_sha256(corpus) else None
    except (OSError, ValidationError, RecursionError):
        return None
