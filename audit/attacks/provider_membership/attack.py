"""Provider membership as an attack: what is tried, what is asked, and what comes of it.

Asked is about documents that were kept aside. The journal has one object a document: {"id",
"questions": one object each (see `_question_row`), "memory_change"}. What does not exist is None.
"pretrained" stands for the reference, see `reference_of` (methods/provider-membership.md).
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import blind_baseline
from audit.attacks.blind_baseline import RANDOM, Blind
from audit.attacks.interface import Attack, Evidence, Outcomes, Units, ask, ask_all, given
from audit.attacks.membership.documents import N_MASKS, query_page
from audit.attacks.provider_membership import providers
from audit.attacks.provider_membership.measures import (
    NO_NUMBER,
    STRONGEST,
    count_providers,
    entries,
    measure_table,
)
from audit.attacks.provider_membership.methods import SHARE
from audit.attacks.questions import distinct_answers
from audit.attacks.score_figures import LOW
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.images import PageView, page_view
from audit.corpus.removal import Removal, remove
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.measurements import Check
from audit.record import Reason, Result
from audit.stats.blind import MIN_UNITS
from audit.stats.distances import anls, similarity
from audit.stats.intervals import FINE_ALPHAS
from audit.stats.power import MetricKind
from audit.stats.roc import auc_interval
from audit.targets import interface as targets
from audit.targets.encoded_page import NOT_READ
from audit.targets.interface import Target, TokenTarget
from audit.targets.utility import find_on_page

BLUR = 20.0
"""Radius in pixels of the Gaussian blur over what is removed (Tito et al. 2024, appendix D.1.1)."""
NO_QUESTION = ""
"""Stands for no query (section 5.2.2): of what a model is asked only the frame of its prompt is
left."""
NO_REFERENCE = "no model to compare with that knows none of the providers"
GIVE = (
    "give the pretrained model with a head for the task,"
    " or a baseline trained on documents of other providers"
)
"""What would mend it."""
_ALONE = (
    "balanced_accuracy.azk",
    "auc.loss",
    "auc.memory_similarity",
    f"{LOW}.loss",
    f"{LOW}.memory_similarity",
)
UNAIDED = tuple(f"provider_membership.{name}" for name in _ALONE)
"""Measurements that take no reference."""
Scores = dict[str, float | None]
"""What a model showed of one question, by name."""


@dataclass(frozen=True)
class ProviderMembership(Attack):
    """Infer whether documents of a provider trained the model.

    See Tito et al. 2024; methods/provider-membership.md. The adversary holds documents of the
    provider that were kept aside. What the model makes of them, alone, beside a model that knows
    none of the providers (`reference_of`), and with the answers taken off the page, is averaged
    over the provider's questions, of as many documents and questions of providers in as of
    providers out (`providers.match_sides`). The primary method, fixed before the scan, is APK where
    there is such a model, else AZK.

    Attributes:
        n_seeds: number of seeds of the training shares of APK, and of K-means up to
            `methods.CLUSTERED`. What a forest reaches depends on whom it knows: on SROIE, with ten
            of 69 providers known, it spread by 8 points from share to share.
        share: share of the providers, whose membership the adversary of APK knows.
    """

    n_seeds: Annotated[int, Field(ge=1)] = 25
    share: Annotated[float, Field(gt=0, lt=1)] = SHARE

    name: ClassVar[str] = "provider_membership"
    uses: ClassVar[tuple[str, ...]] = ("pretrained", "baselines")

    def applies(self, case: Case) -> list[Reason]:
        """Return why membership of providers cannot be told, or only by a weakened attack."""
        has_model = case.target.card.is_model
        if has_model and providers.style_of(case.target) is None:
            return [Reason("model", "the model neither answers questions nor gives a page’s loss")]
        reasons = []
        lacking = providers.shortage(case.corpus, providers.perhaps_askable(case.corpus))
        if lacking is not None:
            reasons.append(Reason("data", *lacking))
        elif has_model:
            lacking = providers.shortage(case.corpus, providers.askable(case))
            if lacking is not None:
                reasons.append(Reason("missing", *lacking))
        weak = providers.describe_unnamed(case.corpus) or missing_reference(case)
        if weak is not None:
            reasons.append(Reason("weak", weak))
        return reasons

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count the providers that are asked about on either side."""
        every_provider = providers.providers_of(corpus, providers.perhaps_askable(corpus))
        members = [provider.member for provider in every_provider if provider.asked]
        sides = members.count(True), members.count(False)
        kinds: dict[str, MetricKind] = {
            "balanced_accuracy": "balanced accuracy",
            "auc": "auc",
            LOW: "low advantage",
        }
        answering = corpus.manifest.task.asks
        units = []
        for metric, kind in kinds.items():
            methods = STRONGEST[metric]
            if not answering:
                # The memorisation tests are for models that answer alone.
                tests = ("_ensemble", *providers.MEMORY)
                methods = tuple(name for name in methods if not name.endswith(tests))
            units.append(Units(metric, kind, "providers", *sides, methods=len(methods)))
        return tuple(units)

    def trials(self, case: Case) -> list[Trial]:
        """Make a trial for each provider with a kept-aside document to ask about.

        None where a side has too few.
        """
        compared = providers.select_compared(case.corpus, providers.asked_of(case))
        trials = []
        for provider in compared:
            side = providers.IN if provider.member else providers.OUT
            trials.append(Trial(provider.name, provider.name, side))
        return trials

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Ask about each kept-aside document of the provider, one after the other.

        See `ask_about`.
        """
        reference = reference_of(case)
        documents: list[Json] = []
        for document in providers.askable_documents(case, trial.cluster):
            documents += [(yield from ask_about(case, document, reference))]
        return {"documents": documents}

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """Reduce the outcomes to how well providers are told apart.

        The metrics are described in `measures` and `blind_baseline`.
        """
        every_provider = providers.asked_of(case)
        compared = providers.match_sides(trials, outcomes)
        table = providers.table_of(compared)
        lacking = missing_reference(case)
        findings = measure_table(
            table, rng, progress, n_seeds=self.n_seeds, share=self.share, missing_reference=lacking
        )
        blind = _check_documents(case.corpus, every_provider, compared, progress)
        changes = table.features.keys() & {"loss_change", "confidence_change"}
        uncompared = lacking
        if not uncompared and table.user is None and not changes:
            uncompared = NO_NUMBER
        weaknesses = (uncompared, providers.describe_unnamed(case.corpus), compared.starved())
        result = replace(
            findings,
            counts=count_providers(case.corpus, every_provider, compared),
            ablations=tuple(filter(None, weaknesses)),
            checks=(*findings.checks, *check_reference(case.corpus, compared, blind)),
        )
        return blind.beside(
            result, (*STRONGEST["balanced_accuracy"], *STRONGEST["auc"]), STRONGEST[LOW]
        )

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield features, scores and ranks of each provider; see `measures.entries`."""
        table = providers.table_of(providers.match_sides(trials, outcomes))
        for row in entries(table, providers.asked_of(case), n_seeds=self.n_seeds, share=self.share):
            yield {"attack": self.name, **row}


