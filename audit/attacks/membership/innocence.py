"""Whether references know the audited documents: what the own loss of each separates.

A reference says what a model makes of documents that it never saw. One that knows the members hides
what the target knows of them; one that knows the held-out documents makes a clean target look as if
it leaked; one that knows both excuses a target that was trained on both. Its own loss tells, as it
is compared between every two splits.

Method: methods/checks.md#innocent-references.
"""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from audit.arrays import Floats
from audit.attacks import blind_baseline
from audit.attacks.blind_baseline import RANDOM, Blind
from audit.attacks.interface import loss_kind
from audit.attacks.membership.documents import query_document, references_by_role
from audit.attacks.membership.losses import MASKS
from audit.attacks.membership.scores import LIMITED, RATIO
from audit.attacks.text import SENTENCES, SHARED
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Membership, Split
from audit.corpus.summary import MIN_PUBLIC
from audit.engine.driver import drive
from audit.engine.interface import Attempt, Progress, Trial
from audit.measurements import Check
from audit.stats.intervals import FINE_ALPHAS, Interval
from audit.stats.roc import auc_interval
from audit.targets.interface import Target

FEWEST = MIN_PUBLIC
"""Documents of a split without which it is not compared."""
LEVEL = 0.05
"""Level at which a test can matter, whatever the other checks of the scan: then its conditions
count."""
MEMBERSHIP = "membership"
SPLITS = "splits"
ROLES = ("baselines", "pretrained", "auxiliary", SPLITS)
TARGET = "target"
"""Beside the roles of references: the audited model, which is asked about unseen and public
documents alone."""
GUILTY: tuple[tuple[Split, Split], ...] = (
    ("member", "heldout"),
    ("heldout", "member"),
    ("heldout", "public"),
    ("member", "public"),
)
"""The split that a guilty reference fits better, and the other one.

A reference may fit public documents better than audited ones: `docaudit references --train` trains
on them.
"""
_NAMES: Mapping[str, str] = SHARED["references"]
_DOCUMENTS: Mapping[str, str] = SHARED["documents"]


@dataclass(frozen=True)
class ComparedDocuments:
    """Hold the documents that losses are compared on.

    Attributes:
        corpus: the data set.
        all: at most some hundreds of each split.
        alike: whether held-out and public documents are of the same companies, as far as these are
            stated.
        members_alike: whether members and public documents are.
    """

    corpus: Corpus
    all: tuple[Document, ...]
    alike: bool = True
    members_alike: bool = True

    def of(self, split: Split) -> list[Document]:
        """List the documents of a split."""
        return [document for document in self.all if document.split == split]

    @cached_property
    def audited(self) -> Blind:
        """Check without the model whether members and held-out documents differ."""
        return blind_baseline.by_split(self.corpus, [*self.of("member"), *self.of("heldout")])

    @cached_property
    def public_differs(self) -> bool:
        """Tell whether public documents differ from held-out ones without regard to the model.

        In companies, or as the blind check finds.
        """
        if not self.alike:
            return True
        documents = [*self.of("heldout"), *self.of("public")]
        # The public documents were not drawn within providers, whatever the held-out ones were.
        drawn = replace(
            self.corpus, manifest=replace(self.corpus.manifest, membership=Membership("random"))
        )
        heldout = [document.split == "heldout" for document in documents]
        return blind_baseline.by_document(drawn, documents, heldout).told_apart

    def differs(self, better: Split, worse: Split) -> bool:
        """Test whether two splits differ for another reason than training."""
        if "public" not in (better, worse):
            return self.audited.told_apart
        return self.public_differs or ("member" in (better, worse) and not self.members_alike)


RoleLosses = Mapping[str, Sequence[float]]
"""By document, the loss of each model of a role, nats; NaN where there is none."""


