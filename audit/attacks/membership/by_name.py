"""People recognised by their names alone, for decoders of text (after Xia et al. 2025).

The attacker has a full name, knows how the documents are written, and has no page. The name is put
behind words that precede names in the documents, and behind general ones. Its likelihood by the
target over that by the pretrained model is the score, so that common names gain nothing. No limit
is held against these numbers (methods/document-membership.md#people-by-name).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np

from audit.arrays import Bools, Floats, Ints
from audit.attacks.interface import AUDITED, WORDS, ask
from audit.attacks.measuring import estimate_without_null
from audit.attacks.membership.documents import answered_questions, select_compared
from audit.attacks.people import FALSE_ALARMS, NAMES_OF_PEOPLE, People, Source, people_of
from audit.case import Case
from audit.corpus.documents import Corpus, Document, Split, Word
from audit.corpus.folding import fold
from audit.corpus.images import PageView
from audit.engine.interface import Json, Request, Trial
from audit.measurements import Measurement, PeopleCount, Unresolved
from audit.stats.estimates import estimate
from audit.stats.intervals import Interval, join_groups, make_interval, proportion
from audit.stats.roc import auc, auc_interval
from audit.targets.interface import AnswerLoss, PageEndLoss, Target

T = TypeVar("T")
GENERIC = ("My name is", "Dear", "I know", "the name is")
"""What precedes a name on a page, in any documents."""
ASKED = "What is the name?"
"""The question that a name answers where the data set asks for none."""
N_PROMPTS = 8
N_CONTEXTS = N_PROMPTS - len(GENERIC) - 1
LONGEST_CONTEXT = 4
"""Words before a name that are part of a form."""
USUAL = 0.5
"""Of the names behind a word, the share behind which a longer context stands."""
AREA = "by_name_auc"
RECOGNISED = "recognised_by_name"
ENDING = ".by_name"
"""Of the method that people are counted by, see `audit.measurements.PeopleCount`."""
TITLES = frozenset({"mr", "ms", "mrs", "miss", "dr", "prof"})
FOLDS = 2
FEWEST = 2 * FOLDS
"""People of a side that are compared, at least."""
ENOUGH = 20
"""People of a side under which areas are marked "few units"."""


class AskedPerson(NamedTuple):
    """A person who is asked for.

    Attributes:
        person: as of `people_of`.
        name: as it is written.
        side: the split whose documents alone name this person.
    """

    person: str
    name: str
    side: Split


def asks_by_name(case: Case) -> bool:
    """Test whether the target is a decoder of text beside a pretrained model that gives its loss.

    No other model was measured (`benchmarks/papers/people_by_name.md`).
    """
    pretrained = case.references.pretrained
    return (
        PageEndLoss in case.target.answers
        and pretrained is not None
        and PageEndLoss in pretrained.answers
    )


def is_full_name(name: str) -> bool:
    """Tell whether a name is a first name and a surname, without initial or title."""
    first, _, last = name.partition(" ")
    title = first.lower().removesuffix(".")
    is_short = first.endswith(".") or title in TITLES
    return bool(last) and " " not in last and not is_short


# Who is asked for


def people_asked_for(corpus: Corpus) -> Mapping[str, AskedPerson]:
    """Choose the people who are asked for, by the document in whose attempt they are.

    Documents of one side alone name them. Of people who share documents, however indirectly, one is
    chosen by a hash of the name, so that they are independent of each other.
    """
    return corpus.once("people asked for", lambda: _choose_people(corpus))


def _choose_people(corpus: Corpus) -> dict[str, AskedPerson]:
    """Choose the people who are asked for; see `people_asked_for`."""
    people = people_of(corpus)
    names = _full_names(corpus, people)
    together: dict[str, set[str]] = defaultdict(set)
    for person in names:
        for document in people.documents[person]:
            together[document].add(person)
    chosen: dict[str, AskedPerson] = {}
    compared = {item.id for item in select_compared(corpus) if answered_questions(item)}
    for group in join_groups(together.values()):
        person = min(group, key=_hash_of)
        documents = compared & people.documents[person]
        if documents:
            asked = AskedPerson(person, names[person], people.side[person])
            chosen[min(documents)] = asked
    return chosen


def _full_names(corpus: Corpus, people: People) -> dict[str, str]:
    """Return the commonest full name of each person whom one audited side alone names.

    A name that documents of both sides hold is left out, and so is one of two people.
    """
    splits: dict[str, set[Split]] = defaultdict(set)
    owners: dict[str, set[str]] = defaultdict(set)
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for document, name, person in _names_with_owners(corpus, people):
        splits[fold(name)].add(document.split)
        if person is not None:
            owners[fold(name)].add(person)
            written[person][name] += 1
    names: dict[str, str] = {}
    for person, forms in written.items():
        name, _ = forms.most_common(1)[0]
        is_alone = splits[fold(name)] == {people.side.get(person)}
        if is_alone and people.side[person] in AUDITED and owners[fold(name)] == {person}:
            names[person] = name
    return names


def _names_with_owners(
    corpus: Corpus, people: People
) -> Iterator[tuple[Document, str, str | None]]:
    """Give the full names in documents, each with whose it is; None where nobody knows."""
    for document in corpus.documents:
        for entity in document.entities:
            name = document.text_of(entity)
            if entity.category == NAMES_OF_PEOPLE and is_full_name(name):
                yield document, name, people.owner_of(document, entity)
        for question in document.questions:
            name = next(iter(question.answers), "")
            if question.category == NAMES_OF_PEOPLE and is_full_name(name):
                yield document, name, people.owner_of_answer(document, question)


def _hash_of(text: str) -> bytes:
    """Return a hash, which orders people without regard to anything that they are."""
    return sha256(text.encode()).digest()


# What is asked


class Prompt(NamedTuple):
    """What precedes a name: words on a page, or a question on an empty page.

    Attributes:
        words: the words on the page.
        question: None: the name stands on the page.
    """

    words: tuple[str, ...] = ()
    question: str | None = None

    def query(self, name: str) -> AnswerLoss:
        """Return the query for the loss of a name here."""
        if self.question is not None:
            return AnswerLoss(PageView(()), self.question, name)
        return PageEndLoss(PageView(tuple(map(Word, self.words))), "", name)


def prompts_of(corpus: Corpus) -> tuple[Prompt, ...]:
    """Return `N_PROMPTS` prompts at most: those of the documents' own words come first."""
    return corpus.once("prompts of names", lambda: _choose_prompts(corpus))


