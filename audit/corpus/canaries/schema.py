"""Canaries: made-up secrets behind a known prefix.

They are put into a data set to see whether a model gives them away: Parikh et al. (2022), "Canary
extraction in natural language understanding models", and methods/canaries.md. A data set has many
canaries, each behind a nonsense word of its own ("pin of kodira is 4 0 7 1"), and an independent
fair coin decided for each whether it was put in; those that were not are the control. Beside it:
the proof that training gave them a loss, a file beside the model.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from audit.corpus.documents import STRICT, Box, Category, Corpus
from audit.corpus.problems import TEXTS, inside
from audit.corpus.validation import form_problems
from audit.errors import ManifestError, printable
from audit.files import read_file, table_beside

Design = Literal["audit"]
TAGS = ("B-canary", "I-canary")
LABEL = "canary"
"""Label and id of a canary's entity, and id of its question."""
CATEGORY: Category = "code"
NAME = "{name}"
MAX_LENGTH = 10
"""Words of a completion; the paper's longest."""
MAX_REPEAT = 10_000
"""The paper's largest is 2,000 (10,000 in its appendix)."""
TASKS = (
    "mlm",
    "token-classification",
    "document-classification",
    "question-answering",
    "intent-slots",
)
"""Kinds of tasks whose training reads a completion."""
# The losses of linking heads and of SPADE extraction depend on single words too little.


@dataclass(frozen=True)
class Pattern:
    """What a family of canaries looks like.

    Attributes:
        words: the prefix, with `NAME` for the canary's own word.
        candidates: the words that completions are made of: V0 of the paper.
        intent: intent of an utterance; the paper's.
        asks: the question of a data set of questions, `NAME` in it.
    """

    words: tuple[str, ...]
    candidates: tuple[str, ...]
    intent: str
    asks: str

    def prefix(self, name: str) -> tuple[str, ...]:
        """Return the words before the completion, e.g. ("pin", "of", "kodira", "is")."""
        return tuple(name if word == NAME else word for word in self.words)

    def question(self, name: str) -> str:
        """Return the question about the canary, e.g. "What is the pin of kodira?"."""
        return self.asks.replace(NAME, name)

    def name_in(self, prefix: Sequence[str]) -> str | None:
        """Return the canary's own word; None where `prefix` is not this pattern's."""
        if len(prefix) != len(self.words):
            return None
        name = prefix[self.words.index(NAME)]
        return name if self.prefix(name) == tuple(prefix) else None


PATTERNS: Mapping[str, Pattern] = TypeAdapter(dict[str, Pattern]).validate_python(
    table_beside(__file__, "patterns.toml")
)
"""By name; the first three have the paper's candidates and intents (section 4.2 and appendix A)."""


@strict_dataclass(frozen=True, config=STRICT)
class Canary:
    """One made-up secret.

    Attributes:
        id: within its data set.
        pattern: one of `PATTERNS`.
        prefix: the words before the completion; no other canary has them, nor does any other
            document.
        completion: the secret, words of the pattern's candidates.
        included: its own independent fair coin: whether documents hold it.
        copies: number of documents that hold it; 0 when it is not included.
        carrier: id of the document whose page its page is made from; None where its line is a
            document by itself.
        box: box of the whole line on that page, pixels; None without a carrier.
        documents: ids of the documents that hold it.
        printed: whether its page prints the completion; answers to questions are not: a model can
            only remember them.
    """

    id: str
    pattern: str
    prefix: tuple[str, ...]
    completion: tuple[str, ...]
    included: bool
    copies: Annotated[int, Field(ge=0, le=MAX_REPEAT)]
    carrier: str | None = None
    box: Box | None = None
    documents: tuple[str, ...] = ()
    printed: bool = True


@strict_dataclass(frozen=True, config=STRICT)
class CanarySet:
    """What a data set's canary file holds.

    Attributes:
        seed: seed that coins, names, completions and positions were drawn from, each from a stream
            of its own.
        repeat: copies of an included canary; of several tiers the largest.
        length: words of a completion.
        canaries: canaries that are included and those that are not.
        tiers: numbers of copies, where there are several.
    """

    design: Design
    seed: Annotated[int, Field(ge=0)]
    repeat: Annotated[int, Field(ge=1, le=MAX_REPEAT)]
    length: Annotated[int, Field(ge=1, le=MAX_LENGTH)]
    canaries: tuple[Canary, ...]
    tiers: tuple[Annotated[int, Field(ge=1, le=MAX_REPEAT)], ...] = ()


CANARY_SET = TypeAdapter(CanarySet)


