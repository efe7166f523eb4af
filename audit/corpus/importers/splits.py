"""Seeded assignment of documents to splits, by share, equal images together."""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from audit.corpus.documents import SPLITS, Split
from audit.corpus.images import decode, read_header
from audit.errors import UsageError


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


def assign(groups: Iterable[Collection[str]], shares: Mapping[Split, float], seed: int) -> dict[str, Split]:
    """Draw a split for every document; the documents of a group stay together.

    Sizes are fixed first (largest remainder), then filled without replacement: a group falls into a split with
    probability proportional to the places still free there, large groups first. So documents on their own are a simple
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
    free = _sizes(sum(map(len, members)), shares)
    rng = random.Random(seed)
    drawn: dict[str, Split] = {}
    for group in members:
        fitting = [name for name, places in free.items() if places >= len(group)]
        choice = (
            rng.choices(fitting, [free[name] for name in fitting])[0] if fitting else max(free, key=free.__getitem__)
        )
        free[choice] -= len(group)
        if choice is not None:
            drawn.update(dict.fromkeys(group, choice))
    return drawn


def _sizes(total: int, shares: Mapping[Split, float]) -> dict[Split | None, int]:
    """Documents for each split, and under None for no split: whole numbers with sum `total`, by largest remainder."""
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
    for name, path in images.items():
        by_bytes[read_header(path).sha256].append(name)
    by_pixels: dict[str, list[str]] = defaultdict(list)
    for names in by_bytes.values():  # equal bytes have equal pixels: one of them is decoded
        page = decode(images[names[0]])
        by_pixels[hashlib.sha256(repr(page.size).encode() + page.tobytes()).hexdigest()] += names
    return tuple(sorted(tuple(sorted(names)) for names in by_pixels.values()))