def _check_documents(
    corpus: Corpus,
    every_provider: Sequence[providers.Provider],
    compared: providers.Matched,
    progress: Progress,
) -> Blind:
    """Run the blind check on the documents that are looked at.

    Args:
        corpus: the data set.
        every_provider: all providers, with the documents that can be asked about.
        compared: the providers that are compared, with their outcomes.
        progress: receiver of progress, see `blind_baseline.by_document`.
    """
    looked_at: set[str] = set()
    for outcome in compared.outcomes:
        looked_at.update(document["id"] for document in outcome["documents"])
    documents: list[Document] = []
    owners: list[providers.Provider] = []
    for provider in every_provider:
        chosen = [document for document in provider.asked if document.id in looked_at]
        documents += chosen
        owners += [provider] * len(chosen)
    sides = [provider.member for provider in owners]
    names = [provider.name for provider in owners]
    return blind_baseline.by_document(corpus, documents, sides, progress, names)


def reference_of(case: Case) -> Target | None:
    """Return the model that the target is compared with, which knows of no provider.

    None without one.

    That is the pretrained model. Often it has no head for the task, as what token classifiers are
    fine-tuned from; then it is the first baseline, provided that it learned nothing of the
    providers that are asked about. Baselines are trained on public documents, so no public document
    may be of a provider with kept-aside ones: a reference that knows some providers, of one side
    rather than of the other, would tilt the comparison.
    """
    kind = providers.style_of(case.target)
    references = case.references
    if references.pretrained is not None and providers.style_of(references.pretrained) == kind:
        return references.pretrained
    for baseline in references.baselines:
        if providers.style_of(baseline) == kind:
            return None if providers.knows_public(case.corpus) else baseline
    return None


