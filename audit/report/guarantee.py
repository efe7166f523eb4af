"""What the training promised, for an officer, and what that proves beside what was measured (methods.md#dp-training).

Bounds come from `audit.attacks.privacy_bounds`; nothing is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from audit.attacks import TEXTS
from audit.attacks.figure_text import Form
from audit.attacks.privacy_bounds import Proof, prove
from audit.attacks.text import AttackText, sentence_case
from audit.cards import PrivacyCard
from audit.measurements import Estimate
from audit.policy import Decision, Verdict
from audit.policy.guarantee import CANARIES, EPSILON, contradiction
from audit.record import AuditRecord, Completed
from audit.report import numbers, tables
from audit.stats.dp_bounds import Guarantee, balanced_accuracy

PROTECTED = {
    "document": "each document of training, as a whole; not the other documents of the same company or person",
    "provider": "each provider, with all its documents of training",
}
_ADJACENCY = {
    "document": "one document and its copies more or less",
    "provider": "one provider with all its documents more or less",
}
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD", "add": "addition of the mean change"}
_NOT_COVERED = (
    "The weights that training started from, and what they were trained on.",
    "The tokenizer, and settings that were chosen after a look at the documents or at results on them.",
    "Whatever else is released from the same documents: other models, a training with other settings, statistics.",
    "The number of units, from which settings follow, and that a training was refused or broke off.",
)
_OTHERS_PAGES = {
    "document": "A person of whom several documents speak, and near copies of a page: each document is protected on "
    "its own, with its exact copies.",
    "provider": "People and companies named in documents of other providers, and pages that several providers have: "
    "one provider's absence leaves the others' copies.",
}
_LEFT_DOCUMENTS = "Documents that training did not take, beyond the bound of a unit."
NO_SECRETS = (
    "The data set holds no planted secrets that tell epsilon; they can show that a guarantee is false (docaudit canary "
    "insert)."
)
AGREES = "Planted secrets, which can show that a guarantee is false, do not contradict this one."
NO_GUARANTEE = "There is no guarantee that planted secrets could refute."
FALSE = "nothing: it is false"
NEARLY = 0.995
"""A share from which a bound leaves room for nearly everything."""
Answer = Literal["yes", "no"]


@dataclass(frozen=True)
class ProvenRow:
    """A limit, what was measured, and what the guarantee proves.

    Attributes:
        label: of the metric.
        limit: in words.
        measured, between: the number and its interval; empty where there is none.
        proven: the bound; empty where there is none.
        answer: whether the guarantee alone meets the limit.
        words: the same in words, or why nothing is proved.
    """

    label: str
    limit: str
    measured: str
    between: str
    proven: str
    answer: Answer
    words: str


@dataclass(frozen=True)
class GuaranteeView:
    """The section on the guarantee.

    Attributes:
        card: of the training.
        facts: heading and text of each row of the first table.
        not_covered: what the guarantee says nothing about, in sentences.
        rows: of the second table.
        check: what planted secrets say about the guarantee.
        contradicted: whether they show that it is false.
    """

    card: PrivacyCard
    facts: tuple[tuple[str, str], ...]
    not_covered: tuple[str, ...]
    rows: tuple[ProvenRow, ...]
    check: str
    contradicted: bool


def guarantee_view(record: AuditRecord, verdict: Verdict, reports: Mapping[str, AttackText]) -> GuaranteeView | None:
    """Lay out the guarantee of the audited model's training; None where it claims none.

    Args:
        record: of the scan.
        verdict: on it: its limits are those that are listed.
        reports: what attacks say about themselves, by name.
    """
    card = record.dp
    if card is None:
        return None
    results = {result.attack: result for result in record.attacks if isinstance(result, Completed)}
    bounded = {name for name, text in TEXTS.items() if text.provable}
    told = verdict.contradicted
    rows = tuple(
        _row(
            decision,
            Proof(None, reason=FALSE) if told else prove(limit.attack, limit.metric, card, results.get(limit.attack)),
            card,
            reports[limit.attack],
        )
        for decision, limit in ((decision, decision.limit) for decision in verdict.decisions)
        if limit.max is not None and limit.attack in bounded
    )
    check = _check(card, told, results.get(CANARIES))
    return _view(card, rows, check, told is not None)


def card_view(record: AuditRecord) -> GuaranteeView | None:
    """The same without limits, for a page that lists them elsewhere; None where the training claims no guarantee."""
    if record.dp is None:
        return None
    told = contradiction(record)
    results = {result.attack: result for result in record.attacks if isinstance(result, Completed)}
    check = _check(record.dp, told, results.get(CANARIES))
    return _view(record.dp, (), check, told is not None)


def _view(card: PrivacyCard, rows: tuple[ProvenRow, ...], check: str, contradicted: bool) -> GuaranteeView:
    not_covered = (*_NOT_COVERED, _OTHERS_PAGES[card.unit], _LEFT_DOCUMENTS)
    return GuaranteeView(card, tuple(_facts(card)), not_covered, rows, check, contradicted)


def _check(card: PrivacyCard, told: str | None, canaries: Completed | None) -> str:
    """Say what planted secrets show of the guarantee."""
    if told:
        return f"{sentence_case(told)}."
    if card.epsilon is None:
        return NO_GUARANTEE
    return AGREES if _tells_epsilon(canaries) else NO_SECRETS


def _tells_epsilon(canaries: Completed | None) -> bool:
    measured = canaries.measurements if canaries is not None else ()
    return any(isinstance(item, Estimate) and item.name == EPSILON for item in measured)


def _facts(card: PrivacyCard) -> Iterator[tuple[str, str]]:
    """The card in words."""
    at_most = "" if card.per_unit is None else f"; at most {card.per_unit:,} documents of each were used"
    yield "Who is protected", f"{PROTECTED[card.unit]}; {card.n_units:,} in all{at_most}"
    yield "Compared are", _ADJACENCY[card.unit]
    if card.epsilon is None:
        seeded = "coins and noise came from a seed, so that they can be drawn again"
        yield "Guarantee", f"none: {seeded if card.noise_multiplier else 'no noise was added'}"
    else:
        yield "Guarantee", f"epsilon {card.epsilon:.3g}, delta {_small(card.delta)}"
        yield "In plain words", plain_words(card.unit, Guarantee(card.epsilon, card.delta, card.curve))
    yield "Each step", _step(card)
    if card.clients is not None:
        rate = numbers.show(card.client_rate, "share")
        yield "Federated", f"{card.clients:,} clients; each takes part in a round with probability {rate}"
    moved = f"{card.trained_parameters:,} parameters; {card.frozen_parameters:,} left as they were"
    yield "Trained", f"{_trained(card)} ({moved})"
    source = "the operating system" if card.secure else "a seed: anybody can draw it again"
    yield "Counted by", f"PRV (Opacus {card.accountant}); noise from {source}"
    yield "Computed by", f"{_OPTIMIZERS[card.optimizer]}, learning rate {card.learning_rate:g}"


def _small(delta: float) -> str:
    """A delta as a number and as one in so many."""
    return f"{delta:.2g}" + (f" (1 in {1 / delta:,.0f})" if delta > 0 else "")


def plain_words(unit: str, promised: Guarantee) -> str:
    """Explain an epsilon by somebody who guesses whether one unit was used, in sentences.

    Args:
        unit: "document" or "provider".
        promised: to one unit.
    """
    right = numbers.show(balanced_accuracy(promised), "share")
    factor = f"{promised.odds:,.0f}" if promised.odds >= 10 else numbers.plain(promised.odds)
    return (
        f"Somebody who has the model and knows everything else guesses whether one {unit} was used in training, where "
        f"a coin decided that: at most {right} of such guesses are right, whatever is tried (50{numbers.NBSP}% is "
        f"guessing). Using a {unit} makes nothing that the model shows more than {factor} times as likely, but for a "
        f"chance of {numbers.show(promised.delta, 'share')} (delta)."
    )


def _step(card: PrivacyCard) -> str:
    share = numbers.show(card.sample_rate, "share")
    moved = "gradient" if not card.local_steps else f"change by {card.local_steps:,} passes over its documents"
    relative = card.noise_multiplier / card.expected_units
    return (
        f"{card.steps:,} steps; in each, every {card.unit} takes part with probability {share}; its {moved} is cut to "
        f"length C = {card.max_norm:.3g}, and noise of {card.noise_multiplier:.3g} C is added "
        f"to the sum: {numbers.plain(relative)} C in each coordinate of the mean over {card.expected_units:,.0f}"
    )


def _trained(card: PrivacyCard) -> str:
    scope, _, rank = card.trained.partition(":")
    words = {
        "lora": f"adapters of rank {rank} on queries and values{', and the head' if card.head else ''}",
        "head": "the head",
        "full": "all weights",
    }[scope]
    return f"{words}; {'embeddings too' if card.embeddings else 'embeddings are frozen'}"


def _row(decision: Decision, proof: Proof, card: PrivacyCard, report: AttackText) -> ProvenRow:
    limit = decision.limit
    text = tables.decision_row(decision, report)
    assert limit.max is not None
    form = report.form(limit.metric)
    shown = "" if proof.most is None else shown_upwards(proof.most, form)
    answer: Answer = "yes" if proof.most is not None and proof.most <= limit.max else "no"
    return ProvenRow(text.label, text.limit, text.measured, text.between, shown, answer, _words(proof, answer, card))


def shown_upwards(bound: float, form: Form) -> str:
    """A bound in its form, never below itself: upper bounds are not rounded down; what is under 1 is not shown as 1."""
    if bound <= 0:
        return numbers.show(bound, form)
    digits = 4 if NEARLY < bound < 1 else 3
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(bound)))
    return numbers.show(math.ceil(bound * scale - 1e-9) / scale, form, digits)


def _words(proof: Proof, answer: Answer, card: PrivacyCard) -> str:
    """Whether the guarantee alone meets a limit, and how many units it had to be stretched over."""
    if proof.most is None:
        return f"It proves {proof.reason}"
    assert card.epsilon is not None
    total = proof.group * card.epsilon
    group = "" if proof.group == 1 else f" ({proof.group:,} {card.unit}s change together: epsilon {total:.3g})"
    if answer == "yes":
        return f"Yes: proved, whatever attack is tried{group}"
    if proof.most >= NEARLY and proof.most <= 1:
        return f"No: it leaves room for nearly everything{group}"
    return f"No: the measurement decides{group}"