@dataclass(frozen=True)
class _OwnLossWork:
    """Ask target and references for their own loss of a document.

    Implements `Work`, a trial for each document.
    """

    case: Case
    models: Mapping[str, Sequence[Target]]
    documents: Mapping[str, Document]

    def attempt(self, trial: Trial) -> Attempt:
        """Return each model's loss of a document by role, nats; NaN for a missing loss."""
        document = self.documents[trial.id]
        losses: dict[str, list[float]] = {}
        for role, models in self.models.items():
            if role == TARGET and document.split == "member":
                continue
            losses[role] = []
            for model in models:
                losses[role].append((yield from own_loss(self.case, model, document)))
        unaware = pick_unaware(self.case, document)
        if unaware is not None:
            losses[SPLITS] = [(yield from own_loss(self.case, unaware, document))]
        return losses


def own_loss(case: Case, model: Target, document: Document) -> Attempt:
    """Ask a model for its loss of a document, nats; NaN where it gives none.

    NaN for none; used with `yield from`.
    """
    answer = yield from query_document(replace(case, target=model), model, document, MASKS)
    return np.nan if answer is None else answer["loss"]


def pick_unaware(case: Case, document: Document) -> Target | None:
    """Pick a split model that was not trained on a document, by the document's id alone.

    None without one.

    Every split model knows half of the members, and none of the other documents. So each document
    is asked of a model that does not know it, as if chosen by lot.
    """
    models = [split.target for split in case.references.splits if document.id not in split.members]
    models = [model for model in models if loss_kind(model) is not None]
    if not models:
        return None
    digest = hashlib.sha256(f"split model of {document.id}".encode()).digest()
    return models[int.from_bytes(digest[:8], "big") % len(models)]


def models_by_role(case: Case) -> dict[str, tuple[Target, ...]]:
    """Return the references that give a loss of a document, by role.

    Split models are left to `pick_unaware`.
    """
    models: dict[str, tuple[Target, ...]] = {}
    for role, candidates in references_by_role(case).items():
        usable = tuple(model for model in candidates if loss_kind(model) is not None)
        if usable:
            models[role] = usable
    return models


def ask_own_losses(
    case: Case, compared: ComparedDocuments, width: int, progress: Progress
) -> dict[str, dict[str, Sequence[float]]]:
    """Ask target and references for their own loss of every compared document.

    Args:
        case: the audit.
        compared: the documents.
        width: documents that are asked about at a time.
        progress: advanced by every document.

    Returns:
        By role, `TARGET` among them, see `RoleLosses`; without roles that no model has.
    """
    models = {TARGET: (case.target,), **models_by_role(case)}
    documents = {document.id: document for document in compared.all}
    losses: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
    progress.stage("losses of the references", len(documents))
    trials = [Trial(name, name) for name in documents]
    for name, answers in drive(_OwnLossWork(case, models, documents), trials, width):
        for role, values in answers.items():
            losses[role][name] = values
        progress.advance()
    return dict(losses)


class Sign(NamedTuple):
    """What the own loss of a reference says of one pair of splits.

    Attributes:
        better: the split that it fits better, were it guilty.
        worse: the other one.
        area: how often a document of the first has the lower loss of a pair.
        p_value: one-sided, against an area of 0.5.
    """

    better: Split
    worse: Split
    area: Interval
    p_value: float


def read_signs(compared: ComparedDocuments, losses: RoleLosses) -> Iterator[Sign]:
    """Compare the own loss of each model of a role between every two splits.

    That is in every guilty direction.

    What something beside training separates is no sign: its p-value is 1. The blind check is made
    only where a loss separates two splits.

    Args:
        compared: the documents.
        losses: losses of them, by id, one of each model.
    """
    n_models = max(len(values) for values in losses.values())
    for place in range(n_models):
        scores: dict[Split, Floats] = {}
        for split in ("member", "heldout", "public"):
            column = np.array(
                [
                    -losses[document.id][place]
                    for document in compared.of(split)
                    if document.id in losses
                ],
                np.float64,
            )
            scores[split] = column[np.isfinite(column)]
        for better, worse in GUILTY:
            if min(len(scores[better]), len(scores[worse])) < FEWEST:
                continue
            sign = compare_sides(scores, better, worse)
            if sign.p_value <= LEVEL and compared.differs(better, worse):
                sign = sign._replace(p_value=1.0)
            yield sign


