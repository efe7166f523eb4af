"""Assignment of documents to splits by provider: what asking after a provider needs (methods.md#provider-membership).

A provider that is *in* has members, and documents kept aside that the attacker holds; one that is *out* has kept-aside
documents alone. Providers are drawn at random, and how many documents one keeps aside depends on how many it has, never
on the draw: nothing but the model distinguishes the two.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from audit.corpus.documents import Split
from audit.corpus.folding import fold
from audit.corpus.providers import punctuation_twins
from audit.errors import UsageError
from audit.importers.splits import check_shares, quotas

WITHOUT_NAMES = "leave out --by-provider: it needs sources that name the provider of each document"


@dataclass(frozen=True)
class ByProvider:
    """How the documents of a provider are divided.

    Attributes:
        kept_aside: at most so many are kept aside, of half of them (ours): both what the model is trained on and what
            the attacker holds should represent the provider. Documents that belong together (equal images, pages of one
            document) count once. None: half of them, rounded down.

    Raises:
        UsageError: fewer than one is to be kept aside.
    """

    kept_aside: int | None = None

    def __post_init__(self) -> None:
        if self.kept_aside is not None and self.kept_aside < 1:
            raise UsageError(f"{self.kept_aside} documents kept aside of each provider: at least 1 is needed")

    def n_kept_aside(self, n_documents: int) -> int:
        """Of how many of a provider's `n_documents` (2 or more) the attacker is given: from 1 to `n_documents` - 1."""
        half = n_documents // 2
        return half if self.kept_aside is None else min(half, self.kept_aside)


@dataclass(frozen=True)
class ProviderDraw:
    """Documents divided by provider.

    Attributes:
        splits: the split of each document that got one.
        notes: counts of providers and documents, for the import report; no name.
    """

    splits: Mapping[str, Split]
    notes: Mapping[str, int]


def check_provider_shares(shares: Mapping[Split, float]) -> None:
    """Refuse shares that leave nobody in or nobody out.

    Raises:
        UsageError: as `splits.check_shares`, or member or heldout has no share.
    """
    check_shares(shares)
    if not (shares.get("member") and shares.get("heldout")):
        raise UsageError(
            "a division by provider needs providers in and providers out", "give --member and --heldout a share each"
        )


