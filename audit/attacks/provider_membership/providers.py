"""Providers that the attack asks about, and their documents (methods.md#provider-membership)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from audit.attacks.masking import maskable
from audit.attacks.questions import distinct_answers
from audit.attacks.usable import loss_kind
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.folding import fold
from audit.corpus.providers import unnamed_members

Askable = Callable[[Document], bool]
MIN_PROVIDERS = 2
"""Providers in, and out, without which nothing can be compared (ours: one alone has no spread)."""
BY_CHANCE = 20
"""The same where documents were drawn by lot (ours): few providers are out then, by chance, and nothing can be said of
so few."""
NO_HELDOUT, NOTHING_TO_ASK = "no kept-aside document", "nothing to ask"
REASONS = {
    NO_HELDOUT: "providers all of whose documents are member or public ones: none was kept aside to ask about",
    NOTHING_TO_ASK: "providers of whose kept-aside documents no question has an answer, or the loss reads nothing",
}
"""Why a provider is left out."""


_WHERE = {"in": "in", "out": "out of"}
"""Sides, as they stand before "training" in a sentence."""


@dataclass(frozen=True)
class Provider:
    """One provider of the data set.

    Attributes:
        name: folded; what its trial is called.
        number: its rank, from 1, in a shuffled order of the data set's providers: what stands for it in a report.
            The key is in `evidence/`.
        member: whether any of its documents is a member.
        spellings: how the data set writes its name, sorted.
        heldout: its documents that were kept aside, in file order.
        asked: those of them that can be asked about.
    """

    name: str
    number: int
    member: bool
    spellings: tuple[str, ...]
    heldout: tuple[Document, ...]
    asked: tuple[Document, ...]

    @property
    def left_out(self) -> str | None:
        """Why it is not asked about (one of `REASONS`); None when it is."""
        if self.asked:
            return None
        return NOTHING_TO_ASK if self.heldout else NO_HELDOUT


def provider_of(document: Document) -> str:
    """The folded name of a document's provider: "" where it names none."""
    return fold(document.provider or "")


def providers_of(corpus: Corpus, askable: Askable) -> tuple[Provider, ...]:
    """Every provider of a data set, by folded name: names that differ by case or spacing only are one provider.

    Args:
        corpus: the data set.
        askable: whether a kept-aside document can be asked about.
    """
    documents: dict[str, list[Document]] = defaultdict(list)
    for document in corpus.documents:
        if name := provider_of(document):
            documents[name].append(document)
    numbers = _numbers(corpus, documents)
    return tuple(_provider(name, numbers[name], documents[name], askable) for name in sorted(documents))


def _numbers(corpus: Corpus, names: Iterable[str]) -> dict[str, int]:
    """From 1, in the order of hashes of the names, salted with the words of the kept-aside documents.

    Numbers in the order of names would give the names back to whoever holds a list of the owner's suppliers, and so
    would hashes without salt. A record holds the sha256 of the corpus, so that would salt nothing; what kept-aside
    documents say, the owner alone knows. Pages that nobody read have their questions and answers instead of words.
    """
    salt = sha256()
    for document in corpus.of("heldout"):
        asked = (text for question in document.questions for text in (question.question, *question.answers))
        for text in (*(word.text for word in document.words), *asked):
            salt.update(f"{text}\0".encode())
    prefix = salt.digest()
    shuffled = sorted(names, key=lambda name: sha256(prefix + name.encode()).digest())
    return {name: number for number, name in enumerate(shuffled, start=1)}


def _provider(name: str, number: int, documents: list[Document], askable: Askable) -> Provider:
    heldout = tuple(document for document in documents if document.split == "heldout")
    return Provider(
        name,
        number,
        any(document.split == "member" for document in documents),
        tuple(sorted({document.provider or "" for document in documents})),
        heldout,
        tuple(filter(askable, heldout)),
    )


