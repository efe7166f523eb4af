"""Where the memorisation attack was given answers, and whose they are."""

from collections import Counter

import numpy as np

from audit.attacks import people
from audit.attacks.breakdown import OTHER_KIND, MethodHits, Traits, Tried, break_down, position_of
from audit.attacks.memorisation.contexts import METHODS, UNASKED, net_of
from audit.attacks.memorisation.table import QuestionTable
from audit.attacks.questions import AskedQuestion, all_questions
from audit.corpus.documents import Corpus, Split
from audit.corpus.folding import fold, places_of
from audit.measurements import Breakdown, PeopleCount


def groups_of_answers(
    corpus: Corpus, table: QuestionTable
) -> tuple[tuple[Breakdown, ...], tuple[PeopleCount, ...]]:
    """Divide the questions about pages without the answer, and count the people they are about.

    Args:
        corpus: the data set.
        table: table of all questions that were tried.
    """
    proven = table.proven
    methods = []
    for context in (*METHODS, UNASKED):
        if context in proven.results:
            results = proven.results[context]
            counted = np.asarray(results.tried, bool)
            ending = net_of(context).removeprefix("net")
            methods.append(MethodHits(ending, results.target, counted, counted))
    holders = holders_of(corpus)
    traits = [traits_of(question, holders) for question in proven.asked]
    tried = Tried(traits, proven.member, proven.cluster, "questions")
    owned = [
        owned_value(corpus, question, bool(alone))
        for question, alone in zip(proven.asked, proven.unique["exact"], strict=True)
    ]
    return break_down(tried, methods), people.count_returned(corpus, owned, methods)


def holders_of(corpus: Corpus) -> Counter[tuple[Split, str]]:
    """Count the documents of each split that answer a question with a value, by folded value."""
    holders: set[tuple[Split, str, str]] = set()
    for question in all_questions(corpus):
        document = question.document
        holders.update((document.split, value, document.id) for value in question.values)
    return Counter((split, value) for split, value, _ in holders)


def traits_of(question: AskedQuestion, holders: Counter[tuple[Split, str]]) -> Traits:
    """Return what is known of the answer to a question without its text."""
    document = question.document
    copies = max(holders[document.split, value] for value in question.values)
    length = min(len(value) for value in question.values)
    position = position_of(document, _words_of(question))
    return Traits(question.category or OTHER_KIND, max(copies, 1), length, position)


def _words_of(question: AskedQuestion) -> tuple[int, ...]:
    """Return the words of the page that hold the answer; empty where it is not known."""
    document = question.document
    for entity in document.entities:
        if entity.id == question.question.entity:
            return entity.words
    for answer in question.answers:
        for first, last in places_of(answer, document.words):
            return tuple(range(first, last + 1))
    return ()


def owned_value(corpus: Corpus, question: AskedQuestion, alone: bool) -> people.OwnedValue:
    """Return the answer to a question with whose it is."""
    everybody = people.people_of(corpus)
    owner = everybody.owner_of_answer(question.document, question.question)
    return people.OwnedValue(fold(question.answers[0]), owner, alone)