def check_reference(corpus: Corpus, compared: providers.Matched, blind: Blind) -> tuple[Check, ...]:
    """Test whether the reference knows the providers of one side, on either side of chance.

    Empty without a reference.

    Its own loss of their kept-aside documents separates no providers that it knows nothing of.
    Scores that take no reference stand where a lot drew the providers.

    Args:
        corpus: the data set.
        compared: the providers with their outcomes.
        blind: the blind check of the same documents.
    """
    losses = providers.reference_losses(compared)
    used = np.array([trial.stratum == providers.IN for trial in compared.trials], bool)
    fitted = -losses[used & np.isfinite(losses)]
    strange = -losses[~used & np.isfinite(losses)]
    if min(len(fitted), len(strange)) < MIN_UNITS:
        return ()
    areas = {"in": auc_interval(fitted, strange), "out": auc_interval(strange, fitted)}
    p_values = {side: area.p_above(0.5, FINE_ALPHAS) for side, area in areas.items()}
    side = min(areas, key=lambda side: (p_values[side], -areas[side].value))
    reason = SENTENCES["providers_known"].format(side=side, area=areas[side])
    drawn = corpus.manifest.membership.assigned in RANDOM["provider"]
    return (
        Check(
            "reference knows providers",
            min(1.0, 2 * p_values[side]),
            "confounded",
            reason,
            SENTENCES["unknowing"],
            spares=UNAIDED if drawn and not blind.in_doubt else (),
        ),
    )


def missing_reference(case: Case) -> str | None:
    """Describe that no reference is given, and what to give.

    None where there is one, or may be one.
    """
    counts = given(case)
    if counts["pretrained"]:
        return None
    if not counts["baselines"]:
        return f"{NO_REFERENCE}; {GIVE}"
    if not providers.knows_public(case.corpus):
        return None
    saw = "baselines saw public documents of providers that are asked about"
    return f"{NO_REFERENCE}: {saw}; {GIVE}"


def ask_about(
    case: Case, document: Document, reference: Target | None
) -> Generator[Request, Any, Json]:
    """Ask target and reference about one kept-aside document; used with `yield from`.

    Args:
        case: the target and the data set.
        document: document that can be asked about.
        reference: reference, see `reference_of`.
    """
    if providers.style_of(case.target) == "answers":
        return (yield from _ask_answers(case, document, reference))
    scores = yield from _ask_encoder(case, case.target, document)
    before = None if reference is None else (yield from _ask_encoder(case, reference, document))
    assert scores is not None
    return {"id": document.id, "questions": [_question_row(scores, before)], "memory_change": None}


def _ask_answers(
    case: Case, document: Document, reference: Target | None
) -> Generator[Request, Any, Json]:
    """Ask target and reference the questions of a document, and return their scores."""
    view = page_view(case.corpus, document)
    questions = providers.questions_of(document)
    texts = [question.question for question in questions]
    replies, losses = yield from _ask_model(case.target, view, questions, [*texts, NO_QUESTION])
    before: list[Scores | None] = [None] * len(questions)
    if reference is not None:
        reference_replies, reference_losses = yield from _ask_model(
            reference, view, questions, texts
        )
        before = [
            _collect_scores(loss, reply.confidence)
            for loss, reply in zip(reference_losses, reference_replies, strict=True)
        ]
    memory = yield from _ask_without_answers(case.target, view, questions)
    change = yield from _output_change(case.target, view, replies[-1].text)
    rows = []
    for index, question in enumerate(questions):
        reply = replies[index]
        answers = distinct_answers(question.answers)
        exact = float(fold(reply.text) in {fold(answer) for answer in answers})
        scores = _collect_scores(losses[index], reply.confidence, exact, anls(reply.text, answers))
        rows.append(_question_row(scores, before[index], memory[index]))
    return {"id": document.id, "questions": rows, "memory_change": change}


def _ask_model(
    model: Target, view: PageView, questions: Sequence[Question], texts: Sequence[str]
) -> Generator[Request, Any, tuple[list[targets.Reply], list[float]]]:
    """Ask a model each of `texts`, and for the loss of each question's first answer.

    Losses are in nats a token, NaN where the model gives none.
    """
    replies = yield from ask_all(model, [targets.Answer(view, text) for text in texts])
    if targets.AnswerLoss not in model.answers:
        return replies, [math.nan] * len(questions)
    queries = []
    for question in questions:
        answer = distinct_answers(question.answers)[0]
        queries.append(targets.AnswerLoss(view, question.question, answer))
    losses = yield from ask_all(model, queries)
    return replies, [float(-tokens.mean()) for tokens in losses]


def _ask_without_answers(
    target: Target, view: PageView, questions: Sequence[Question]
) -> Generator[Request, Any, list[float | None]]:
    """Ask each question without its answer on the page.

    Return NLS_mem, the similarity of the replies, in [0, 1].

    None where the answer does not stand on the page, or cannot be taken out of its image.
    """
    queries: list[targets.Answer] = []
    rows: list[int] = []
    for row, question in enumerate(questions):
        removal = remove(view, distinct_answers(question.answers), blur=BLUR)
        if removal.words and _gone_from_image(view, removal):
            queries.append(targets.Answer(removal.view, question.question))
            rows.append(row)
    replies = yield from ask_all(target, queries)
    similarities: list[float | None] = [None] * len(questions)
    for row, reply in zip(rows, replies, strict=True):
        similarities[row] = anls(reply.text, distinct_answers(questions[row].answers))
    return similarities


