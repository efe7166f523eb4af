"""The providers of a data set and whom an attack can ask after, in numbers; what `docaudit inspect` says about them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from audit.corpus.documents import Corpus, Split
from audit.corpus.folding import fold

MAX_HALF_WIDTH = 0.05
"""Of balanced accuracy over providers, before `inspect` warns: 384 providers, half of them in, reach it."""


@dataclass(frozen=True)
class AskedProviders:
    """The providers of whom an attack can ask whether they were trained on (methods.md#provider-membership).

    A provider is in when one of its documents is a member; what is asked about are its held-out ones, kept aside.
    Names that differ in case or spacing only are one provider (`folding.fold`), here and everywhere.

    Attributes:
        n_in: providers in with documents kept aside.
        n_out: providers out with documents kept aside.
        unasked: providers in without one.
        also_public: of those with documents kept aside, the ones with public documents too.
    """

    n_in: int
    n_out: int
    unasked: int
    also_public: int

    @property
    def half_width(self) -> float:
        """Of a 95 % interval of balanced accuracy near 0.5, normal approximation; infinite without some of both."""
        if not (self.n_in and self.n_out):
            return math.inf
        return 1.96 * 0.25 * math.sqrt(1 / self.n_in + 1 / self.n_out)


def asked_providers(corpus: Corpus) -> AskedProviders:
    """Count the providers that an attack can ask after in this data set."""
    splits: dict[str, set[Split]] = defaultdict(set)
    for document in corpus.documents:
        if document.provider is not None:
            splits[fold(document.provider)].add(document.split)
    asked = [found for found in splits.values() if "heldout" in found]
    n_in = sum("member" in found for found in asked)
    unasked = sum("member" in found and "heldout" not in found for found in splits.values())
    return AskedProviders(n_in, len(asked) - n_in, unasked, sum("public" in found for found in asked))


def unnamed_members(corpus: Corpus) -> int:
    """Count the documents of training that name no provider."""
    return sum(not fold(document.provider or "") for document in corpus.of("member"))


def provider_warnings(corpus: Corpus) -> Iterator[str]:
    """Warn of all that limits an attack on providers; nothing for a data set that names none."""
    if all(document.provider is None for document in corpus.documents):
        return
    nameless = unnamed_members(corpus)
    if nameless:
        yield (
            f"{nameless} member documents name no provider: one that counts as out may be in, so that no limit on "
            "providers is passed. Name it for each."
        )
    asked = asked_providers(corpus)
    found = f"{asked.n_in} providers that are in and {asked.n_out} that are out have held-out documents"
    if not (asked.n_in and asked.n_out):
        yield f"{found}: whether a provider was trained on can be asked only where there are some of both."
    elif asked.half_width > MAX_HALF_WIDTH:
        yield (
            f"{found}: balanced accuracy over so few is known to {100 * asked.half_width:.0f} points either way; "
            "published effects are 6 to 17."  # methods.md#provider-membership
        )
    if corpus.manifest.membership.assigned == "by-provider" and asked.unasked:
        yield f"{asked.unasked} providers that are in have no held-out document and cannot be asked after."
    if corpus.manifest.membership.assigned == "by-provider" and asked.also_public:
        yield (
            f"{asked.also_public} providers with held-out documents have public ones too: what was trained on these is "
            "no reference for them."
        )
