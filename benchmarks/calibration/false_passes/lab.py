"""What makes models and data sets for the constructions, and the list of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from audit.corpus.documents import Document
from benchmarks.calibration.false_passes import direct, policies
from benchmarks.calibration.false_passes.letters import Letters
from benchmarks.calibration.false_passes.receipts import Receipts
from benchmarks.calibration.false_passes.scans import Audit, Docaudit, Numbers, Policy
from benchmarks.calibration.false_passes.store import Store, digest, key_of
from benchmarks.calibration.false_passes.utterances import Utterances

Kind = Literal["leaks", "clean", "unfair"]
"""What the model does: it leaks; it never saw the members; the same, and the audit has no fair
reference."""


class Lab:
    """Makes models and data sets as they are needed, and keeps them.

    Args:
        source: Snips as it is distributed.
        store: keeps them.
        docaudit: whose default policy owners change.
    """

    def __init__(self, source: Path, store: Store, docaudit: Docaudit) -> None:
        """Take what makes utterances, receipts, letters, and scans; results go to `store`."""
        self.store = store
        self.docaudit = docaudit
        self.utterances = Utterances(source, store)
        self.receipts = Receipts(store)
        self.letters = Letters(store)

    @cached_property
    def nlu_team(self) -> Policy:
        """The default policy without its demands."""
        return Policy("nlu-team", policies.of_utterances(self.docaudit.policy_text("default")))

    def recognition_team(self, undecided: str = "fail") -> Policy:
        """Return the default policy with its limits on membership alone."""
        return Policy(
            "recognition-team",
            policies.of_recognition(self.docaudit.policy_text("default"), undecided),
        )

    def utterances_told_apart(
        self, model: Path, trained: Sequence[Document], unseen: Sequence[Document]
    ) -> float:
        """Return the area of the loss of utterances of training against unseen ones."""

        def measure() -> Numbers:
            """Return the area of trained against unseen utterances by the model's own scores."""
            scores = [direct.utterance_scores(model, side) for side in (trained, unseen)]
            return {"area": direct.area(scores[0], scores[1])}

        return self.store.numbers(key_of(model.name, digest(trained), digest(unseen)), measure)[
            "area"
        ]

    def letters_told_apart(
        self, model: Path, trained: Sequence[Document], unseen: Sequence[Document]
    ) -> float:
        """Return the area of the loss of letters of training against unseen ones."""

        def measure() -> Numbers:
            """Return the area of trained against unseen letters by the tagger's own scores."""
            scores = [
                direct.tagger_scores(model, side, self.letters.labels) for side in (trained, unseen)
            ]
            return {"area": direct.area(scores[0], scores[1])}

        return self.store.numbers(key_of(model.name, digest(trained), digest(unseen)), measure)[
            "area"
        ]

    def receipts_told_apart(
        self, model: Path, trained: Sequence[Document], unseen: Sequence[Document]
    ) -> float:
        """Return the area of the likelihood of hidden tokens of receipts of training against unseen ones."""

        def measure() -> Numbers:
            """Return the area of trained against unseen receipts by the model's own scores."""
            scores = [direct.masked_scores(model, side) for side in (trained, unseen)]
            return {"area": direct.area(scores[0], scores[1])}

        return self.store.numbers(key_of(str(model), digest(trained), digest(unseen)), measure)[
            "area"
        ]

    def names_restored(self, model: Path, receipts: Sequence[Document]) -> float:
        """Return the share of receipts whose customer's name a model writes once it is hidden."""

        def measure() -> Numbers:
            """Return the share of receipts whose customer's name the model restores."""
            restored = direct.restored_names(model, receipts, "CUSTOMER")
            return {"share": sum(restored) / len(restored)}

        return self.store.numbers(key_of("names", str(model), digest(receipts)), measure)["share"]


@dataclass(frozen=True)
class Construction:
    """A construction.

    Attributes:
        name: unique, for the command line and the table.
        finding: its number in the review, or "" of a clean model.
        kind: see `Kind`.
        describe: in a few words, for the table.
        make: builds it.
        size: documents a side of a clean model's audit; 0 of other constructions.
    """

    name: str
    finding: str
    kind: Kind
    describe: str
    make: Callable[[Lab], Audit]
    size: int = 0


CONSTRUCTIONS: dict[str, Construction] = {}


def construction(
    name: str, finding: str, kind: Kind, describe: str, size: int = 0
) -> Callable[[Callable[[Lab], Audit]], Callable[[Lab], Audit]]:
    """Enter a function that builds an audit among the constructions."""

    def enter(make: Callable[[Lab], Audit]) -> Callable[[Lab], Audit]:
        """Register the function as the construction's maker, and return it."""
        assert name not in CONSTRUCTIONS, name
        CONSTRUCTIONS[name] = Construction(name, finding, kind, describe, make, size)
        return make

    return enter