def select_tried(providers: tuple[Provider, ...], least: int = MIN_PROVIDERS) -> list[Provider]:
    """Those that can be asked about; none where a side has too few to compare."""
    asked = [provider for provider in providers if provider.asked]
    sides = [sum(provider.member == side for provider in asked) for side in (True, False)]
    return asked if min(sides) >= least else []


def min_providers(corpus: Corpus) -> int:
    """Return the least number of providers of a side that can be compared."""
    return BY_CHANCE if corpus.manifest.membership.assigned == "random" else MIN_PROVIDERS


def shortage(providers: tuple[Provider, ...], least: int = MIN_PROVIDERS) -> tuple[str, str] | None:
    """Why the providers of a data set cannot be compared, and what the owner can add; None when they can."""
    if select_tried(providers, least):
        return None
    add_out = "keep all documents of some providers out of training (docaudit import ... --by-provider)"
    if not providers:
        return "no document names its provider", "give documents the provider that issued them"
    if len(providers) == 1:
        return "all documents come from one provider", f"add other providers, and {add_out}"
    sides = {
        name: [one for one in providers if one.member == member] for name, member in (("in", True), ("out", False))
    }
    if not sides["out"]:
        return f"all {len(providers)} providers have documents in training, none is out", add_out
    if not sides["in"]:
        return "no provider has a document in training", "mark the documents that trained the model as member"
    for name, side in sides.items():
        if not any(one.heldout for one in side):
            return (
                f"no provider {_WHERE[name]} training has a kept-aside document",
                f"mark documents of providers {_WHERE[name]} training, which no model was trained on, as heldout",
            )
        if not any(one.asked for one in side):
            return (
                f"no kept-aside document of providers {_WHERE[name]} training can be asked about",
                "give them questions with answers, or for token classifiers labelled words",
            )
    asked = {name: sum(bool(one.asked) for one in side) for name, side in sides.items()}
    return (
        f"{asked['in']} providers in and {asked['out']} out of training can be asked about: "
        f"{least} of each are the least",
        "add kept-aside documents of more providers",
    )


def describe_unnamed(corpus: Corpus) -> str | None:
    """That a provider which counts as out may be in, and what to give; None when every document of training has one."""
    n = unnamed_members(corpus)
    if not n:
        return None
    documents = "document" if n == 1 else "documents"
    return f"{n} {documents} of training without a provider, so that one that counts as out may be in: name it for each"


def answers_of(question: Question) -> tuple[str, ...]:
    """The accepted answers that say something; the first one is what models are trained on."""
    return distinct_answers(question.answers)


def questions_of(document: Document) -> list[Question]:
    """The questions of a document that have an answer."""
    return [question for question in document.questions if answers_of(question)]


def has_question(document: Document) -> bool:
    """Return whether models that answer can be asked about a document."""
    return bool(questions_of(document))


def askable(case: Case) -> Askable:
    """Return the test of whether this target can be asked about a document."""
    kind = loss_kind(case.target)
    if kind == "answers":
        return has_question
    if kind == "masks":
        return lambda document: maskable(case.target, document) is not None

    def has_loss(document: Document) -> bool:
        page = case.token_target.encode(document)
        return page is not None and page.has_loss

    return has_loss


def perhaps_askable(corpus: Corpus) -> Askable:
    """Return the test of whether a target for this data set may be asked about a document, before there is one."""
    if corpus.manifest.task.asks:
        return has_question
    return lambda document: bool(document.words)


def knows_public(corpus: Corpus) -> bool:
    """Return whether a public document, which baselines are trained on, is of a provider that has kept-aside ones."""
    public = {provider_of(document) for document in corpus.of("public")} - {""}
    return any(provider_of(document) in public for document in corpus.of("heldout")) if public else False


def askable_documents(case: Case, name: str) -> tuple[Document, ...]:
    """The documents of one provider, by folded name, that are asked about."""
    can_be_asked = askable(case)
    own = (document for document in case.corpus.of("heldout") if provider_of(document) == name)
    return tuple(filter(can_be_asked, own))
