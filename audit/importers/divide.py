"""Assignment of documents to splits: drawn by share, along a division, or by provider.

The division is the source's own or the owner's.

Documents that are alike (equal images or texts, pages of one document) stay together. By provider
(methods/provider-membership.md): one that is *in* has members, and documents kept aside that the
attacker holds; one that is *out* has kept-aside documents alone. Providers are drawn at random, and
how many documents one keeps aside depends on how many it has, never on the draw: nothing but the
model distinguishes the two.
"""

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from audit.corpus.documents import SPLITS, Split
from audit.corpus.folding import fold
from audit.corpus.images import decode, read_header
from audit.corpus.summary import MIN_DOCUMENTS, MIN_PUBLIC
from audit.errors import ManifestError, UsageError
from audit.importers.faults import NAMES
from audit.importers.files import TEXTS
from audit.importers.named import NamedMembers, find_named
from audit.importers.pages import Part
from audit.progress import steps
from audit.stats.intervals import join_groups

Shares = Mapping[Split, float]
DRAWN: Shares = {"member": 0.4, "heldout": 0.2, "public": 0.4}
"""Of a draw of a large source whose owner names no shares (ours); of smaller ones see
`usual_sizes`."""
SMALL_PUBLIC = 0.2
"""The most that is public of a source too small for a pass. Ours."""
Groups = Iterable[Collection[str]]
MUST = (
    "The audited model must have been trained on the {member} documents of split member, "
    "and on none of heldout."
)
WITHOUT_NAMES = "leave out --by-provider: it needs sources that name the provider of each document"
_OF_PART: Mapping[Part, tuple[Split, ...]] = {
    "train": ("member",),
    "validation": ("heldout", "public"),
    "public": (),
}
Rule = Literal["drawn", "official", "by-provider"] | NamedMembers
"""By what documents become members: a draw, the source's own parts, a draw of providers, or the
owner's word."""


def demands(rule: Rule, n_members: int, *, has_official: bool) -> tuple[str, ...]:
    """List in sentences what must be true of the audited model, or the audit means nothing."""
    must = MUST.format(member=n_members)
    if rule == "official" or isinstance(rule, NamedMembers):
        return (must,)
    official = ", or take the source's own division (--official)" if has_official else ""
    return (must, TEXTS["invented"].format(official=official))


def check_shares(shares: Shares) -> None:
    """Refuse shares that cannot be honoured together.

    Raises:
        UsageError: a share outside [0, 1], a sum over 1, or no share at all.
    """
    wrong = [name for name, share in shares.items() if not 0 <= share <= 1]
    if wrong:
        raise UsageError(f"the share of {', '.join(wrong)} is not between 0 and 1")
    total = math.fsum(shares.values())
    if total > 1 + 1e-9:
        raise UsageError(f"the shares of the splits sum to {total:g}, which is over 1")
    if total == 0:
        raise UsageError("no split has a share: nothing would be imported")


def check_division(shares: Shares, rule: Rule) -> None:
    """Refuse shares that a rule cannot honour.

    A draw may do without shares. With the source's own division member is of its training part, and
    heldout and public are of its unseen one; with members that are given, these two are of the
    others; by provider, somebody must be in and somebody out.

    Raises:
        UsageError: as `check_shares`, or a division by provider leaves nobody in, or nobody out.
    """
    public = shares.get("public", 0.0)
    if rule == "drawn" and not shares:
        return
    if isinstance(rule, NamedMembers):
        check_shares(
            {
                "heldout": 1.0 - public if rule.heldout else shares.get("heldout", 0.0),
                "public": public,
            }
        )
    elif rule == "official":
        check_shares({"member": shares.get("member", 0.0)})
        check_shares({"heldout": shares.get("heldout") or 1.0 - public, "public": public})
    else:
        check_shares(shares)
    if rule == "by-provider" and not (shares.get("member") and shares.get("heldout")):
        reason = "a division by provider needs providers in and providers out"
        raise UsageError(reason, "give --member and --heldout a share each")


