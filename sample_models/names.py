"""Names of people and places, invented."""

from __future__ import annotations

from dataclasses import dataclass

from faker import Faker


@dataclass(frozen=True)
class Region:
    """Names that people and places have."""

    first_names: tuple[str, ...]
    surnames: tuple[str, ...]
    towns: tuple[str, ...]


def drawn_region(seed: int, n_first_names: int, n_surnames: int, n_towns: int) -> Region:
    """So many different names of each kind."""
    fake = Faker("en_US")
    fake.seed_instance(seed)
    return Region(
        first_names=tuple(fake.unique.first_name() for _ in range(n_first_names)),
        surnames=tuple(fake.unique.last_name() for _ in range(n_surnames)),
        towns=tuple(fake.unique.city() for _ in range(n_towns)),
    )
