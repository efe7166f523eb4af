"""Fields that a data set offers to reconstruction, what a scan attacked of them, and models it does not apply to."""

from __future__ import annotations

from collections import Counter

from audit.attacks.interface import AUDITED, Units, missing_split
from audit.attacks.reconstruction.table import ALL, LIMITED, METHODS
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold, occurrences

NO_TOKENS = "the model sees a page as pixels only: there is no token of the page to put a candidate in place of"
ANSWERING = "applies to models that read pages as words only (VT5, UDOP): give --model"
NO_PAGE_LOSS = "the model points at words of the page: the loss of a place hardly depends on the word that stands there"
IN_A_PROMPT = "the model reads a page in its prompt, and no public masked language model has its tokens"
OWN_MARKS = "no public masked language model has the model's tokens, so that nothing proposes values for its pages"
PARSING = "the model writes a page whole: there is no token of the page to put a candidate in place of"
OWN_VOCABULARY = "a model of utterances has a vocabulary of its own, which no public masked language model shares"
REWORDED = "the countermeasure changes questions, and lets no candidate be put in place of a token of the page"


def most_units(corpus: Corpus) -> tuple[Units, ...]:
    """Return documents with a field of each group, at most: only a model's tokenizer tells how many tokens one has."""
    seen = occurrences(corpus)
    documents: Counter[tuple[str, str]] = Counter()
    for document in corpus.of(*AUDITED):
        held: set[str] = set()
        for entity in document.entities:
            if entity.attack:
                held |= {"unique" if seen[fold(document.text_of(entity))].unique else "repeated", ALL}
        documents.update([(document.split, group) for group in held])
    return tuple(
        Units(
            metric,
            "difference",
            "documents",
            *(documents[split, metric.partition(".")[2]] for split in AUDITED),
            methods=len(METHODS),
        )
        for metric in LIMITED
    )


def lacking(corpus: Corpus) -> str | None:
    """That a split has no field to attack; None when both have."""
    marked = [one for one in corpus.of(*AUDITED) if any(entity.attack for entity in one.entities)]
    split = missing_split(marked)
    return None if split is None else f"no field to attack in {split} documents"


def no_public_model(corpus: Corpus) -> str | None:
    """That [references] names no public model, and nothing that one could be trained from; None when it does."""
    references = corpus.manifest.references
    if references.auxiliary is None and not corpus.of("public"):
        return "no auxiliary model in [references] and no public documents to train one on"
    if references.auxiliary is None and references.pretrained is None:
        return "needs --reference pretrained=PATH or auxiliary=PATH: [references] names neither"
    return None