def divide(
    alike: Groups, sources: Groups, parts: Mapping[str, Part], shares: Shares, seed: int, rule: Rule
) -> dict[str, Split]:
    """Draw a split for every page that gets one.

    Pages of one document resemble each other nearly as equal images do (letterhead, names), so they
    stay together.

    Args:
        alike: groups of pages with equal images or texts: every page is in one.
        sources: groups of pages of one document.
        parts: the part of the source that a page is of; for "official" only.
        shares: shares of the splits; "drawn": of all pages, empty: `usual_sizes`; "official":
            member of the pages of the training part, heldout and public of those of the validation
            part; members that are given: heldout and public of all others.
        seed: seed of the draws.
        rule: "official" keeps members to the training part and all others out of it, and takes a
            public part whole; a page with the image of a training page goes into no split: a copy
            of a trained page is no control. Nor does a public one with the image of an unseen page,
            nor one with the image, or of the document, of a member that is given.

    Raises:
        UsageError: as `check_division`.
        ManifestError: a member is given that is no page of the source.
    """
    check_division(shares, rule)
    alike = tuple(map(tuple, alike))
    groups = [*join_groups([*alike, *sources])]
    if isinstance(rule, NamedMembers):
        return _divide_named(rule, groups, shares, seed)
    if rule == "drawn" and not shares:
        shares = _usual_shares(groups)
    if rule != "official":
        return assign(groups, shares, seed)
    return _divide_parts(groups, _usable_parts(alike, parts), shares, seed)