def _choose_prompts(corpus: Corpus) -> tuple[Prompt, ...]:
    """Choose the prompts; see `prompts_of`."""
    contexts = _commonest(corpus, _contexts_of(corpus))[:N_CONTEXTS]
    questions = _commonest(corpus, _questions_for_names(corpus))[:1]
    return (
        *map(Prompt, contexts),
        Prompt(question=questions[0] if questions else ASKED),
        *(Prompt(tuple(words.split())) for words in GENERIC),
    )


def _commonest(corpus: Corpus, holders: Mapping[T, AbstractSet[str]]) -> list[T]:
    """Order what documents of both audited sides hold by the number of documents, most first.

    What one side alone holds would distinguish the sides without the model.
    """
    common: list[T] = []
    for item, documents in holders.items():
        splits = {corpus.document(name).split for name in documents}
        if {*AUDITED} <= splits:
            common.append(item)
    return sorted(common, key=lambda item: (-len(holders[item]), str(item)))


def _contexts_of(corpus: Corpus) -> Mapping[tuple[str, ...], AbstractSet[str]]:
    """Return the documents that hold each context: words that often precede names together."""
    occurrences: list[tuple[str, tuple[str, ...]]] = []
    for document in corpus.of(*AUDITED):
        for entity in document.entities:
            if entity.category == NAMES_OF_PEOPLE and is_full_name(document.text_of(entity)):
                before = document.words[max(0, entity.words[0] - LONGEST_CONTEXT) : entity.words[0]]
                if before:
                    occurrences.append((document.id, tuple(word.text for word in before)))
    times = Counter[tuple[str, ...]]()
    for _, words in occurrences:
        times.update(words[-length:] for length in range(1, len(words) + 1))
    holders: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name, words in occurrences:
        holders[_usual_part(words, times)].add(name)
    return holders


