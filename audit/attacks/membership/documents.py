"""Documents that the attack scores, and what it asks of a model about each.

A masked language model has no one loss of a page: it depends on the mask. Mireshghallah et al. 2022
("Quantifying privacy risks of masked language models using membership inference attacks", EMNLP)
average over fixed masks, and compare the target with a reference model under the same ones.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from audit.arrays import Floats
from audit.attacks.interface import AUDITED, Attack, ask, ask_all, loss_kind
from audit.attacks.text import SENTENCES
from audit.cards import Forgotten
from audit.case import Case
from audit.corpus.canaries.schema import carrier_ids, planted_ids
from audit.corpus.documents import Corpus, Document, Membership, Question, Split
from audit.corpus.folding import fold
from audit.corpus.images import PageView, page_view
from audit.corpus.near_copies import copies_among
from audit.engine.interface import Json, Request
from audit.errors import UsageError, listed, printable
from audit.importers.named import read_names
from audit.stats.likelihood_ratio import logit_confidence
from audit.stats.power import certified
from audit.targets.encoded_page import Encoding
from audit.targets.interface import (
    AnswerLoss,
    MaskedLoss,
    RowLoss,
    Target,
    TokenTarget,
    TrainingLoss,
)

CALIBRATING = ("baselines", "pretrained", "auxiliary")
"""References, best first.