def compare_sides(scores: Mapping[Split, Floats], better: Split, worse: Split) -> Sign:
    """Test whether a model's losses fit the documents of split `better` better than of `worse`.

    `scores` are minus its losses, by split.
    """
    area = auc_interval(scores[better], scores[worse])
    return Sign(better, worse, area, area.p_above(0.5, FINE_ALPHAS))


@dataclass(frozen=True)
class Knowledge:
    """What the references of a role seem to know of the audited documents.

    Attributes:
        p_value: p-value for references that saw neither side; corrected for all pairs of splits and
            all models of the role.
        reason: a sentence on the strongest sign.
        of_audited: whether some sign separates members from held-out documents.
    """

    p_value: float
    reason: str
    of_audited: bool

    @property
    def guilty(self) -> bool:
        """Tell whether this test alone shows that the references know audited documents.

        The verdict counts all checks of the scan.
        """
        return self.p_value <= LEVEL


def examine(role: str, compared: ComparedDocuments, losses: RoleLosses) -> Knowledge | None:
    """Test the references of a role for knowledge of the audited documents.

    None where nothing can be compared.

    Args:
        role: role of the models.
        compared: the documents.
        losses: losses of the models.
    """
    signs = [*read_signs(compared, losses)]
    return judge_signs(role, signs) if signs else None


def judge_signs(role: str, signs: Sequence[Sign]) -> Knowledge:
    """Conclude from at least one sign whether references of a role know audited documents.

    The strongest decides, with Bonferroni's rule over all.
    """
    strongest = min(signs, key=lambda sign: (sign.p_value, -sign.area.value))
    fitted = {strongest.better}
    if strongest.worse == "public":
        fitted |= {
            sign.better for sign in signs if sign.worse == "public" and sign.p_value <= LEVEL
        }
    documents = " and ".join(
        _DOCUMENTS[split] for split in ("heldout", "member") if split in fitted
    )
    reason = SENTENCES["reference_knows"].format(
        model=_NAMES[role],
        documents=documents,
        better=_DOCUMENTS[strongest.better],
        worse=_DOCUMENTS[strongest.worse],
        area=strongest.area,
    )
    of_audited = any(sign.worse != "public" and sign.p_value <= LEVEL for sign in signs)
    return Knowledge(min(1.0, len(signs) * strongest.p_value), reason, of_audited)


def check_references(
    case: Case,
    compared: ComparedDocuments,
    knowledge: Mapping[str, Knowledge],
    users: Mapping[str, Sequence[str]],
) -> Iterator[Check]:
    """Yield a check of the references of each role.

    It bears on the attacks that compare the target with them.

    Args:
        case: the audit.
        compared: the documents.
        knowledge: knowledge by role, see `examine`.
        users: names by role of those attacks; a role without any is not checked.
    """
    for role, knowing in knowledge.items():
        attacks = tuple(users.get(role, ()))
        if not attacks:
            continue
        spares: tuple[str, ...] = ()
        if (
            knowing.guilty
            and MEMBERSHIP in attacks
            and plain_scores_stand(case.corpus, compared.audited, knowing)
        ):
            spares = spared_by(role)
        yield Check(
            f"reference: {role}",
            knowing.p_value,
            "confounded",
            knowing.reason,
            SENTENCES["unknowing"],
            attacks=attacks,
            spares=spares,
        )


def plain_scores_stand(corpus: Corpus, audited: Blind, knowledge: Knowledge) -> bool:
    """Test whether scores that use no reference stand, whatever the references know.

    A guilty reference says nothing against them. But where it separates members from held-out
    documents, these may also differ in themselves; only a lot excludes that. Then a score's own
    test keeps its level, as without any reference.
    """
    if audited.in_doubt:
        return False
    return not knowledge.of_audited or corpus.manifest.membership.assigned in RANDOM["document"]


def spared_by(role: str) -> tuple[str, ...]:
    """Name the measurements of document membership that use no reference of a role."""
    unaware = ("loss", "calibrated", RATIO, "row") if role == SPLITS else ("loss", "lira")
    return tuple(
        f"{MEMBERSHIP}.{metric}.{score}" for metric, score in itertools.product(LIMITED, unaware)
    )
