"""Decoders asked for people by name: who is asked for, what comes of it, and where names go.

No limit is held against it. A small GPT-2 that knows the names of its members is at the end.
"""

import json
from dataclasses import asdict, replace

import numpy as np
import planted
import pytest
import tiny
import torch
from attempts import measured, run
from test_reconstruction_planted import TODAY
from text_zoo import PLAIN_PROMPT, byte_tokenizer
from transformers import GPT2Config, GPT2LMHeadModel

from audit import policy as policies
from audit.attacks import TEXTS
from audit.attacks.membership import MembershipInference, by_name
from audit.case import Case, References
from audit.corpus.documents import (
    Corpus,
    Document,
    Entity,
    Manifest,
    Membership,
    Question,
    Task,
    Word,
)
from audit.corpus.images import PageView
from audit.measurements import Estimate, Unresolved
from audit.report.html import html
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample
from audit.targets.interface import AnswerLoss, PageEndLoss, RowLoss
from benchmarks.calibration.simulated_audits import completed

SYLLABLES = ("ka", "lo", "mir", "ten", "var", "sol", "ber", "nid", "fa", "gru", "hol", "wick")
MEASURED = (
    "by_name_auc",
    "by_name_auc.pretrained",
    "recognised_by_name.member",
    "recognised_by_name.heldout",
)


def page(name, split, *people, person=None):
    """Make a page that names people, each behind the words of a form, with another question."""
    words = []
    entities = []
    for number, full in enumerate(people):
        words += ["Request", "of"]
        places = tuple(range(len(words), len(words) + len(full.split())))
        words += full.split()
        entities.append(Entity(f"e{number}", "PERSON", "person", places))
    asked = (Question("q", "Which day?", ("Monday",)),)
    return Document(
        name,
        split,
        words=tuple(map(Word, words)),
        entities=tuple(entities),
        questions=asked,
        person=person,
    )


def corpus_of(*documents):
    manifest = Manifest(1, "people", Task("question-answering"), Membership("random"))
    return Corpus(None, manifest, documents, "0" * 64)


def names(count, seed=0):
    """Draw different full names."""
    rng = np.random.default_rng(seed)
    drawn = {}
    while len(drawn) < count:
        parts = ["".join(rng.choice(SYLLABLES, 2)).capitalize() for _ in range(2)]
        drawn[" ".join(parts)] = None
    return [*drawn]


def one_a_page(n_member, n_heldout):
    """Make a data set with a person on each page."""
    splits = ["member"] * n_member + ["heldout"] * n_heldout
    drawn = names(len(splits))
    documents = [
        page(f"d{number}", split, name)
        for number, (split, name) in enumerate(zip(splits, drawn, strict=True))
    ]
    return corpus_of(*documents)


class Naming:
    """A decoder that finds some names likelier than others of its kind do.

    Attributes:
        known: these names.
        behind: words on a page behind which it does; None: behind any, and as an answer too.
    """

    answers = frozenset({AnswerLoss, RowLoss, PageEndLoss})

    def __init__(self, known=(), behind=None, seed=0):
        self.card = planted.card("question-answering")
        self.known = frozenset(known)
        self.behind = behind
        self.seed = seed
        self.asked = []

    def ask(self, queries):
        self.asked += queries
        return [self.losses(query) for query in queries]

    def losses(self, query):
        """Return token losses: of a name its own for all models, with noise of each model's own."""
        words = " ".join(word.text for word in query.view.words)
        place = f"{words} {query.question} {query.answer}"
        own = np.random.default_rng([*query.answer.encode()]).normal()
        noise = 0.3 * np.random.default_rng([self.seed, *place.encode()]).normal()
        known = query.answer in self.known and self.behind in (None, words)
        loss = own + noise - 9 + 3 * known
        if isinstance(query, PageEndLoss):
            return np.array([loss])
        return np.array([loss, -99.0])


class Reading(Naming):
    """A model that answers, and is no decoder of text."""

    answers = frozenset({AnswerLoss})


def case(target, corpus, pretrained=None):
    return Case(target, corpus, References(pretrained=pretrained))


def asked_names(target):
    """Return the names that a model was asked for, at the end of pages."""
    return {query.answer for query in target.asked if isinstance(query, PageEndLoss)}


def known_of(corpus, count):
    """Return the names on the first members' pages."""
    return [document.text_of(document.entities[0]) for document in corpus.of("member")[:count]]


# Who is asked for


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Ada Bell", True),
        ("Ms Bell", False),
        ("Dr. Bell", False),
        ("A. Bell", False),
        ("Bell", False),
        ("Ada Cora Bell", False),
    ],
)
def test_a_full_name_has_no_title_and_no_initial(name, expected):
    assert by_name.is_full_name(name) is expected


