"""The CDMI attack: algorithm 2 of the paper, its baseline, and the attacker's own ceiling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.random import Generator as Rng

from audit.attacks.interface import Findings, Units
from audit.attacks.reconstruction.algorithm import Judged, MaskedModel, Public, agreement, reconstruct
from audit.attacks.reconstruction.fields import ATTACKED, REASONS, Field, all_fields, field_of
from audit.attacks.reconstruction.measures import METRICS, POWER, measure_fields
from audit.attacks.reconstruction.proposals import Prefix, Proposals
from audit.attacks.reconstruction.sampling import Mean
from audit.attacks.reconstruction.table import GROUPS
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Attempt, Json, Progress, Request, Trial
from audit.record import Count
from audit.targets.interface import Encoding, FillMask, FirstOrderLoss, Target, TrainingLoss

N_CANDIDATES = {"quick": 64, "standard": 128, "full": 512}
"""By budget. 128 is the paper's choice; with 512 it found 2 % more, at four times the cost (appendix A)."""


@dataclass(frozen=True)
class Reconstruction:
    """CDMI, one-shot and multi-shot (Dentan et al. 2024, section 4; METHODS.md section 1).

    The adversary holds the model and a page whose field was scrubbed: its tokens are [MASK], and so are those of its
    value wherever else it stands on the page; its labels and the number of its tokens are known. Field by field, token
    by token, candidates of a public masked language model are weighed by how well the target's training loss likes
    them. Temperatures, weight and nucleus are docaudit's defaults (the paper gives ranges), fixed before the scan.
    Several attempts are made at every field; the first one is the one-shot attack, and a membership score chooses among
    all of them for the multi-shot attack.

    Attributes:
        n_candidates: N_c, candidates a token.
        n_attempts: n_a, attempts a field.
        temperature: T, of both softmaxes.
        temperature_start: T_start, factor on the public model's temperature at the first token, falling over 3 tokens.
        target_weight: w in (0, 1], the target's weight in the mean of both likelihoods.
        mean: the paper prefers the geometric mean.
        top_p: mass of the nucleus that a token is sampled from.
        min_tokens, max_tokens: fields with fewer or more tokens are left out.
        image_noise: Gaussian noise in place of the page's image, for targets that see it (the ablation of section 6.2).
        screened: candidates a token whose loss is computed exactly, the best ones by a first-order estimate, which the
            others keep; None: all. An approximation, ours, for speed; masked language models are attacked without
            losses and do not heed it.
    """

    n_candidates: int = 128
    n_attempts: int = 8
    temperature: float = 0.3
    temperature_start: float = 10.0
    target_weight: float = 0.4
    mean: Mean = "geometric"
    top_p: float = 0.10
    min_tokens: int = 3
    max_tokens: int = 15
    image_noise: bool = False
    screened: int | None = None

    name: ClassVar[str] = "reconstruction"
    needs: ClassVar[tuple[str, ...]] = ("auxiliary",)
    uses: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = METRICS
    power: ClassVar[str | None] = POWER

    @property
    def ablations(self) -> tuple[str, ...]:
        """See `Attack.ablations`."""
        found = []
        if self.image_noise:
            found.append("noise in place of the page's image")
        if self.screened is not None:
            found.append("most losses estimated, not computed")
        return tuple(found)

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

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`: documents with a field of the group, however many tokens a model makes of it."""
        seen = occurrences(corpus)
        documents: Counter[tuple[str, str]] = Counter()
        for document in corpus.of(*ATTACKED):
            fields = [seen[fold(document.text_of(entity))].unique for entity in document.entities if entity.attack]
            there = {"unique": any(fields), "repeated": not all(fields), "all": bool(fields)}
            documents.update([(document.split, group) for group, holds in there.items() if holds])
        return tuple(
            Units(f"{what}.{group}", "difference", "documents", *(documents[split, group] for split in ATTACKED))
            for what in ("excess_pr", "excess_hamming")
            for group in GROUPS
        )

    def inapplicable(self, case: Case) -> str | None:
        """See `Attack.inapplicable`."""
        if case.corpus.manifest.task.kind == "intent-slots":
            return "a model of utterances has a vocabulary of its own, which no public masked language model shares"
        if not {FillMask, TrainingLoss} & case.target.answers:
            return "the model has neither a masked-language-model head nor a training loss over tokens"
        if self.screened is not None and not {FillMask, FirstOrderLoss} & case.target.answers:
            return "candidates cannot be screened: this kind of target gives no first-order estimate of its loss"
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
        page = self._scrubbed(field, rng)
        attacker = self._attacker(case, case.target, page, field.positions)
        # Where both take their candidates from the public model, what is known of a prefix serves both.
        shared = isinstance(attacker, Judged)
        public = Public(attacker.proposals if shared else self._from_public(case, page, field.positions))
        attack_rng, baseline_rng = rng.spawn(2)
        attack = yield from reconstruct(attacker, attack_rng, self)
        baseline = yield from reconstruct(public, baseline_rng, self)
        truth = tuple(field.page.ids[list(field.positions)].tolist())
        reached = yield from self._reached(attacker.proposals, truth)
        return {
            "truth": [*truth],
            "attack": [shot.as_json() for shot in attack.shots],
            "baseline": [shot.as_json() for shot in baseline.shots],
            # An attacker whose losses said nothing had no power, whatever was among the candidates.
            "reached": reached and not attack.blind,
            "single": attack.single,
            "unusable": attack.unusable,
        }

    def preflight(self, case: Case, rounded: Target, trial: Trial, rng: Rng) -> Attempt:
        """See `Attack.preflight`."""
        field = field_of(case, trial, self.min_tokens, self.max_tokens)
        page = self._scrubbed(field, rng)
        exact, other = (self._attacker(case, target, page, field.positions) for target in (case.target, rounded))
        alike, steps = yield from agreement(exact, other, rng, self)
        return {"alike": alike, "steps": steps}

    def _scrubbed(self, field: Field, rng: Rng) -> Encoding:
        page = field.scrubbed()
        return page.with_noise([int(rng.integers(2**32))]) if self.image_noise else page

    def _attacker(self, case: Case, target: Target, page: Encoding, positions: tuple[int, ...]) -> MaskedModel | Judged:
        """A target with a masked-language-model head needs no help from the public one to reconstruct."""
        public = case.references.auxiliary
        assert public is not None
        if FillMask in target.answers:
            return MaskedModel(Proposals(target, page, positions, self.n_candidates), public)
        return Judged(self._from_public(case, page, positions), target)

    def _from_public(self, case: Case, page: Encoding, positions: tuple[int, ...]) -> Proposals:
        assert case.references.auxiliary is not None
        return Proposals(case.references.auxiliary, page, positions, self.n_candidates)

    def _reached(self, proposals: Proposals, truth: Prefix) -> Generator[Request, Any, bool]:
        """Whether every token is among the candidates, given the true ones before it (METHODS.md 1 b)."""
        for step, token in enumerate(truth):
            (candidates,) = yield from proposals.after([truth[:step]])
            if token not in candidates.ids:
                return False
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
            Count(
                "fields with copies",
                sum(bool(field.copies) for field in fields),
                "fields tried whose value stands elsewhere on their page too, and is hidden there as well",
            ),
            *(Count(f"left out: {name}", left_out[name], meaning) for name, meaning in REASONS.items()),
        ]
        return Findings(
            findings.measurements,
            (*counts, *findings.counts),
            findings.diagnostics,
            findings.histograms,
            findings.curves,
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
                "recovered": case.reader.token_strings(outcome["attack"][0]["tokens"]),
                "baseline": case.reader.token_strings(outcome["baseline"][0]["tokens"]),
                "exact": outcome["attack"][0]["tokens"] == outcome["truth"],
                "exact_in_any_attempt": any(shot["tokens"] == outcome["truth"] for shot in outcome["attack"]),
            }

    def _fields(self, case: Case) -> Iterator[Field]:
        return all_fields(case, self.min_tokens, self.max_tokens)