def usual_sizes(total: int, largest: int = 1) -> dict[Split, int]:
    """Return how many documents each split gets of a draw whose owner names no shares.

    Both sides get what a pass takes before more documents are public than a pass takes; then unseen
    documents are a fifth of all, and the others half training and half public. Of a source too
    small for a pass both sides get alike, and a fifth is public, at most what a pass takes.

    Args:
        total: number of documents.
        largest: documents of the largest group that stays together. A split may come out smaller by
            all of it but one document.
    """
    side = MIN_DOCUMENTS + largest - 1
    public = MIN_PUBLIC + largest - 1
    if total < 2 * side + public:
        public = min(public, math.floor(SMALL_PUBLIC * total))
        heldout = (total - public) // 2
        return {"member": total - public - heldout, "heldout": heldout, "public": public}
    heldout = max(side, round(DRAWN["heldout"] * total))
    member = max(side, (total - heldout + 1) // 2)
    return {"member": member, "heldout": heldout, "public": total - heldout - member}


def _usual_shares(groups: Sequence[Collection[str]]) -> Shares:
    """Return the shares of a draw whose owner names none."""
    sizes = [len(group) for group in groups]
    total = sum(sizes)
    if not total:
        return DRAWN
    usual = usual_sizes(total, max(sizes))
    return {split: size / total for split, size in usual.items()}


def _usable_parts(alike: Groups, parts: Mapping[str, Part]) -> dict[str, Part]:
    """Return the part of each page, without pages that copy one of an earlier part."""
    copies = copies_of_trained(alike, parts)
    return {name: part for name, part in parts.items() if name not in copies}


def _divide_parts(
    groups: Sequence[Collection[str]], parts: Mapping[str, Part], shares: Shares, seed: int
) -> dict[str, Split]:
    """Draw splits within each part of the source; public parts are public as a whole.

    Args:
        groups: groups of pages that stay together.
        parts: the part of each page that may be used.
        shares: shares of the splits, as of `divide`.
        seed: seed of the draws.
    """
    drawn: dict[str, Split] = {}
    for part, splits in _OF_PART.items():
        groups_of_part: list[list[str]] = []
        for group in groups:
            names = [name for name in group if parts.get(name) == part]
            if names:
                groups_of_part.append(names)
        part_shares: dict[Split, float] = {split: shares.get(split, 0.0) for split in splits}
        if not splits:
            part_shares = {"public": 1.0}
        if any(part_shares.values()):
            drawn |= assign(groups_of_part, part_shares, seed)
    return drawn


def _divide_named(
    division: NamedMembers, groups: Sequence[Collection[str]], shares: Shares, seed: int
) -> dict[str, Split]:
    """Keep the members and held-out pages that the owner names; draw the other groups.

    Copies of given pages are out.
    """
    ids = list(chain.from_iterable(groups))
    members = find_named(division.names, ids, "--members")
    heldout = find_named(division.heldout, ids, "--heldout")
    both = members & heldout
    if both:
        raise ManifestError(TEXTS["in_both"].format(n=len(both)))
    untrained = [group for group in groups if members.isdisjoint(group)]
    undecided = [group for group in untrained if heldout.isdisjoint(group)]
    drawable: tuple[Split, ...] = ("public",) if division.heldout else ("heldout", "public")
    splits = _draw_undecided(undecided, drawable, shares, seed)
    for group in untrained:
        splits |= dict.fromkeys((name for name in group if name in heldout), "heldout")
    return splits | dict.fromkeys(sorted(members), "member")


def _draw_undecided(
    groups: Groups, splits: Sequence[Split], shares: Shares, seed: int
) -> dict[str, Split]:
    """Draw groups that the owner does not name, for those of `splits` that have a share."""
    drawn_shares = {split: shares[split] for split in splits if shares.get(split)}
    if not drawn_shares:
        return {}
    return assign(groups, drawn_shares, seed)


def copies_of_trained(alike: Groups, parts: Mapping[str, Part]) -> frozenset[str]:
    """Return pages that copy one of an earlier part (training, validation, public).

    `alike` as in `divide`.
    """
    rank = {part: number for number, part in enumerate(_OF_PART)}
    copies: set[str] = set()
    for group in alike:
        first = min((rank[parts[name]] for name in group), default=0)
        copies.update(name for name in group if rank[parts[name]] > first)
    return frozenset(copies)


def assign(groups: Groups, shares: Shares, seed: int) -> dict[str, Split]:
    """Draw a split for every document; the documents of a group stay together.

    Sizes are fixed first (largest remainder), then filled without replacement: a group falls into a
    split with probability proportional to the room still free there, large groups first. So
    documents on their own are a simple random sample and the sizes are met exactly wherever groups
    fit. The order of `groups` has no influence.

    Args:
        groups: ids of documents, each in one group; a document on its own is a group of one.
        shares: shares of all documents, by split; what they leave over goes into no split.
        seed: seed of the draw.

    Returns:
        The split of each document that got one.

    Raises:
        UsageError: as `check_shares`.
    """
    check_shares(shares)
    members = sorted(
        (tuple(sorted(group)) for group in groups), key=lambda group: (-len(group), group)
    )
    free = quotas(sum(map(len, members)), shares)
    rng = random.Random(seed)
    drawn: dict[str, Split] = {}
    for group in members:
        fitting = [name for name, room in free.items() if room >= len(group)]
        rooms = [free[name] for name in fitting]
        choice = rng.choices(fitting, rooms)[0] if fitting else max(free, key=free.__getitem__)
        free[choice] -= len(group)
        if choice is not None:
            drawn.update(dict.fromkeys(group, choice))
    return drawn


def quotas(total: int, shares: Shares) -> dict[Split | None, int]:
    """Compute how many of `total` documents each split gets, and None for no split.

    They are whole numbers, whose sum is `total`. By largest remainder, so that each is within one
    of its exact share. `shares` as `check_shares` lets them pass.
    """
    exact: dict[Split | None, float] = {name: total * shares.get(name, 0.0) for name in SPLITS}
    exact[None] = max(0.0, total - math.fsum(exact.values()))
    sizes = {name: math.floor(size + 1e-9) for name, size in exact.items()}
    n_left = total - sum(sizes.values())
    for name in sorted(exact, key=lambda name: sizes[name] - exact[name])[:n_left]:
        sizes[name] += 1
    return sizes


def equal_images(images: Mapping[str, Path]) -> tuple[tuple[str, ...], ...]:
    """Group documents by image: equal bytes, or equal pixels after decoding.

    The same scan may have been saved twice.

    Args:
        images: the path of each document's image.

    Returns:
        Groups of ids, both sorted; a document whose image is like no other is a group of one.

    Raises:
        ManifestError: an image is missing or cannot be decoded.
    """
    by_bytes: dict[str, list[str]] = defaultdict(list)
    for name, path in steps("reading images", images.items(), len(images)):
        by_bytes[read_header(path).sha256].append(name)
    by_pixels: dict[str, list[str]] = defaultdict(list)
    # Equal bytes have equal pixels: one of them is decoded.
    for names in steps("comparing images", by_bytes.values(), len(by_bytes)):
        page = decode(images[names[0]])
        by_pixels[hashlib.sha256(repr(page.size).encode() + page.tobytes()).hexdigest()] += names
    return tuple(sorted(tuple(sorted(names)) for names in by_pixels.values()))


def divide_by_provider(
    groups: Groups, providers: Mapping[str, str | None], shares: Shares, seed: int
) -> tuple[dict[str, Split], dict[str, int]]:
    """Draw each provider in, out or public; hold out half the documents of those in or out.

    Names that differ in case or spacing only (`folding.fold`) are one provider. In no split are:
    the documents of a provider that is out beyond those kept aside (public ones train reference
    models, which must not have seen whom the attacker asks after); documents without a provider,
    who may be anyone's; and groups that hold documents of two providers, which would be trained on
    as one's and held out as the other's.

    A provider with fewer than two groups cannot keep one aside and be trained on, so it is
    *unusable*: public when public has a share, else in no split. The order of the input has no
    influence, and which documents a provider keeps aside, half of them, follows from the seed, its
    name and its documents alone.

    Args:
        groups: ids of documents that belong together (equal images, pages of one document), each in
            one group; a document on its own is a group of one.
        providers: the name of each document's provider, as the source spells it; None where it has
            none.
        shares: shares of all providers: member those in, heldout those out, public the rest that is
            used. Unusable providers count for public first; where they are more than its share, the
            usable ones are divided in the proportion of the other shares. What the shares leave
            over goes into no split.
        seed: seed of the draws.

    Returns:
        The split of each document that got one; counts of providers and documents for the report,
        no name.

    Raises:
        UsageError: as `check_division`; no document names a provider; or nobody would be in, or
            out.
    """
    check_division(shares, "by-provider")
    names = {document: fold(name) for document, name in providers.items() if name is not None}
    if not names:
        raise UsageError("no document names a provider", WITHOUT_NAMES)
    owned, n_shared = _groups_by_provider(groups, names)
    drawn, unusable = _draw_providers(owned, shares, seed)
    splits: dict[str, Split] = {}
    for split, split_providers in drawn.items():
        if split == "heldout":
            continue
        for name in split_providers:
            splits |= dict.fromkeys(chain.from_iterable(owned[name]), split)
    for name in (*drawn["member"], *drawn["heldout"]):
        aside = random.Random(f"{seed}/{name}").sample(sorted(owned[name]), len(owned[name]) // 2)
        splits |= dict.fromkeys(chain.from_iterable(aside), "heldout")
    sizes = [len(drawn[split]) for split in SPLITS]
    n_without_name = len(providers) - len(names)
    counts = (*sizes, len(owned) - sum(sizes), len(unusable), n_without_name, n_shared)
    return splits, dict(zip(NAMES["counts"]["providers"], counts, strict=True))


_Owned = Mapping[str, Sequence[tuple[str, ...]]]
"""By provider, the groups of its documents that belong together."""


def _groups_by_provider(groups: Groups, names: Mapping[str, str]) -> tuple[_Owned, int]:
    """Group documents that belong together by their provider.

    Args:
        groups: groups of documents, as of `divide_by_provider`.
        names: the provider of each document that has one.

    Returns:
        The groups of each provider, without the documents that have none; and the number of
        documents in groups of several providers, which are nobody's.
    """
    owned: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    n_shared = 0
    for group in groups:
        documents = tuple(sorted(document for document in group if document in names))
        owners = {names[document] for document in documents}
        if len(owners) == 1:
            owned[owners.pop()].append(documents)
        elif owners:
            n_shared += len(documents)
    return owned, n_shared


def _draw_providers(
    owned: _Owned, shares: Shares, seed: int
) -> tuple[dict[Split, list[str]], list[str]]:
    """Return the providers drawn for each split, and those with too few documents to be drawn.

    Returns:
        The providers of each split, and the unusable ones, which are public where public has a
        share.
    """
    usable = sorted(name for name, groups in owned.items() if len(groups) > 1)
    unusable = sorted(owned.keys() - set(usable))
    random.Random(seed).shuffle(usable)
    drawn: dict[Split, list[str]] = {}
    start = 0
    for split, n_providers in _provider_quotas(len(usable), len(unusable), shares).items():
        drawn[split] = usable[start : start + n_providers]
        start += n_providers
    if shares.get("public"):
        drawn["public"] += unusable
    return drawn, unusable


def _provider_quotas(n_usable: int, n_unusable: int, shares: Shares) -> dict[Split, int]:
    """Return how many usable providers are drawn in, out and public.

    Raises:
        UsageError: none would be in, or none out.
    """
    if n_usable < 2:
        reason = TEXTS["few_usable"].format(usable=n_usable, all=n_usable + n_unusable)
        raise UsageError(reason, "leave out --by-provider, or import more documents")
    sizes = quotas(n_usable + n_unusable, shares)
    n_public = sizes["public"] - n_unusable
    if n_public < 0:
        n_public = 0
        divided = 1 - shares.get("public", 0.0)
        sizes = quotas(
            n_usable,
            {"member": shares["member"] / divided, "heldout": shares["heldout"] / divided},
        )
    n_in = sizes["member"]
    n_out = sizes["heldout"]
    if not (n_in and n_out):
        reason = TEXTS["one_sided"].format(usable=n_usable, n_in=n_in, n_out=n_out)
        raise UsageError(reason, "raise the smaller of --member and --heldout, or lower --public")
    return {"member": n_in, "heldout": n_out, "public": n_public}