def test_people_of_both_sides_are_not_asked_for_and_of_those_on_a_page_one_is():
    corpus = corpus_of(
        page("a", "member", "Ada Bell", "Cora Dunn"),
        page("b", "member", "Cora Dunn", "Eva Frey"),
        page("c", "member", "Gil Hart", "Ida Jung"),
        page("d", "heldout", "Ida Jung", "Ms Kerr"),
        page("e", "heldout", "Lea Munk"),
    )
    asked = by_name.people_asked_for(corpus)
    assert {name: person.name for name, person in asked.items() if name in "ce"} == {
        "c": "Gil Hart",
        "e": "Lea Munk",
    }
    others = [person for name, person in asked.items() if name not in "ce"]
    assert [person.side for person in others] == ["member"]


def test_declared_people_are_asked_for_by_their_names():
    corpus = corpus_of(
        page("a", "member", "Ada Bell", person="p1"),
        page("b", "member", "Ada Bell", person="p1"),
        page("c", "heldout", "Cora Dunn", person="p2"),
        page("d", "member", "Cora Dunn", person="p3"),
    )
    asked = by_name.people_asked_for(corpus)
    assert {person.name for person in asked.values()} == {"Ada Bell"}, "a namesake is no one's"


def test_names_that_answer_questions_count():
    documents = [
        replace(
            page("a", "member"),
            questions=(Question("q", "Who?", ("Ada Bell",), category="person"),),
        )
    ]
    asked = by_name.people_asked_for(corpus_of(*documents))
    assert [person.name for person in asked.values()] == ["Ada Bell"]


# What is asked


def test_prompts_are_the_documents_own_words_then_general_ones():
    corpus = one_a_page(4, 4)
    first, asked, *general = by_name.prompts_of(corpus)
    assert first == by_name.Prompt(("Request", "of"))
    assert asked == by_name.Prompt(question=by_name.ASKED)
    assert [" ".join(prompt.words) for prompt in general] == [*by_name.GENERIC]


def test_words_of_one_side_alone_are_no_prompt():
    whole = one_a_page(4, 4)
    written = []
    for document in whole.documents:
        first = "Order" if document.split == "member" else "Form"
        words = (Word(first), Word(first.lower()), *document.words[2:])
        written.append(replace(document, words=words))
    prompts = by_name.prompts_of(replace(whole, documents=tuple(written)))
    assert prompts[0].question == by_name.ASKED


def test_a_question_for_names_is_asked_in_the_data_sets_own_words():
    whole = one_a_page(2, 2)
    asked = Question("who", "Who signed here?", ("Ada Bell",), category="person")
    documents = tuple(replace(item, questions=(asked,)) for item in whole.documents)
    (prompt,) = [
        item for item in by_name.prompts_of(corpus_of(*documents)) if item.question is not None
    ]
    assert prompt.question == "Who signed here?"


# What comes of it


@pytest.mark.parametrize("k", [0, 30, 60])
def test_the_people_whose_names_are_known_are_recognised(k):
    corpus = one_a_page(60, 60)
    target = Naming(known_of(corpus, k))
    _, _, result = run(MembershipInference(), case(target, corpus, Naming(seed=1)))
    by = {item.name: item for item in result.measurements}
    assert {*MEASURED} <= by.keys() & TEXTS["membership"].known
    assert by["recognised_by_name.heldout"].value <= 0.1
    assert by["recognised_by_name.member"].value == pytest.approx(k / 60, abs=0.15)
    assert by["by_name_auc"].value == pytest.approx(0.5 + k / 120, abs=0.12)
    assert by["by_name_auc.pretrained"].low <= 0.5 <= by["by_name_auc.pretrained"].high
    (people,) = [item for item in result.people if item.method == ".by_name"]
    assert (people.source, people.member) == ("names", by["recognised_by_name.member"])


def test_what_the_pretrained_model_knows_too_is_no_finding():
    corpus = one_a_page(60, 60)
    known = known_of(corpus, 60)
    _, _, result = run(MembershipInference(), case(Naming(known), corpus, Naming(known, seed=1)))
    area = measured(result, "by_name_auc")
    assert area.low <= 0.5 <= area.high
    assert measured(result, "by_name_auc.pretrained").low > 0.5, "the control says so"


def test_a_name_behind_one_prompt_alone_is_found():
    corpus = one_a_page(60, 60)
    target = Naming(known_of(corpus, 60), "Request of")
    _, _, result = run(MembershipInference(), case(target, corpus, Naming(seed=1)))
    assert measured(result, "by_name_auc").low > 0.8


def test_few_people_leave_it_unresolved():
    corpus = one_a_page(60, 3)
    _, _, result = run(MembershipInference(), case(Naming(), corpus, Naming(seed=1)))
    for name in MEASURED:
        assert isinstance(measured(result, name), Unresolved)