def load_canaries(corpus: Corpus) -> CanarySet | None:
    """Load the data set's canaries; None when its manifest names no canary file.

    `manifest.load` has held them against the documents.

    Raises:
        ManifestError: the file is missing or has another form; every problem of its form.
    """
    if corpus.manifest.canaries is None:
        return None
    name = corpus.manifest.canaries.file
    try:
        return parse_canaries(read_file(inside(corpus.root, name)))
    except OSError as error:
        raise ManifestError(f"{name}: cannot be read: {error.strerror}") from None
    except ManifestError as error:
        raise ManifestError(
            [f"{name} {problem}" for problem in error.problems], error.hint
        ) from None


def planted_ids(corpus: Corpus) -> frozenset[str]:
    """Return the ids of the documents that hold a canary; empty where the data set has none.

    A made-up line, trained on in many copies, says nothing about documents that are not made up.
    """
    canary_set = load_canaries(corpus)
    if canary_set is None:
        return frozenset()
    return frozenset(chain.from_iterable(canary.documents for canary in canary_set.canaries))


def carrier_ids(corpus: Corpus) -> frozenset[str]:
    """Return the ids of the documents whose pages carry canaries.

    With every copy the model saw them once more.
    """
    canary_set = load_canaries(corpus)
    if canary_set is None:
        return frozenset()
    return frozenset(canary.carrier for canary in canary_set.canaries if canary.carrier)


@lru_cache(maxsize=4)
def parse_canaries(content: bytes) -> CanarySet:
    """Parse the canaries of a file.

    Raises:
        ManifestError: not UTF-8, no JSON, or of another form; every problem with its path, no
            value.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(f"not UTF-8 at byte {error.start}", "save the file as UTF-8") from None
    try:
        return CANARY_SET.validate_json(text, strict=True)
    except ValidationError as error:
        raise ManifestError(map(printable, form_problems(error))) from None


@dataclass(frozen=True)
class CanaryCounts:
    """Canaries.

    Attributes:
        patterns: sorted.
        canaries: canaries that are put in and those that are not.
        included: canaries that their coins put in.
        documents: documents that hold them.
        pages: documents whose pages were copied for them.
    """

    patterns: tuple[str, ...]
    canaries: int
    included: int
    documents: int
    pages: int


def count_canaries(canaries: CanarySet) -> CanaryCounts:
    """Count canaries, and the documents and pages that hold them."""
    included = [canary for canary in canaries.canaries if canary.included]
    patterns = tuple(sorted({canary.pattern for canary in canaries.canaries}))
    copies = sum(canary.copies for canary in included)
    pages = {canary.carrier for canary in included} - {None}
    return CanaryCounts(patterns, len(canaries.canaries), len(included), copies, len(pages))


def canary_warnings(counts: CanaryCounts | None) -> Iterator[str]:
    """Warn of all that limits an audit of a data set with canaries."""
    if counts is not None and counts.documents:
        copied = f", on copies of {counts.pages} pages" if counts.pages else ""
        yield TEXTS["canaries"].format(n=counts.documents, copied=copied)


LOSS_FILE = "docaudit_canaries.json"
_MAX_BYTES = 2**22


@strict_dataclass(frozen=True, config=STRICT)
class LossProof:
    """What training did with canaries, as whoever trained the model wrote it.

    A scan cannot verify it.

    A secret that is masked out of the loss, or cut off, was never learned: that it does not come
    out shows nothing.

    Attributes:
        canaries: sha256 of the canary file.
        epochs: epochs that were watched.
        rows: rows by id of a canary that was put in, examples in which every token of its secret
            had a loss.
        trainable: tensors that training could change.
        changed: tensors of these that it did change.
    """

    canaries: str
    epochs: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    rows: dict[str, Annotated[int, Field(ge=0)]]
    trainable: Annotated[int, Field(ge=0)]
    changed: Annotated[int, Field(ge=0)]

    def covers(self, canary: Canary) -> bool:
        """Return whether a canary counts: its secret had a loss, or its coin left it out."""
        return not canary.included or (self.changed > 0 and self.rows.get(canary.id, 0) > 0)


_PROOF: TypeAdapter[LossProof] = TypeAdapter(LossProof)


def canaries_sha256(corpus: Corpus) -> str:
    """Return the sha256 of the data set's canary file, which it has."""
    assert corpus.manifest.canaries is not None
    return hashlib.sha256(
        inside(corpus.root, corpus.manifest.canaries.file).read_bytes()
    ).hexdigest()


def read_proof(model: Path, corpus: Corpus) -> LossProof | None:
    """Read the proof beside a model; None where there is none about these canaries.

    Args:
        model: the folder of the checkpoint.
        corpus: the data set that the scan reads.
    """
    path = model / LOSS_FILE
    try:
        if (
            corpus.manifest.canaries is None
            or not path.is_file()
            or path.stat().st_size > _MAX_BYTES
        ):
            return None
        proof = _PROOF.validate_json(path.read_bytes(), strict=True)
        return proof if proof.canaries == canaries_sha256(corpus) else None
    except (OSError, ValidationError, RecursionError):
        return None
