"""Questions in other words, by templates.

See methods/memorisation.md#contexts; Pinto et al. 2024, appendix D.2. The paper has a language
model write its paraphrases. These change how a question is put and leave what it asks about in its
own words ("the address"), so they are closer to the original: where memory survives them, it may
not survive better ones. Owners who have better ones give them in the data set.
"""

import re

import numpy as np

from audit.files import table_beside

_TEXTS = table_beside(__file__, "paraphrases.toml")
_FORMS = [
    (re.compile(rf"^{form['pattern']}\s*[?.:]*$", re.IGNORECASE), form["ways"])
    for form in _TEXTS["forms"]
]


def paraphrase(question: str, rng_seed: int) -> str:
    """Put a question another way; the same way for the same seed, and never the question as it was.

    Args:
        question: question in English, for anything better than an introduction put before it.
        rng_seed: chooses among the ways, 0 or more.
    """
    whole = " ".join(question.split())
    matches = ((pattern.match(whole), ways) for pattern, ways in _FORMS)
    match, ways = next((pair for pair in matches if pair[0]), (None, _TEXTS["introductions"]))
    # "What" in the middle of a sentence is small; a name ("Total") keeps its capital.
    parts = {"det": "", "whole": whole, **(match.groupdict() if match else {})}
    chosen: str = ways[int(np.random.default_rng(rng_seed).integers(len(ways)))]
    paraphrase = chosen.format_map({**parts, "det": parts["det"].lower()})
    return paraphrase[:1].upper() + paraphrase[1:]