def _usual_part(words: tuple[str, ...], times: Mapping[tuple[str, ...], int]) -> tuple[str, ...]:
    """Return as many of the words before a name as usually precede names together."""
    part = words[-1:]
    for length in range(2, len(words) + 1):
        if times[words[-length:]] < USUAL * times[words[-1:]]:
            break
        part = words[-length:]
    return part


def _questions_for_names(corpus: Corpus) -> Mapping[str, AbstractSet[str]]:
    """Return the documents that ask each question whose answer is the name of a person."""
    holders: dict[str, set[str]] = defaultdict(set)
    for document in corpus.of(*AUDITED):
        names = {item.id for item in document.entities if item.category == NAMES_OF_PEOPLE}
        for question in answered_questions(document):
            if question.category == NAMES_OF_PEOPLE or question.entity in names:
                holders[question.question].add(document.id)
    return holders


def ask_by_name(case: Case, name: str, n_prompts: int) -> Generator[Request, Any, Json]:
    """Ask target and pretrained model for the loss of a name behind each prompt.

    Used with `yield from`.

    Returns:
        "target" and "reference": the mean loss of a token of the name, by prompt, nats. None where
        one of them is not finite.
    """
    pretrained = case.references.pretrained
    assert pretrained is not None
    prompts = prompts_of(case.corpus)[:n_prompts]
    target = yield from _losses(case.target, name, prompts)
    reference = yield from _losses(pretrained, name, prompts)
    if not np.isfinite([target, reference]).all():
        return None
    return {"target": target, "reference": reference}


def _losses(
    model: Target, name: str, prompts: Sequence[Prompt]
) -> Generator[Request, Any, list[float]]:
    """Ask a model for the mean loss of the tokens of a name behind each prompt, nats.

    The token that ends an answer says nothing of the name.
    """
    losses: list[float] = []
    for prompt in prompts:
        tokens: Floats = yield from ask(model, prompt.query(name))
        if prompt.question is not None and tokens.size > 1:
            tokens = tokens[:-1]
        losses.append(-float(tokens.mean()))
    return losses


# What comes of it


@dataclass(frozen=True, eq=False)
class PeopleScored:
    """The people who were asked for, with their scores; larger = more like people of members.

    Attributes:
        asked: the people, with the document in whose attempt each was asked for.
        member: whether members' documents name them, (n_people,).
        by_prompt: scores, (n_people, n_prompts).
        start: minus the pretrained model's loss, (n_people, n_prompts): the control.
        folds: the half of each person, (n_people,).
    """

    asked: Sequence[tuple[str, AskedPerson]]
    member: Bools
    by_prompt: Floats
    start: Floats
    folds: Ints

    def chosen(self, scores: Floats) -> Floats:
        """Return each person's score by the prompt that is best on the other half."""
        return chosen_scores(scores, self.member, self.folds)


def score_people(corpus: Corpus, trials: Sequence[Trial], outcomes: Sequence[Json]) -> PeopleScored:
    """Collect the scores of the people who were asked for."""
    asked: list[tuple[str, AskedPerson]] = []
    rows: list[Json] = []
    for trial, outcome in zip(trials, outcomes, strict=True):
        answers = outcome.get("by_name")
        if answers is not None:
            asked.append((trial.cluster, people_asked_for(corpus)[trial.cluster]))
            rows.append(answers)
    member = np.array([person.side == "member" for _, person in asked], bool)
    target = np.array([answers["target"] for answers in rows], np.float64)
    reference = np.array([answers["reference"] for answers in rows], np.float64)
    hashes = [_hash_of(person.person) for _, person in asked]
    folds = halves(member, np.argsort(np.array(hashes, object), kind="stable"))
    return PeopleScored(asked, member, reference - target, -reference, folds)