def divide_by_provider(
    groups: Iterable[Collection[str]],
    providers: Mapping[str, str | None],
    shares: Mapping[Split, float],
    seed: int,
    rule: ByProvider,
) -> ProviderDraw:
    """Draw providers in, out and public, and within a provider the documents that are kept aside.

    Names that differ in case or spacing only (`folding.fold`) are one provider. In no split are: the documents of a
    provider that is out beyond those kept aside (public ones train reference models, which must not have seen whom the
    attacker asks after); documents without a provider, who may be anyone's; and groups that hold documents of two
    providers, which would be trained on as one's and held out as the other's.

    A provider with fewer than two groups cannot keep one aside and be trained on, so it is *unusable*: public when
    public has a share, else in no split. The order of the input has no influence, and which documents a provider keeps
    aside follows from the seed, its name and its documents alone.

    Args:
        groups: ids of documents that belong together (equal images, pages of one document), each in one group; a
            document on its own is a group of one.
        providers: the name of each document's provider, as the source spells it; None where it has none.
        shares: of all providers: member those in, heldout those out, public the rest that is used. Unusable providers
            count for public first; where they are more than its share, the usable ones are divided in the proportion of
            the other shares. What the shares leave over goes into no split.
        seed: of the draws.
        rule: how many documents are kept aside.

    Raises:
        UsageError: as `check_provider_shares`; no document names a provider; or nobody would be in, or out.
    """
    check_provider_shares(shares)
    names = {document: fold(name) for document, name in providers.items() if name is not None}
    if not names:
        raise UsageError("no document names a provider", WITHOUT_NAMES)
    owned, shared = _by_owner(groups, names)
    usable = sorted(name for name, own in owned.items() if len(own) > 1)
    unusable = sorted(owned.keys() - set(usable))
    quota_of = _provider_quotas(len(usable), len(unusable), shares)
    random.Random(seed).shuffle(usable)
    drawn: dict[Split, list[str]] = {}
    for split, n in quota_of.items():
        drawn[split], usable = usable[:n], usable[n:]
    if shares.get("public"):
        drawn["public"] += unusable
    aside = {name: _kept_aside(name, owned[name], seed, rule) for name in (*drawn["member"], *drawn["heldout"])}
    splits: dict[str, Split] = {d: "public" for name in drawn["public"] for group in owned[name] for d in group}
    splits |= {d: "member" for name in drawn["member"] for group in owned[name] for d in group}
    splits |= {document: "heldout" for documents in aside.values() for document in documents}
    notes = {
        "providers in": len(drawn["member"]),
        "providers out": len(drawn["heldout"]),
        "providers public": len(drawn["public"]),
        "providers left out": len(owned) - sum(map(len, drawn.values())),
        "unusable providers (fewer than two different documents; public or left out)": len(unusable),
        "documents kept aside of providers in": sum(len(aside[name]) for name in drawn["member"]),
        "documents kept aside of providers out": sum(len(aside[name]) for name in drawn["heldout"]),
    }
    spellings = set(providers.values()) - {None}
    rare = {
        "documents without a provider, in no split": len(providers) - len(names),
        "documents that belong to two providers, in no split": shared,
        "provider names that differ from another in case or spacing only": len(spellings) - len(set(names.values())),
        "provider names that differ from another in punctuation only, taken as others": punctuation_twins(owned),
    }
    return ProviderDraw(splits, notes | {note: count for note, count in rare.items() if count})


def _by_owner(
    groups: Iterable[Collection[str]], names: Mapping[str, str]
) -> tuple[dict[str, list[tuple[str, ...]]], int]:
    """The groups of each provider that has any of its own, sorted, and how many documents several providers share."""
    owned: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    shared = 0
    for group in groups:
        named = tuple(sorted(document for document in group if document in names))
        owners = {names[document] for document in named}
        if len(owners) == 1:
            owned[owners.pop()].append(named)
        else:
            shared += len(named)
    return {name: sorted(own) for name, own in owned.items()}, shared


def _provider_quotas(n_usable: int, n_unusable: int, shares: Mapping[Split, float]) -> dict[Split, int]:
    """How many usable providers are in, out and public; see `divide_by_provider`.

    Raises:
        UsageError: none would be in, or none out.
    """
    if n_usable < 2:
        raise UsageError(
            f"{n_usable} of {n_usable + n_unusable} providers have two different documents or more: "
            "one must be in and one out",
            "leave out --by-provider, or import more documents",
        )
    sizes = quotas(n_usable + n_unusable, shares)
    n_public = sizes["public"] - n_unusable
    if n_public < 0:
        n_public = 0
        others = 1 - shares.get("public", 0.0)
        sizes = quotas(n_usable, {"member": shares["member"] / others, "heldout": shares["heldout"] / others})
    n_in, n_out = sizes["member"], sizes["heldout"]
    if not (n_in and n_out):
        raise UsageError(
            f"of {n_usable} providers with two different documents or more, these shares make {n_in} in and {n_out} "
            "out: at least one of each is needed",
            "raise the smaller of --member and --heldout, or lower --public",
        )
    return {"member": n_in, "heldout": n_out, "public": n_public}


def _kept_aside(name: str, groups: list[tuple[str, ...]], seed: int, rule: ByProvider) -> list[str]:
    """The documents that a usable provider keeps aside, whether it is in or out."""
    chosen = random.Random(f"{seed}/{name}").sample(groups, rule.n_kept_aside(len(groups)))
    return [document for group in chosen for document in group]
