"""What reports of made-up records say, word for word, of their findings.

Each text lies in texts/, a sentence a line; after a change that is meant: DOCAUDIT_WRITE_TEXTS=1
pytest FILE, and read the difference.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import example_answers as answers
import example_canaries as canaries
import example_private as private
import example_providers as providers
import example_records as records
import pytest
import redacted
from PIL import Image
from shown_pages import Seen, check_text

from audit.attacks.redaction import RedactionContext
from audit.cards import PrivacyCard
from audit.corpus.documents import Corpus, Document, Entity, Word
from audit.measurements import ALPHAS, Bound, Diagnostic, Estimate, Measurement, Unresolved
from audit.policy import Limit, Policy
from audit.record import Result
from audit.report.html import html

pytestmark = pytest.mark.slow

PARTS = (
    ("<h2>What leaks, and what was tried</h2>", "<h2>Who answers"),
    ("Detailed findings</h2>", 'id="limits"'),
    ('<section id="guarantee">', "</section>"),
)
"""What page one says of the findings, their chapter, and the guarantee of a private training."""


def changed(result: Result, name: str, **fields: object) -> Result:
    """A result with another estimate of this name."""
    items = (
        dataclasses.replace(item, **fields)
        if isinstance(item, Estimate) and item.name == name
        else item  # type: ignore[arg-type]
        for item in result.measurements
    )
    return dataclasses.replace(result, measurements=tuple(items))


def without(result: Result, name: str, *instead: Measurement) -> Result:
    """A result that has no estimate of this name."""
    return dataclasses.replace(
        result,
        measurements=(*instead, *(item for item in result.measurements if item.name != name)),
    )


def shared(name: str, hits: int) -> Result:
    """Reconstruction that leaks, with so many of 8 hits of this name."""
    return without(records.reconstruction(0.6), name, records.share(name, hits, 8))


def told(result: Result, **values: float) -> Result:
    """A result with other diagnostics."""
    items = [
        dataclasses.replace(item, value=values.get(item.name, item.value))
        for item in result.diagnostics
    ]
    return dataclasses.replace(result, diagnostics=tuple(items))


def upside_down(result: Result) -> Result:
    bounds = tuple(Bound(alpha, 0.15, 0.25) for alpha in ALPHAS)
    return changed(result, "auc", value=0.2, low=0.15, high=0.25, bounds=bounds)


def no_better_than_guessing() -> Result:
    """Providers are told apart, and not by calling each used or not."""
    (nothing,) = (
        item for item in providers.providers(0.0).measurements if item.name == "balanced_accuracy"
    )
    items = (
        nothing if item.name == nothing.name else item
        for item in providers.providers().measurements
    )
    return dataclasses.replace(providers.providers(), measurements=tuple(items))


def blind_beside() -> Result:
    """Document membership beside a blind check that finds nothing."""
    blind = dataclasses.replace(providers.area("blind_auc", 0.02, 300), unit="documents", null=0.53)
    known = [
        Diagnostic("blind_p", 0.3, ""),
        Diagnostic("blind_power", 0.99, ""),
        Diagnostic("blind_auc.image", 0.52, ""),
    ]
    result = answers.membership()
    return dataclasses.replace(
        result,
        measurements=(*result.measurements, blind),
        diagnostics=(*result.diagnostics, *known),
    )


def alike() -> Result:
    """Providers whose documents nothing tells apart without the model."""
    gap = Unresolved("blind_auc", "the documents do not differ in any tested feature", 72)
    weak = without(providers.providers(n=72, power=0.46), "blind_auc", gap)
    return dataclasses.replace(weak, diagnostics=(Diagnostic("blind_power", 0.0, ""),))


PROVIDERS: dict[str, Callable[[], Result]] = {
    **{name: lambda make=make: make()[0].attacks[0] for name, make in providers.CASES.items()},  # type: ignore[misc]
    "no-better-than-guessing": no_better_than_guessing,
    "upside-down": lambda: upside_down(providers.providers(0.0)),
    "check-undecided": lambda: providers.providers(
        0.8, blind=0.55, p=0.4, power=0.3, confounded="they were not assigned by lot"
    ),
    "check-weak": lambda: providers.providers(n=72, power=0.46, confounded="not ruled out"),
    "alike": alike,
}
ANSWERS: dict[str, Callable[[], Result]] = {
    "unresolved-net": lambda: without(
        answers.memorisation(),
        "net",
        Unresolved("net", "fewer than two documents with such questions", 1, 72),
    ),
    "membership": answers.membership,
    "membership-nothing": lambda: answers.membership(0.0),
    "membership-upside-down": lambda: upside_down(answers.membership(0.0)),
    "membership-confounded": lambda: dataclasses.replace(
        answers.membership(), confounded="they differ"
    ),
    "membership-blind": blind_beside,
}
CANARIES: dict[str, Callable[[], Result]] = {
    "leaky": canaries.canaries,
    "clean": lambda: canaries.canaries(0.0),
    "unasked": lambda: canaries.canaries(unasked=64),
    "single": lambda: canaries.canaries(repeat=1),
}
RECONSTRUCTION: dict[str, Callable[[], Result]] = {
    "leaky": lambda: records.reconstruction(0.6),
    "clean": lambda: records.reconstruction(0.0),
    "surest-without": lambda: shared("acc_at_5.member.baseline", 8),
    "surest-no-better": lambda: shared("acc_at_5.member.attack", 4),
}
CARDS: dict[str, PrivacyCard] = {
    "unproved": private.card(None),
    "without-noise": dataclasses.replace(private.card(None), noise_multiplier=0.0, secure=True),
    "federated": dataclasses.replace(
        private.card(1.0, unit="provider"), clients=10, client_rate=0.2, local_steps=2, per_unit=50
    ),
}
PRIVATE: dict[str, Callable[[], records.Case]] = {
    "measured": lambda: private.private(0.5, unit="provider"),
    "contradicted": private.contradicted,
    **{
        name: lambda card=card: private.held(card, private.membership())
        for name, card in CARDS.items()
    },  # type: ignore[misc]
}


def redaction(data: Corpus, target: object = None) -> str:
    """The report of the redaction attack on a planted data set."""
    found = redacted.findings(data, target)
    names = ("measurements", "counts", "diagnostics")
    result = Result(
        "redaction",
        parameters=dataclasses.asdict(RedactionContext()),
        **{name: getattr(found, name) for name in names},
    )
    record = answers.answering(result)
    limits = (
        Limit("redaction", "lift_share", "What a redacted copy tells.", max=0.1, required=False),
    )
    held = dataclasses.replace(record, battery=(*record.battery, "redaction"))
    return html(*answers.judged(held, Policy(1, "redacted", limits, description="A limit.")))


def model_remembers(n_documents: int, *, told: bool, seed: int) -> str:
    """The same where the model tells the kind of values in documents that it was trained on."""
    data = redacted.texts(n_documents, told=told, seed=seed)
    return redaction(data, redacted.Tagging(known=data.of("member")))


REDACTION: dict[str, Callable[[], str]] = {
    "told": lambda: model_remembers(12, told=True, seed=0),
    "model-adds": lambda: model_remembers(24, told=False, seed=2),
    "text-alone": lambda: redaction(redacted.texts(40, told=True), redacted.Tagging()),
    "nothing": lambda: redaction(redacted.texts(30, told=False, seed=3)),
}


def held(
    hold: Callable[[Result], records.Case], made: dict[str, Callable[[], Result]]
) -> dict[str, Callable[[], records.Case]]:
    """Put each result into a record with its verdict."""
    return {name: lambda make=make: hold(make()) for name, make in made.items()}  # type: ignore[misc]


CASES: dict[str, dict[str, Callable[[], records.Case]]] = {
    "private": PRIVATE,
    "answers": {
        **answers.CASES,
        **held(lambda result: answers.held(answers.answering(result)), ANSWERS),
    },
    "records": records.CASES,
    "providers": held(providers.held, PROVIDERS),
    "reconstruction": held(lambda result: records.judged(records.record(result)), RECONSTRUCTION),
    "canaries": held(canaries.held, CANARIES),
}
PAGES: dict[str, Callable[[], str]] = {
    **{f"redaction-{name}": make for name, make in REDACTION.items()},
    **{
        f"{kind}-{name}": lambda make=make: html(*make())
        for kind, of in CASES.items()
        for name, make in of.items()
    },  # type: ignore[misc]
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", PAGES)
def test_a_report_says_what_it_said(name: str) -> None:
    page = PAGES[name]()
    check_text(
        name, "<p>" + " ".join(page.partition(start)[2].partition(end)[0] for start, end in PARTS)
    )


def test_text_under_the_box_is_said_on_page_one_and_never_what_it_says(tmp_path: Path) -> None:
    Image.new("RGB", (400, 100), "black").save(tmp_path / "page.png")
    documents = []
    for number in range(20):
        kind, value = (("person", "Zylkander"), ("amount", "9.00"))[number % 2]
        texts = (("Total", 0.0, 0.0), (value, 100.0, 0.0), (f"{number}", 0.0, 80.0))
        words = tuple(Word(text, (x, y, x + 10.0 * len(text), y + 10)) for text, x, y in texts)
        entities = (Entity("e", kind, kind, (1,)),)
        documents.append(
            Document(
                f"d{number}", "member", words, image="page.png", size=(400, 100), entities=entities
            )
        )
    page = redaction(
        dataclasses.replace(redacted.corpus(documents, "length", "mlm"), root=tmp_path)
    )
    first = Seen(page.partition("</section>")[0]).text
    assert "The text of 20 of 20 covered values is still in the data set" in first
    assert "Zylkander" not in page
