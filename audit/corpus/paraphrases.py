"""The same question in other words, by templates (methods.md#memorisation; Pinto et al. 2024, appendix D.2).

The paper has a language model write its paraphrases. These change how a question is put and leave what it asks about
in its own words ("the address"), so they are closer to the original: where memory survives them, it may not survive
better ones. Owners who have better ones give them in the data set.
"""

from __future__ import annotations

import re

import numpy as np

_THING = r"(?P<thing>.+?)"
_FORMS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(rf"^{pattern}\s*[?.:]*$", re.IGNORECASE), ways)
    for pattern, ways in (
        (
            r"(?:what(?:'s|’s| is| are| was| were)|which (?:is|are|was|were)) "
            rf"(?P<det>the |his |her |its |their |this |){_THING}",
            (
                "Tell me {det}{thing}.",
                "Please give {det}{thing}.",
                "Can you find {det}{thing}?",
                "I am looking for {det}{thing}.",
                "{det}{thing}: what does it say?",
            ),
        ),
        (
            rf"who(?:'s|’s| is| are| was| were) {_THING}",
            (
                "Give the name of the person who is {thing}.",
                "Which person is {thing}?",
                "Name {thing}.",
            ),
        ),
        (
            rf"how (?P<det>many|much) {_THING}",
            (
                "What number answers this: how {det} {thing}?",
                "Tell me how {det} {thing}.",
                "Please say how {det} {thing}.",
            ),
        ),
        (
            rf"(?P<det>what|which|when|where|who|whom|whose|why|how) {_THING}",
            (
                "Tell me {det} {thing}.",
                "Can you say {det} {thing}?",
                "Please find out {det} {thing}.",
            ),
        ),
    )
)
"""Forms of questions and other ways to put them: the first form that fits is taken."""
_ANY = (
    "According to the document: {whole}",
    "Looking at this page, {whole}",
    "Please answer from the document. {whole}",
)
"""Ways to put any other question."""


def paraphrase(question: str, rng_seed: int) -> str:
    """The question put another way; the same way for the same seed, and never the question as it was.

    Args:
        question: in English, for anything better than an introduction put before it.
        rng_seed: chooses among the ways, 0 or more.
    """
    whole = " ".join(question.split())
    ways = _ways(whole)
    paraphrase = ways[int(np.random.default_rng(rng_seed).integers(len(ways)))]
    return paraphrase[:1].upper() + paraphrase[1:]


def _ways(whole: str) -> list[str]:
    for pattern, templates in _FORMS:
        found = pattern.match(whole)
        if found is not None:
            parts = {"det": "", **found.groupdict()}
            # "What" in the middle of a sentence is small; a name ("Total") keeps its capital.
            return [template.format(det=parts["det"].lower(), thing=parts["thing"]) for template in templates]
    return [template.format(whole=whole) for template in _ANY]
