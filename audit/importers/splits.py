"""Assignment of documents to splits: drawn by share with equal images together, or along a division that there is.

That is the source's own, or the owner's: the members that they name. By provider it is made in `providers`.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from audit.corpus.documents import SPLITS, Split
from audit.corpus.images import decode, read_header
from audit.corpus.paths import printable
from audit.errors import ManifestError, UsageError
from audit.importers.named import NamedMembers
from audit.progress import steps
from audit.stats.clusters import join_groups

__all__ = [
    "Division",
    "NamedMembers",
    "OfficialPart",
    "assign",
    "check_division",
    "check_shares",
    "copies_of_trained",
    "demands",
    "divide",
    "equal_images",
    "quotas",
]
OfficialPart = Literal["train", "validation"]
Division = Literal["drawn", "official"]
MUST = "The audited model must have been trained on the {member} documents of split member, and on none of heldout."
INVENTED = (
    "This division was drawn just now. For a model that was trained elsewhere it invents membership, and an audit of "
    "it says nothing: name the documents that it was trained on (--members FILE), or give those it never saw in a "
    "second folder (--heldout-from SRC2){official}, or train it on these."
)
_OF_PART: Mapping[OfficialPart, tuple[Split, ...]] = {"train": ("member", "public"), "validation": ("heldout",)}


def demands(division: object, documents: Mapping[str, int], *, has_official: bool) -> tuple[str, ...]:
    """List in sentences what must be true of the audited model for this data set to say anything.

    Args:
        division: "drawn" or "official", members that are given, or another rule by which documents were drawn.
        documents: how many there are, by split.
        has_official: whether the source has a division of its own.
    """
    must = MUST.format(member=documents.get("member", 0))
    if division == "official" or isinstance(division, NamedMembers):
        return (must,)
    return (must, INVENTED.format(official=", or take the source's own division (--official)" if has_official else ""))


def check_shares(shares: Mapping[Split, float]) -> None:
    """Refuse shares that cannot be honoured together.

    Raises:
        UsageError: an unknown split, a share outside [0, 1], a sum over 1, or no share at all.
    """
    unknown = [name for name in shares if name not in SPLITS]
    if unknown:
        raise UsageError(f"no split is called {', '.join(map(repr, unknown))}; there are {', '.join(SPLITS)}")
    wrong = [name for name, share in shares.items() if not 0 <= share <= 1]
    if wrong:
        raise UsageError(f"the share of {', '.join(wrong)} is not between 0 and 1")
    total = math.fsum(shares.values())
    if total > 1 + 1e-9:
        raise UsageError(f"the shares of the splits sum to {total:g}, which is over 1")
    if total == 0:
        raise UsageError("no split has a share: nothing would be imported")


def check_division(shares: Mapping[Split, float], division: Division | NamedMembers) -> None:
    """As `check_shares`; with the source's own division, of the shares of each of its parts by themselves.

    With members that are given, heldout and public are shares of the others.

    Raises:
        UsageError: as `check_shares`.
    """
    if isinstance(division, NamedMembers):
        others: dict[Split, float] = {split: share for split, share in shares.items() if split != "member"}
        if division.heldout:
            others = {"heldout": 1.0 - others.get("public", 0.0), "public": others.get("public", 0.0)}
        check_shares(others)
        return
    if division == "drawn":
        check_shares(shares)
        return
    check_shares(
        dict.fromkeys(shares, 0.0) | {"member": shares.get("member", 0.0), "public": shares.get("public", 0.0)}
    )
    if shares.get("heldout"):
        check_shares({"heldout": shares["heldout"]})


def divide(
    images: Iterable[Collection[str]],
    sources: Iterable[Collection[str]],
    parts: Mapping[str, OfficialPart],
    shares: Mapping[Split, float],
    seed: int,
    division: Division | NamedMembers,
) -> dict[str, Split]:
    """Draw a split for every page that gets one.

    Pages of one document resemble each other nearly as equal images do (letterhead, names), so they stay together.

    Args:
        images: groups of pages with equal images, as `equal_images` gives them: every page is in one.
        sources: groups of pages of one document.
        parts: which part of the source a page is of; for "official" only.
        shares: "drawn": of all pages; "official": member and public of the pages of the training part, heldout of those
            of the validation part; members that are given: heldout and public of all others.
        seed: of the draws.
        division: "official" keeps members and public pages to the training part, held-out ones to the validation part;
            a validation page with the image of a training page goes into no split: a copy of a trained page is no
            control. Nor does a page with the image, or of the document, of a member that is given.

    Raises:
        UsageError: as `check_division`.
        ManifestError: a member is given that is no page of the source.
    """
    check_division(shares, division)
    images = tuple(map(tuple, images))
    groups = [*join_groups([*images, *sources])]
    if isinstance(division, NamedMembers):
        return _along(division, groups, shares, seed)
    if division == "drawn":
        return assign(groups, shares, seed)
    unusable = copies_of_trained(images, parts)
    drawn: dict[str, Split] = {}
    for part, splits in _OF_PART.items():
        own = [[name for name in group if parts[name] == part and name not in unusable] for group in groups]
        wanted = {split: shares.get(split, 0.0) for split in splits}
        if any(wanted.values()):
            drawn |= assign([group for group in own if group], wanted, seed)
    return drawn


def _along(
    given: NamedMembers, groups: Sequence[Collection[str]], shares: Mapping[Split, float], seed: int
) -> dict[str, Split]:
    """Members and held-out pages as they are given, the other groups drawn; what goes with a given page is left out."""
    ids = [name for group in groups for name in group]
    members, heldout = given.members(ids), given.kept_out(ids)
    both = sorted(members & heldout)
    if both:
        raise ManifestError(
            f"{len(both)} documents are in --members and in --heldout, the first is {printable(both[0])}"
        )
    clean = [group for group in groups if members.isdisjoint(group)]
    untrained: tuple[Split, ...] = ("public",) if given.heldout else ("heldout", "public")
    others = {split: share for split in untrained if (share := shares.get(split, 0.0))}
    free = [group for group in clean if heldout.isdisjoint(group)]
    drawn = assign(free, others, seed) if others else {}
    kept: dict[str, Split] = {name: "heldout" for group in clean for name in group if name in heldout}
    return drawn | dict.fromkeys(sorted(members), "member") | kept


def copies_of_trained(images: Iterable[Collection[str]], parts: Mapping[str, OfficialPart]) -> frozenset[str]:
    """Pages of the validation part whose image is that of a page of the training part; `images` as in `divide`."""
    mixed = (group for group in images if {parts[name] for name in group} == {"train", "validation"})
    return frozenset(name for group in mixed for name in group if parts[name] == "validation")


def assign(groups: Iterable[Collection[str]], shares: Mapping[Split, float], seed: int) -> dict[str, Split]:
    """Draw a split for every document; the documents of a group stay together.

    Sizes are fixed first (largest remainder), then filled without replacement: a group falls into a split with
    probability proportional to the room still free there, large groups first. So documents on their own are a simple
    random sample and the sizes are met exactly wherever groups fit. The order of `groups` has no influence.

    Args:
        groups: ids of documents, each in one group; a document on its own is a group of one.
        shares: of all documents, by split; what they leave over goes into no split.
        seed: of the draw.

    Returns:
        The split of each document that got one.

    Raises:
        UsageError: as `check_shares`.
    """
    check_shares(shares)
    members = sorted((tuple(sorted(group)) for group in groups), key=lambda group: (-len(group), group))
    free = quotas(sum(map(len, members)), shares)
    rng = random.Random(seed)
    drawn: dict[str, Split] = {}
    for group in members:
        fitting = [name for name, room in free.items() if room >= len(group)]
        choice = (
            rng.choices(fitting, [free[name] for name in fitting])[0] if fitting else max(free, key=free.__getitem__)
        )
        free[choice] -= len(group)
        if choice is not None:
            drawn.update(dict.fromkeys(group, choice))
    return drawn


def quotas(total: int, shares: Mapping[Split, float]) -> dict[Split | None, int]:
    """Number of documents, of `total`, in each split, and under None in none: whole numbers with sum `total`.

    By largest remainder, so that each is within one of its exact share. `shares` as `check_shares` lets them pass.
    """
    exact: dict[Split | None, float] = {name: total * shares.get(name, 0.0) for name in SPLITS}
    exact[None] = max(0.0, total - math.fsum(exact.values()))
    sizes = {name: math.floor(size + 1e-9) for name, size in exact.items()}
    by_remainder = sorted(exact, key=lambda name: sizes[name] - exact[name])
    for name in by_remainder[: total - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def equal_images(images: Mapping[str, Path]) -> tuple[tuple[str, ...], ...]:
    """Documents grouped by image: equal bytes, or equal pixels after decoding (the same scan saved twice).

    Args:
        images: path of each document's image.

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