# When it is asked


@pytest.mark.parametrize(
    ("attack", "target", "pretrained"),
    [
        (MembershipInference.preset("quick"), Naming(), Naming(seed=1)),
        (MembershipInference(), Naming(), None),
        (MembershipInference(), Reading(), Reading(seed=1)),
    ],
)
def test_nobody_else_is_asked_for(attack, target, pretrained):
    attacked = case(target, one_a_page(20, 20), pretrained)
    _, outcomes, result = run(attack, attacked)
    assert not asked_names(target)
    assert not any("by_name" in outcome for outcome in outcomes)
    assert not {*MEASURED} & {item.name for item in result.measurements}


def test_the_record_has_its_parameter_where_names_are_asked_for():
    attack = MembershipInference()
    corpus = one_a_page(4, 4)
    assert attack.parameters_on(case(Naming(), corpus, Naming()))["n_prompts"] == 8
    assert "n_prompts" not in attack.parameters_on(case(Reading(), corpus, Reading()))
    assert MembershipInference.preset("standard").n_prompts == 8


# Where it goes


def remembering():
    """Return a case whose target knows every member's name, and these names."""
    corpus = one_a_page(40, 40)
    known = known_of(corpus, 40)
    return case(Naming(known), corpus, Naming(seed=1)), known


def test_no_name_is_in_outcomes_record_or_report():
    asked, known = remembering()
    _, outcomes, result = run(MembershipInference(), asked)
    shown = html(*judged(completed("membership", result)), policies.load("default"))
    assert "People by name" in shown
    for place in (shown, json.dumps(outcomes), json.dumps(asdict(result), default=str)):
        assert not [name for name in known if name in place]


def test_the_evidence_has_the_names_and_who_was_recognised():
    asked, known = remembering()
    attack = MembershipInference()
    trials, outcomes, _ = run(attack, asked)
    items = [item for item in attack.evidence(asked, trials, outcomes) if isinstance(item, dict)]
    rows = [item for item in items if "recognised" in item and item["split"] == "member"]
    assert {row["asked_by_name"] for row in rows} == {*known}
    assert all(row["recognised"] for row in rows)


def judged(result):
    """Hold a record of a decoder against the default policy."""
    record = tiny.record(result)
    record = replace(record, target=replace(record.target, task="question-answering"))
    return record, policies.evaluate(record, policies.load("default"), TODAY)


def test_no_decision_changes_by_it():
    corpus = one_a_page(60, 60)
    asked = case(Naming(known_of(corpus, 60)), corpus, Naming(seed=1))
    _, _, result = run(MembershipInference(), asked)
    _, _, without = run(MembershipInference.preset("quick"), asked)
    verdicts = [judged(completed("membership", each))[1] for each in (result, without)]
    outcomes = [
        [(item.limit.metric, item.outcome) for item in verdict.decisions] for verdict in verdicts
    ]
    assert outcomes[0] == outcomes[1]
    assert verdicts[0].exit_code == verdicts[1].exit_code


# A small GPT-2


def learned(folder, samples, seed, steps):
    """Train a GPT-2 of two layers on samples, from a start that knows none of them."""
    words = byte_tokenizer()
    torch.manual_seed(0)
    quiet = dict.fromkeys(("resid_pdrop", "attn_pdrop", "embd_pdrop"), 0.0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **sizes, **quiet, **ids))
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    batch = dict(load_answering(folder, prompt=PLAIN_PROMPT).reader.taught(samples))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    torch.manual_seed(seed)
    for _ in range(steps):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return load_answering(folder, prompt=PLAIN_PROMPT)


def lines_of(people):
    """Make samples of pages that name people, whose every token is learned."""
    pages = [PageView((*map(Word, f"Request of {name}".split()),)) for name in people]
    return [Sample(view, "Day?", "Monday", whole=True) for view in pages]


@pytest.mark.slow
def test_a_gpt2_that_learned_its_members_gives_their_names_away_and_another_does_not(
    tmp_path,
):
    corpus = one_a_page(24, 24)
    members = known_of(corpus, 24)
    start = learned(tmp_path / "start", lines_of(names(24, seed=8)), 0, 40)
    knowing = learned(tmp_path / "knowing", lines_of(members), 1, 120)
    other = learned(tmp_path / "other", lines_of(names(24, seed=9)), 1, 120)
    found = {}
    for name, target in {"knowing": knowing, "other": other}.items():
        _, _, result = run(MembershipInference(), case(target, corpus, start))
        found[name] = measured(result, "by_name_auc")
        assert isinstance(found[name], Estimate)
    assert found["knowing"].value > 0.8
    assert found["knowing"].low > 0.6
    assert found["other"].low < 0.5
    assert found["other"].value < 0.7