def _output_change(
    target: Target, view: PageView, output: str
) -> Generator[Request, Any, float | None]:
    """Compute by how much the output to no question changes without itself on the page: [0, 1].

    That is how much the output to no question changes when it is removed from the page. An output
    that does not stand on the page leaves nothing to remove: the model says the same again, and the
    change is 0, as for one that it knows by heart. None where that would mean nothing: the model
    says nothing at all, or nobody knows which words stand on the page, or where in its image.
    """
    if not fold(output) or not view.words:
        return None
    removal = remove(view, [output], blur=BLUR)
    if not removal.words:
        return 0.0
    if not _gone_from_image(view, removal):
        return None
    again = yield from ask(target, targets.Answer(removal.view, NO_QUESTION))
    return 1.0 - similarity(output, again.text)


def _gone_from_image(view: PageView, removal: Removal) -> bool:
    """Test whether every removed word is gone from the image as well, where there is one."""
    return view.open_page is None or len(removal.boxes) == len(removal.words)


def _collect_scores(
    loss: float,
    confidence: float | None = None,
    accuracy: float | None = None,
    similarity: float | None = None,
) -> Scores:
    """Collect the scores of one question, without numbers that are not finite.

    A page of a tagger is one question.

    Args:
        loss: the training loss, nats a token.
        confidence: confidence of its own answer, in [0, 1].
        accuracy: accuracy of its own answer, in [0, 1].
        similarity: similarity of its own answer to the true one, in [0, 1].

    Returns:
        By name, None where there is no such number, or it is infinite or NaN, which JSON does not
        know.
    """
    return {
        "loss": _finite_or_none(loss),
        "confidence": _finite_or_none(confidence),
        "accuracy": _finite_or_none(accuracy),
        "similarity": _finite_or_none(similarity),
    }


def _finite_or_none(value: float | None) -> float | None:
    """Return the number where it is finite, else None."""
    return value if value is not None and math.isfinite(value) else None


def _question_row(
    scores: Scores, reference: Scores | None, memory_similarity: float | None = None
) -> dict[str, Json]:
    """Put a question's scores beside those of the reference, for the journal."""
    before = None
    if reference is not None:
        before = {name: reference[name] for name in ("loss", "confidence")}
    return {**scores, "memory_similarity": memory_similarity, "pretrained": before}


def _ask_encoder(
    case: Case, model: Target, document: Document
) -> Generator[Request, Any, Scores | None]:
    """Ask an encoder for its scores of a page.

    None where its loss reads nothing of it, or it masks other tokens.

    Accuracy is F1 of the page's fields (entities, or links where the model only links), none where
    neither page nor model has any; similarity the share of the tokens that the loss reads which are
    tagged, or linked, right; confidence the mean probability of the best tag over these tokens,
    which models that only link do not have. Of a classifier of pages accuracy and similarity are 1
    where the class is right, and there is no confidence. Of a masked language model there is the
    mean loss of the tokens that masks hide alone.
    """
    loss = yield from query_page(case, model, document, N_MASKS)
    if loss is None:
        return None
    if not {targets.BestClass, targets.BestLinks, targets.TagProbabilities} & model.answers:
        return _collect_scores(loss)
    reader = cast("TokenTarget", model)
    page = reader.encode(document)
    assert page is not None
    if targets.BestClass in model.answers:
        right = float((yield from ask(model, targets.BestClass(page))) == page.page_class)
        return _collect_scores(loss, None, right, right)
    tags = None
    if targets.TagProbabilities in model.answers:
        tags = yield from ask(model, targets.TagProbabilities(page))
    links = None
    if targets.BestLinks in model.answers:
        links = yield from ask(model, targets.BestLinks(page))
    true, predicted = find_on_page(page, reader.labels, tags, links)
    f1 = None
    if true or predicted:
        f1 = 2 * len(true & predicted) / (len(true) + len(predicted))
    if tags is None:
        assert page.links is not None
        is_right = np.equal(links, page.links)  # type: ignore[arg-type]
        return _collect_scores(loss, None, f1, float(is_right[page.links != NOT_READ].mean()))
    assert page.labels is not None
    is_read = page.labels != NOT_READ
    right = float((tags.argmax(axis=1) == page.labels)[is_read].mean())
    return _collect_scores(loss, float(tags.max(axis=1)[is_read].mean()), f1, right)
