"""The candidates that a masked language model proposes for one field, each prefix asked for once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.attacks.interface import ask_all
from audit.engine.interface import Request
from audit.targets.encoded_page import Encoding
from audit.targets.interface import Candidates, FillMask, Target

Prefix = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Proposals:
    """Steps 1 of one field: attempts, attack and baseline share what follows a prefix (methods.md#reconstruction).

    Attributes:
        proposer: a target with a masked-language-model head.
        page: the page, its field scrubbed.
        positions: of the field's tokens, left to right.
        n_candidates: N_c.
    """

    proposer: Target
    page: Encoding
    positions: tuple[int, ...]
    n_candidates: int
    _known: dict[Prefix, Candidates] = field(default_factory=dict)

    def page_after(self, prefix: Prefix) -> Encoding:
        """The page with the field's first tokens in place; those not yet reached stay [MASK]."""
        return self.page.with_tokens(self.positions[: len(prefix)], prefix)

    def after(self, prefixes: Sequence[Prefix]) -> Generator[Request, Any, list[Candidates]]:
        """The candidates for the token that follows each prefix."""
        unknown = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in self._known]
        queries = [
            FillMask(self.page_after(prefix), self.positions[len(prefix)], self.n_candidates) for prefix in unknown
        ]
        answers = yield from ask_all(self.proposer, queries)
        self._known.update(zip(unknown, answers, strict=True))
        return [self._known[prefix] for prefix in prefixes]
