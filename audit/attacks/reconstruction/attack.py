"""The CDMI attack: algorithm 2 of the paper, its baseline, and the attacker's own ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator as Rng

from audit.attacks.interface import Findings, ask
from audit.attacks.reconstruction.fields import ATTACKED, REASONS, Field, all_fields, field_of
from audit.attacks.reconstruction.measures import METRICS, POWER, measure_fields
from audit.attacks.reconstruction.sampling import (
    Mean,
    combine,
    draw,
    log_likelihood_of_losses,
    log_softmax,
    nucleus,
    temperature_at,
)
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.record import Count
from audit.targets.interface import Encoding, FillMask, Target, TrainingLoss

N_CANDIDATES = {"quick": 64, "standard": 128, "full": 512}
"""By budget. 128 is the paper's choice; with 512 it found 2 % more, at four times the cost (appendix A)."""


@dataclass(frozen=True)
class Reconstruction:
    """CDMI, one-shot (Dentan et al. 2024, section 4; METHODS.md section 1).

    The adversary holds the model and a page whose field was scrubbed: its tokens are [MASK], its labels and the number
    of its tokens are known. Field by field, token by token, candidates of a public masked language model are weighed by
    how well the target's training loss likes them. Temperatures, weight and nucleus are docaudit's defaults (the paper
    gives ranges), fixed before the scan.

    Attributes:
        n_candidates: N_c, candidates a token.
        temperature: T, of both softmaxes.
        temperature_start: T_start, factor on the public model's temperature at the first token, falling over 3 tokens.
        target_weight: w in [0, 1], the target's weight in the mean of both likelihoods.
        mean: the paper prefers the geometric mean.
        top_p: mass of the nucleus that a token is sampled from.
        min_tokens, max_tokens: fields with fewer or more tokens are left out.
    """

    n_candidates: int = 128
    temperature: float = 0.3
    temperature_start: float = 10.0
    target_weight: float = 0.4
    mean: Mean = "geometric"
    top_p: float = 0.10
    min_tokens: int = 3
    max_tokens: int = 15

    name: ClassVar[str] = "reconstruction"
    needs: ClassVar[tuple[str, ...]] = ("auxiliary",)
    metrics: ClassVar[tuple[str, ...]] = METRICS
    power: ClassVar[str | None] = POWER

    @classmethod
    def preset(cls, budget: str) -> Self:
        """See `Attack.preset`."""
        return cls(n_candidates=N_CANDIDATES[budget])

    def lacks(self, corpus: Corpus) -> str | None:
        """See `Attack.lacks`."""
        for split in ATTACKED:
            if not any(entity.attack for document in corpus.of(split) for entity in document.entities):
                return f"no field to attack in {split} documents"
        references = corpus.manifest.references
        if references.auxiliary is None and not corpus.of("public"):
            return "no auxiliary model in [references] and no public documents to train one on"
        if references.auxiliary is None and references.pretrained is None:
            return "needs --reference pretrained=PATH or auxiliary=PATH: [references] names neither"
        return None

    def inapplicable(self, case: Case) -> str | None:
        """See `Attack.inapplicable`."""
        if not {FillMask, TrainingLoss} & case.target.answers:
            return "the model has neither a masked-language-model head nor a training loss over tokens"
        return None

    def trials(self, case: Case) -> list[Trial]:
        """Fields of member and held-out documents with `min_tokens` to `max_tokens` tokens."""
        return [field.trial for field in self._fields(case) if field.left_out is None]

    def no_trials(self, case: Case) -> tuple[str, str]:
        """See `Attack.no_trials`."""
        left_out = Counter(field.left_out for field in self._fields(case))
        found = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "none is marked for attack"
        return (
            f"no field of {self.min_tokens} to {self.max_tokens} tokens in member or held-out documents ({found})",
            "annotate longer fields in the manifest",
        )

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Reconstruct one field with the target, again without it, and see whether the truth was within reach."""
        field = field_of(case, trial, self.min_tokens, self.max_tokens)
        assert field.page is not None
        public = case.references.auxiliary
        assert public is not None
        target = case.target
        # A target with a masked-language-model head needs no help from the public one (section 4.3).
        proposer, judge = (target, None) if FillMask in target.answers else (public, target)
        attack_rng, baseline_rng = rng.spawn(2)
        attack = yield from self._reconstruct(field, proposer, judge, attack_rng)
        baseline = yield from self._reconstruct(field, public, None, baseline_rng)
        reached = yield from self._reached(field, proposer)
        return {
            "truth": field.page.ids[list(field.positions)].tolist(),
            "attack": attack.tokens,
            "baseline": baseline.tokens,
            # An attacker whose losses said nothing had no power, whatever was among the candidates.
            "reached": reached and not attack.unusable,
            "single": attack.single,
            "unusable": attack.unusable,
        }

    def _reconstruct(
        self, field: Field, proposer: Target, judge: Target | None, rng: Rng
    ) -> Generator[Request, Any, _Reconstructed]:
        """Algorithm 2; without a judge, the proposer's likelihood alone decides (the baseline of section 5.2)."""
        page = _scrubbed(field)
        tokens: list[int] = []
        single = unusable = 0
        for step, position in enumerate(field.positions):
            candidates = yield from ask(proposer, FillMask(page, position, self.n_candidates))
            log_g = log_softmax(candidates.logits / temperature_at(step, self.temperature, self.temperature_start))
            p = np.exp(log_g)
            if judge is not None:
                losses = yield from ask(judge, TrainingLoss(page, position, candidates.ids))
                log_l, usable = log_likelihood_of_losses(losses, self.temperature)
                unusable += not usable
                p = combine(log_g, log_l, self.target_weight, self.mean)
            kept = nucleus(p, candidates.ids, self.top_p)
            single += len(kept) == 1
            tokens.append(int(candidates.ids[draw(p, kept, rng)]))
            page = page.with_tokens([position], tokens[-1:])
        return _Reconstructed(tokens, single, unusable)

    def _reached(self, field: Field, proposer: Target) -> Generator[Request, Any, bool]:
        """Whether every token is among the candidates, given the true ones before it (METHODS.md 1 b)."""
        assert field.page is not None
        page = _scrubbed(field)
        for position in field.positions:
            candidates = yield from ask(proposer, FillMask(page, position, self.n_candidates))
            truth = int(field.page.ids[position])
            if truth not in candidates.ids:
                return False
            page = page.with_tokens([position], [truth])
        return True

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json], rng: Rng, progress: Progress
    ) -> Findings:
        """See `Attack.measure`; the metrics are described in `measures`."""
        fields = [field_of(case, trial, self.min_tokens, self.max_tokens) for trial in trials]
        findings = measure_fields(case, fields, outcomes, self.n_candidates, rng, progress)
        left_out = Counter(field.left_out for field in self._fields(case))
        counts = [
            Count("fields within reach", left_out.pop(None, 0), "fields that the attack can try"),
            Count("fields attacked", len(trials), "fields that this budget tried"),
            *(Count(f"left out: {name}", left_out[name], meaning) for name, meaning in REASONS.items()),
        ]
        return Findings(
            findings.measurements,
            (*counts, *findings.counts),
            findings.diagnostics,
            findings.histograms,
            findings.categories,
        )

    def evidence(self, case: Case, trials: Sequence[Trial], outcomes: Sequence[Json]) -> Iterator[dict[str, Any]]:
        """The value, what was recovered of it with the model and without, one object a field."""
        for trial, outcome in zip(trials, outcomes, strict=True):
            field = field_of(case, trial, self.min_tokens, self.max_tokens)
            yield {
                "attack": self.name,
                "document": field.document.id,
                "field": field.entity.id,
                "category": field.entity.category,
                "split": field.document.split,
                "value": field.document.text_of(field.entity),
                "recovered": case.target.token_strings(outcome["attack"]),
                "baseline": case.target.token_strings(outcome["baseline"]),
                "exact": outcome["attack"] == outcome["truth"],
            }

    def _fields(self, case: Case) -> Iterator[Field]:
        return all_fields(case, self.min_tokens, self.max_tokens)


@dataclass(frozen=True)
class _Reconstructed:
    """The tokens, the number of steps whose nucleus was one token, and of those whose losses said nothing."""

    tokens: list[int]
    single: int
    unusable: int


def _scrubbed(field: Field) -> Encoding:
    assert field.page is not None
    return field.page.masked(field.positions)