def measure_by_name(
    case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> tuple[tuple[Measurement, ...], tuple[PeopleCount, ...]]:
    """Measure how well people are recognised by name; nothing where nobody was asked for."""
    scored = score_people(case.corpus, trials, outcomes)
    if not scored.asked:
        return (), ()
    source: Source = people_of(case.corpus).source
    names = (AREA, f"{AREA}.pretrained", *(f"{RECOGNISED}.{split}" for split in AUDITED))
    for split in AUDITED:
        n = int((scored.member == (split == "member")).sum())
        if n < FEWEST:
            reason = f"fewer than {FEWEST} people whom {WORDS[split]} documents alone name in full"
            return tuple(Unresolved(name, reason, n, ENOUGH) for name in names), ()
    scores = scored.chosen(scored.by_prompt)
    areas: list[Measurement] = []
    for name, column in zip(names, (scores, scored.chosen(scored.start)), strict=False):
        interval = area_of_halves(column, scored.member, scored.folds)
        areas.append(estimate(name, interval, "people", 0.5, "chance"))
    hits = recognised_people(scores, scored.member, scored.folds)
    shares: list[Measurement] = []
    for split in AUDITED:
        of_side = hits[scored.member == (split == "member")]
        interval = proportion(of_side, np.arange(of_side.size))
        shares.append(estimate_without_null(f"{RECOGNISED}.{split}", interval, "people"))
    return (*areas, *shares), (PeopleCount(ENDING, source, *shares),)


def evidence_by_name(
    corpus: Corpus, trials: Sequence[Trial], outcomes: Sequence[Json]
) -> Iterator[dict[str, Any]]:
    """Yield each person who was asked for, with name, score and whether it was recognised."""
    scored = score_people(corpus, trials, outcomes)
    sizes = [int((scored.member == side).sum()) for side in (True, False)]
    if min(sizes) < FEWEST:
        return
    scores = scored.chosen(scored.by_prompt)
    hits = recognised_people(scores, scored.member, scored.folds)
    for row, (document, person) in enumerate(scored.asked):
        yield {
            "attack": "membership",
            "document": document,
            "split": person.side,
            "asked_by_name": person.name,
            "score": float(scores[row]),
            "recognised": bool(hits[row]),
        }


# Prompts and halves


def halves(member: Bools, order: Ints) -> Ints:
    """Divide each side into halves, in turn by an order of the people: (n_people,)."""
    folds = np.empty(len(member), np.int64)
    for side in (True, False):
        rows = order[member[order] == side]
        folds[rows] = np.arange(rows.size) % FOLDS
    return folds


def best_prompt(scores: Floats, member: Bools) -> int:
    """Return the prompt with the largest area, the first of equal ones.

    Args:
        scores: (n_people, n_prompts).
        member: whether a person's documents were trained on, (n_people,).
    """
    areas = [auc(column[member], column[~member]) for column in scores.T]
    return int(np.argmax(areas))


def chosen_scores(scores: Floats, member: Bools, folds: Ints) -> Floats:
    """Score each person by the prompt that is the best on the people of the other folds.

    Args:
        scores: (n_people, n_prompts).
        member: whether a person's documents were trained on, (n_people,).
        folds: (n_people,).

    Returns:
        Shape (n_people,).
    """
    chosen = np.empty(len(scores))
    for number in np.unique(folds):
        here = folds == number
        chosen[here] = scores[here, best_prompt(scores[~here], member[~here])]
    return chosen


def area_of_halves(scores: Floats, member: Bools, folds: Ints) -> Interval:
    """Return the mean over folds of areas, and of their bounds.

    Scores of two folds may come from two prompts, and are not compared. Means of bounds are wider
    than bounds of a mean of independent areas.
    """
    areas = [auc_interval(*sides) for sides in sides_by_fold(scores, member, folds)]
    lower, upper = np.mean([area.ends for area in areas], axis=0)
    value = float(np.mean([area.value for area in areas]))
    method = f"mean of halves: {areas[0].method}"
    return make_interval(value, lower, upper, n=len(scores), method=method)


def recognised_people(scores: Floats, member: Bools, folds: Ints) -> Bools:
    """Tell who scores over the threshold of a fold, (n_people,).

    A tenth of the fold's unseen people lie over it at most, as in `people.count_recognised`.
    """
    hits = np.zeros(len(scores), bool)
    for number in np.unique(folds):
        here = folds == number
        threshold = np.quantile(scores[here & ~member], 1 - FALSE_ALARMS, method="higher")
        hits |= here & (scores > threshold)
    return hits


def sides_by_fold(scores: Floats, member: Bools, folds: Ints) -> Iterator[tuple[Floats, Floats]]:
    """Give the scores of members' people and of unseen people, fold by fold."""
    for number in np.unique(folds):
        here = folds == number
        yield scores[here & member], scores[here & ~member]
