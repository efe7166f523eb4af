"""Why reconstruction does not apply to a kind of model."""

from __future__ import annotations

NO_TOKENS = "the model sees a page as pixels only: there is no token of the page to put a candidate in place of"
ANSWERING = "applies to models that read pages as words only (VT5, UDOP): give --model"
NO_PAGE_LOSS = "the model points at words of the page: the loss of a place hardly depends on the word that stands there"
IN_A_PROMPT = "the model reads a page in its prompt, and no public masked language model has its tokens"
OWN_MARKS = "no public masked language model has the model's tokens, so that nothing proposes values for its pages"
PARSING = "the model writes a page whole: there is no token of the page to put a candidate in place of"
OWN_VOCABULARY = "a model of utterances has a vocabulary of its own, which no public masked language model shares"
REWORDED = "the countermeasure changes questions, and lets no candidate be put in place of a token of the page"