Baselines know what the target's recipe makes of documents like these, the pretrained model what it
began as; the public model serves a masked language model for which neither was given."""
NO_REFERENCE = (
    "no model to compare with that never saw the documents (baselines, or the pretrained model)"
)
NOT_COMPARED = "no counterpart of the same provider"
PLANTED = "canary"
REASONS = ("no question", "nothing to read", NOT_COMPARED, PLANTED)
"""Why a document is not scored."""
MOST_NAMED = 8
"""Documents that a warning names."""


def reference_of(case: Case) -> tuple[str, tuple[Target, ...]]:
    """Return the role and the models of the reference that the target's loss is compared with.

    They are the first of `CALIBRATING`. Only models that can be asked what the target is asked: a
    checkpoint without the head gives no such loss. "" and none where there is none.
    """
    target_kind = loss_kind(case.target)
    for role, candidates in references_by_role(case).items():
        models = tuple(model for model in candidates if loss_kind(model) == target_kind)
        if models:
            return role, models
    return "", ()


def references_by_role(case: Case) -> dict[str, tuple[Target, ...]]:
    """Return the references of each role in `CALIBRATING`, in its order.

    None where the audit has none of a role.
    """
    references = case.references
    candidates: dict[str, Sequence[Target | None]] = {
        "baselines": references.baselines,
        "pretrained": [references.pretrained],
        "auxiliary": [references.auxiliary],
    }
    models = {}
    for role in CALIBRATING:
        models[role] = tuple(model for model in candidates[role] if model is not None)
    return models


def name_unusable_references(case: Case, reason: str) -> str:
    """Add to a reason for a missing reference why the references that were given do not count."""
    return "; ".join([reason, *case.references.uncounted])


def select_compared(corpus: Corpus) -> tuple[Document, ...]:
    """Select the member and held-out documents that are compared, in file order.

    A model may read them or not. All of them; but where the data set was assigned by provider, of
    every provider (names folded) as many members as held-out documents, the others left out. Which
    documents of a provider trained on were kept aside was drawn; which provider has many was not,
    and a provider with more members than held-out documents would make its looks and its low loss a
    sign of membership. Documents that hold a canary are left out, and those whose pages these are.
    """
    documents = without_canaries(corpus, corpus.of(*AUDITED))
    if corpus.manifest.membership.assigned != "by-provider":
        return documents
    owned: dict[str, dict[Split, list[Document]]] = defaultdict(lambda: defaultdict(list))
    for document in documents:
        if document.provider is not None:
            owned[fold(document.provider)][document.split].append(document)
    chosen: set[str] = set()
    for sides in owned.values():
        count = min(len(sides[split]) for split in AUDITED)
        chosen.update(*(first_by_name(sides[split], count) for split in AUDITED))
    return tuple(document for document in documents if document.id in chosen)


def without_canaries(corpus: Corpus, documents: Sequence[Document]) -> tuple[Document, ...]:
    """Keep the documents that hold no canary, and whose pages carry none."""
    planted = planted_ids(corpus) | carrier_ids(corpus)
    return tuple(document for document in documents if document.id not in planted)


def select_forgotten(whole: Corpus, path: Path) -> tuple[Corpus, frozenset[str], tuple[str, ...]]:
    """Leave out the members that the model may know, and what it may know from them.

    That is their copies, and canaries. No lot chose the listed documents, whatever chose the
    members; a split by provider compares within providers.

    Args:
        whole: the data set.
        path: names the members that the model was to forget.

    Returns:
        The data set, the listed ids, and warnings.

    Raises:
        UsageError: the file names no document, one that is no member, or none that can be tested.
    """
    listed_ids = _read_members(whole, path)
    gone = _perhaps_known(whole, listed_ids)
    lost = sorted(listed_ids & gone)
    names = f"{listed(lost[:MOST_NAMED], 'and')}{', ...' * (len(lost) > MOST_NAMED)}"
    warning = SENTENCES["may_know"].format(n=len(lost), all=len(listed_ids), named=names)
    if len(lost) == len(listed_ids):
        raise UsageError(f"--ids {path}: {warning}", SENTENCES["name_members"])
    documents = tuple(document for document in whole.documents if document.id not in gone)
    corpus = replace(without_lot(whole), documents=documents)
    return corpus, listed_ids, (warning,) if lost else ()


def _read_members(corpus: Corpus, path: Path) -> frozenset[str]:
    """Read a file that names members of a data set.

    Raises:
        UsageError: the file names no document, or one that is no member.
    """
    names = read_names(path, "--ids")
    split_of = {document.id: document.split for document in corpus.documents}
    wrong = {place: name for place, name in enumerate(names, 1) if split_of.get(name) != "member"}
    if wrong:
        place, first = next(iter(wrong.items()))
        problem = SENTENCES["not_members"].format(
            path=path,
            split=split_of.get(first, "in no split"),
            n=len(wrong),
            all=len(names),
            place=place,
            first=printable(first),
        )
        raise UsageError(problem, SENTENCES["name_members"])
    return frozenset(names)


def _perhaps_known(corpus: Corpus, listed_ids: frozenset[str]) -> set[str]:
    """Return the ids of the documents that the model may know although it forgot the listed ones.

    These are the other members, the documents whose copies are among these, and canaries.
    """
    remaining = {document.id for document in corpus.of("member")} - listed_ids
    ids = remaining | planted_ids(corpus) | carrier_ids(corpus)
    for pair in copies_among(corpus, corpus.of(*AUDITED)):
        if not remaining.isdisjoint(pair):
            ids.update(pair)
    return ids


def without_lot(corpus: Corpus) -> Corpus:
    """Return the data set with a manifest which says that no lot chose the members.

    A split by provider stays one, as it compares within providers.
    """
    membership = corpus.manifest.membership
    if membership.assigned != "by-provider":
        membership = Membership("official")
    return replace(corpus, manifest=replace(corpus.manifest, membership=membership))


def describe_forgotten(ids: frozenset[str], attacks: Sequence[Attack], corpus: Corpus) -> Forgotten:
    """Describe a list of documents, with the smallest limits that they can show.

    These are computed as `docaudit plan` computes them.
    """
    digest = hashlib.sha256("".join(f"{name}\n" for name in sorted(ids)).encode()).hexdigest()
    smallest = {}
    for attack in attacks:
        for units in attack.units(corpus):
            if min(units.members, units.others) and "." not in units.metric:
                limit = certified(units.kind, units.members, units.others)
                smallest[units.metric] = limit
    return Forgotten(len(ids), digest, smallest)


def count_left_out(case: Case) -> Counter[str | None]:
    """Count member and held-out documents that are left out, by reason (one of `REASONS`).

    Under None those tried.
    """
    together = select_compared(case.corpus)
    numbers = Counter(left_out(case, document) for document in together)
    audited = case.corpus.of(*AUDITED)
    ordinary = len(without_canaries(case.corpus, audited))
    numbers[NOT_COMPARED] = ordinary - len(together)
    numbers[PLANTED] = len(audited) - ordinary
    return +numbers


def left_out(case: Case, document: Document) -> str | None:
    """Return why a document cannot be scored (one of `REASONS`); None when it can."""
    kind = loss_kind(case.target)
    if kind == "answers":
        return None if answered_questions(document) else "no question"
    if kind == "masks":
        return None if maskable(case.target, document) is not None else "nothing to read"
    page = case.token_target.encode(document)
    return None if page is not None and page.has_loss else "nothing to read"


def first_by_name(documents: Sequence[Document], count: int) -> frozenset[str]:
    """Choose the ids of `count` documents by hashes of their ids alone."""
    ordered = sorted(documents, key=lambda document: hashlib.sha256(document.id.encode()).digest())
    return frozenset(document.id for document in ordered[:count])


def choose_readable(case: Case, documents: Sequence[Document], count: int) -> list[Document]:
    """Choose at most `count` documents by their ids alone.

    Canaries, and documents that give no loss, are left out.
    """
    ordinary = without_canaries(case.corpus, documents)
    chosen = first_by_name(ordinary, count)
    return [
        document
        for document in ordinary
        if document.id in chosen and left_out(case, document) is None
    ]


def query_document(
    case: Case, model: Target, document: Document, n_masks: int, *, whole: bool = False
) -> Generator[Request, Any, Json]:
    """Ask a model for its loss of a document; used with `yield from`.

    Args:
        case: the audit.
        model: any of its models.
        document: what is asked about.
        n_masks: number of masks, see `masks_of`.
        whole: whether to ask for "row" too, where the model gives it.

    Returns:
        "loss", the training loss in nats; "logit", that of the confidence exp(-loss); "row", the
        loss of page, question and answer together, else None: means over the document's questions.
        None when the model cannot read the document, reads other tokens than the target masks, or
        gives no finite loss.
    """
    row = None
    if loss_kind(model) == "answers":
        view = page_view(case.corpus, document)
        losses = yield from _query_answers(model, view, document, AnswerLoss)
        if whole and RowLoss in model.answers:
            rows = yield from _query_answers(model, view, document, RowLoss)
            row = float(np.mean(rows))
    else:
        loss = yield from query_page(case, model, document, n_masks)
        losses = np.array([np.nan if loss is None else loss])
    if not np.isfinite([losses.mean(), row or 0.0]).all():
        return None
    return {
        "loss": float(losses.mean()),
        "logit": float(logit_confidence(losses).mean()),
        "row": row,
    }


def _query_answers(
    model: Target, view: PageView, document: Document, query: type[AnswerLoss] | type[RowLoss]
) -> Generator[Request, Any, Floats]:
    """Ask for the loss of each answered question of a document: (n_questions,), nats a token."""
    queries = [
        query(view, question.question, question.answers[0])
        for question in answered_questions(document)
    ]
    answers: list[Floats] = yield from ask_all(model, queries)
    return np.array([-tokens.mean() for tokens in answers])


def query_page(
    case: Case, model: Target, document: Document, n_masks: int
) -> Generator[Request, Any, float | None]:
    """Ask a model that reads pages for its training loss of a document, nats.

    With masks it is the mean over the hidden tokens of all masks. None when the model cannot read
    the page, or reads other tokens than the target masks.
    """
    if loss_kind(model) == "masks":
        page = maskable(case.target, document)
        if page is None:
            return None
        hidden = yield from masked_losses(model, document, page, n_masks)
        return None if hidden is None else float(hidden.mean())
    page = cast("TokenTarget", model).encode(document)
    if page is None or not page.has_loss:
        return None
    # The loss of the page as it is: a token in its own place.
    return float((yield from ask(model, TrainingLoss(page, 0, page.ids[:1])))[0])


def answered_questions(document: Document) -> list[Question]:
    """List the questions of a document that have an answer.

    Its first accepted one is what models are trained on.
    """
    return [question for question in document.questions if question.answers]


MASKED_SHARE = 0.15
"""Of a page's tokens that one mask hides: what masked language models are trained with (Devlin et
al. 2019)."""
N_MASKS = 14
"""Masks of a page: about every token is hidden twice."""


def maskable(model: Target, document: Document) -> Encoding | None:
    """Encode a document; return None where that leaves no token to hide."""
    page = cast("TokenTarget", model).encode(document)
    return page if page is not None and bool((page.words >= 0).any()) else None


def masks_of(document: str, page: Encoding, n_masks: int) -> list[tuple[int, ...]]:
    """Return the positions that each mask hides, sorted; special tokens are never hidden.

    The tokens of the page's words stand in one shuffled order, and each mask takes the next
    `MASKED_SHARE` of them, going round: seven masks hide every token once (ours; the paper draws
    every mask anew). The order follows from the document's id and the number of tokens alone, so
    that every model with one vocabulary sees the same masks.
    """
    word_tokens = np.flatnonzero(page.words >= 0)
    width = max(1, round(MASKED_SHARE * len(word_tokens)))
    digest = hashlib.sha256(document.encode()).digest()
    order = np.random.default_rng([*digest]).permutation(word_tokens)
    masks = []
    for start in range(0, n_masks * width, width):
        places = np.arange(start, start + width) % len(order)
        masks.append(tuple(sorted(order[places].tolist())))
    return masks


def masked_losses(
    model: Target, document: Document, page: Encoding, n_masks: int
) -> Generator[Request, Any, Floats | None]:
    """Ask for the loss of every hidden token, mask after mask: shape (n_masks * width,), nats.

    Used with `yield from`.

    Args:
        model: a masked language model.
        document: what is asked about.
        page: the document as the target reads it; the masks are drawn on it.
        n_masks: number of masks, see `masks_of`.

    Returns:
        None where the model reads other tokens than stand on `page`: their losses would not
        compare.
    """
    reread = maskable(model, document)
    if reread is None or not np.array_equal(reread.ids, page.ids):
        return None
    masks = masks_of(document.id, reread, n_masks)
    queries = [MaskedLoss(reread, positions) for positions in masks]
    answers: list[Floats] = yield from ask_all(model, queries)
    return np.concatenate(answers)
