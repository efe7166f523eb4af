"""The CDMI attack: algorithm 2 of the paper, its baseline, and the attacker's own ceiling."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from numpy.random import Generator as Rng
from pydantic import Field

from audit.attacks import blind_baseline, text_of
from audit.attacks.fields import LENGTHS, all_fields, field_of, possible_trials
from audit.attacks.fields import Field as PageField
from audit.attacks.interface import (
    AUDITED,
    POINTING,
    Attack,
    Evidence,
    Outcomes,
    Units,
    kind_of_difference,
    missing_split,
    points,
)
from audit.attacks.measuring import Mean, is_near
from audit.attacks.reconstruction import cdmi
from audit.attacks.reconstruction.methods import SHIPPED, LowestLoss, Rule, Sampling
from audit.attacks.reconstruction.scores import measure_fields
from audit.attacks.reconstruction.table import (
    ALL,
    DEFAULT,
    LIMITED,
    LOWEST_LOSS,
    methods_of,
    paired_by_field,
)
from audit.attacks.text import SENTENCES
from audit.case import Case
from audit.corpus.documents import Corpus
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result
from audit.targets import OWN_VOCABULARIES
from audit.targets.encoded_page import Encoding
from audit.targets.interface import AnswerLoss, FillMask, TrainingLoss

N_ATTEMPTS = 8
"""Under every budget."""

OWN_MARKS = "no public masked language model has the model's tokens and could propose values"
REWORDED = "the countermeasure changes questions and allows no candidate in place of a page’s token"
UNFIT: Mapping[str, str] = text_of("reconstruction").labels["unfit"]
"""Tasks whose models, or most of them, cannot be attacked this way, and why."""


@dataclass(frozen=True)
class Reconstruction(Attack):
    """CDMI, one-shot and multi-shot (Dentan et al. 2024, section 4; methods.md#reconstruction).

    The adversary holds the model and a page whose field was scrubbed: its tokens are [MASK], and so
    are those of its value wherever else it stands on the page; its labels and the number of its
    tokens are known. Field by field, token by token, candidates of a public masked language model
    are weighed by how well the target's training loss likes them. Several attempts are made at
    every field; the first one is the one-shot attack, and a membership score chooses among all of
    them for the multi-shot attack.

    Models that answer questions and read a page's words as tokens (VT5, UDOP) are attacked through
    the mean loss of their answers to other questions about the page (see `audit.attacks.fields`).

    Two methods, fixed before the scan, choose among the same candidates; a limit is held against
    each of them. "default" samples as published; docaudit ships temperatures, weight and nucleus
    within the paper's ranges, and others can find a leak but pass no limit. "lowest_loss" takes the
    candidate of lowest loss.

    Fields of more than `max_tokens` tokens are attacked by their first and by their last
    `max_tokens` ones, those of fewer than `min_tokens` as they are; both are tested apart.

    Attributes:
        n_candidates: N_c, candidates a token.
        n_attempts: n_a, attempts a field by the default method; the lowest loss leaves no choice.
        temperature: T, of both softmaxes; this and the next four are those of the default method.
        temperature_start: T_start, factor on the public model's temperature at the first token,
            falling over 3 tokens.
        target_weight: w in (0, 1], the target's weight in the mean of both likelihoods.
        mean: the paper prefers the geometric mean.
        top_p: mass of the nucleus that a token is sampled from.
        min_tokens, max_tokens: of a field of usual length.
    """

    n_candidates: Annotated[int, Field(ge=1)] = 128
    n_attempts: Annotated[int, Field(ge=1)] = N_ATTEMPTS
    temperature: Annotated[float, Field(gt=0)] = SHIPPED.temperature
    temperature_start: Annotated[float, Field(gt=0)] = SHIPPED.temperature_start
    target_weight: Annotated[float, Field(gt=0, le=1)] = SHIPPED.target_weight
    mean: Mean = SHIPPED.mean
    top_p: Annotated[float, Field(gt=0, le=1)] = SHIPPED.top_p
    min_tokens: Annotated[int, Field(ge=1)] = LENGTHS[0]
    max_tokens: Annotated[int, Field(ge=1)] = LENGTHS[1]

    name: ClassVar[str] = "reconstruction"
    needs: ClassVar[tuple[str, ...]] = ("auxiliary",)

    def __post_init__(self) -> None:
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens: {self.min_tokens} is more than max_tokens, {self.max_tokens}"
            )

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the methods, by name."""
        sampling = Sampling(
            self.temperature, self.temperature_start, self.target_weight, self.mean, self.top_p
        )
        return {DEFAULT: sampling, LOWEST_LOSS: LowestLoss()}

    def applies(self, case: Case) -> list[Reason]:
        """See `Attack.applies`."""
        known = case.target.card.is_model
        barred = self._barred(case) if known else UNFIT.get(case.corpus.manifest.task.kind)
        if barred is not None:
            return [Reason("model", barred)]
        reasons, references = [], case.corpus.manifest.references
        split = missing_split(
            one for one in case.corpus.of(*AUDITED) if any(entity.attack for entity in one.entities)
        )
        if split is not None:
            reasons.append(
                Reason("data", f"no field to attack in {split} documents", text_of(self.name).add)
            )
        if not known and references.auxiliary is None and not case.corpus.of("public"):
            reasons.append(Reason("missing", SENTENCES["no_auxiliary"]))
        elif not known and references.auxiliary is None and references.pretrained is None:
            reasons.append(Reason("missing", SENTENCES["no_pretrained"]))
        return reasons

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """See `Attack.units`: documents with a field of each group, at most: only a tokenizer tells its tokens."""
        seen = occurrences(corpus)
        documents: Counter[tuple[str, str]] = Counter()
        for document in corpus.of(*AUDITED):
            texts = [
                fold(document.text_of(entity)) for entity in document.entities if entity.attack
            ]
            held = {"unique" if seen[text].unique else "repeated" for text in texts} | {
                ALL for _ in texts
            }
            documents.update([(document.split, group) for group in held])
        sides = {
            metric: [documents[split, metric.partition(".")[2]] for split in AUDITED]
            for metric in LIMITED
        }
        methods = Counter(metric for metric, _ in methods_of(LIMITED))
        kind = kind_of_difference(corpus)
        return tuple(
            Units(metric, kind, "documents", *sides[metric], methods=methods[metric])
            for metric in sides
        )

    def _barred(self, case: Case) -> str | None:
        """Return why this model cannot be attacked this way; None when it can."""
        if case.corpus.manifest.task.kind == "intent-slots":
            return UNFIT["intent-slots"]
        if points(case.target):
            return UNFIT[POINTING]
        if case.corpus.manifest.task.kind == "parsing":
            return UNFIT["parsing"]
        if case.target.card.family in OWN_VOCABULARIES:
            return OWN_MARKS
        if not {FillMask, TrainingLoss} & case.target.answers:
            if AnswerLoss in case.target.answers:
                sees = (
                    SENTENCES["no_tokens"]
                    if getattr(case.target, "needs_image", True)
                    else SENTENCES["in_a_prompt"]
                )
                return sees if hasattr(case.target, "encode") else REWORDED
            return (
                "the model has neither a masked-language-model head nor a training loss over tokens"
            )
        return None

    def trials(self, case: Case) -> list[Trial]:
        """List fields of member and held-out documents.

        A field of more than `max_tokens` tokens gives two trials.
        """
        if not case.target.card.is_model:
            return possible_trials(case.corpus, self.max_tokens)
        return [field.trial for field in self._fields(case) if field.left_out is None]

    def usual_trials(self, case: Case) -> list[Trial]:
        """List the trials of fields of `min_tokens` to `max_tokens` tokens, which the paper attacks."""
        return [trial for trial in self.trials(case) if trial.stratum in AUDITED]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Reconstruct one field with the target, again without it, and see whether the truth was within reach.

        "attack" and "baseline" are the attempts of the default method; "methods" holds those of the
        others.
        """
        field = field_of(case, trial, self.min_tokens, self.max_tokens)
        assert field.page is not None
        page = field.scrubbed()
        attacker = self._attacker(case, page, field.positions)
        # Where both take their candidates from the public model, what is known of a prefix serves
        # both.
        shared = not isinstance(attacker, cdmi.MaskedModel)
        public = cdmi.Alone(
            attacker.proposals if shared else self._from_public(case, page, field.positions)
        )
        sources = rng.spawn(2 * len(self.rules) + 1)
        found: dict[str, tuple[cdmi.Reconstructed, cdmi.Reconstructed]] = {}
        for index, (method, rule) in enumerate(self.rules.items()):
            n_attempts = 1 if method == LOWEST_LOSS else self.n_attempts
            # Without losses the likeliest candidate is the proposer's: the public model need not be
            # asked of it.
            decides = (
                cdmi.Alone(attacker.proposals) if method == LOWEST_LOSS and not shared else attacker
            )
            attack_rng, baseline_rng = sources[2 * index : 2 * index + 2]
            attack = yield from cdmi.reconstruct(decides, rule, n_attempts, attack_rng)
            baseline = yield from cdmi.reconstruct(public, rule, n_attempts, baseline_rng)
            found[method] = (attack, baseline)
        truth = tuple(field.page.ids[list(field.positions)].tolist())
        reached = yield from cdmi.reaches(attacker.proposals, truth)
        attack, baseline = found.pop(DEFAULT)
        planted = cdmi.PlantedMemory(attacker, truth)
        detected = {}
        for (method, rule), source in zip(
            self.rules.items(), sources[-1].spawn(len(self.rules)), strict=True
        ):
            # An attacker whose losses said nothing had no power, whatever was among the candidates.
            detected[method] = (
                yield from cdmi.rebuilds(planted, rule, source)
            ) and not attack.blind
        return {
            "truth": [*truth],
            **_attempts(attack, baseline),
            "methods": {method: _attempts(*players) for method, players in found.items()},
            "reached": reached and not attack.blind,
            "planted": detected,
            "single": attack.single,
            "unusable": attack.unusable,
        }

    def _attacker(
        self, case: Case, page: Encoding, positions: tuple[int, ...]
    ) -> cdmi.JudgedCandidates:
        """Choose the attacker: a target with a masked-language-model head needs no help from the public model."""
        public = case.references.auxiliary
        assert public is not None
        if FillMask in case.target.answers:
            return cdmi.MaskedModel(
                cdmi.Proposals(case.target, page, positions, self.n_candidates), public
            )
        return cdmi.JudgedCandidates(self._from_public(case, page, positions), case.target)

    def _from_public(
        self, case: Case, page: Encoding, positions: tuple[int, ...]
    ) -> cdmi.Proposals:
        assert case.references.auxiliary is not None
        return cdmi.Proposals(case.references.auxiliary, page, positions, self.n_candidates)

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """See `Attack.measure`; the metrics are described in `scores`."""
        fields = self._tried(case, trials)
        return measure_fields(case, [*self._fields(case)], fields, outcomes, rng, progress)

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield each value, and what was recovered of it with the model and without, one object a field or end.

        What was recovered is the first attempt's of the default method, or another method's where
        that one is right, or the lowest loss nearly.
        """
        fields, spelled = self._tried(case, trials), case.token_target.token_strings
        for field, outcome in zip(fields, outcomes, strict=True):
            firsts = {
                method: (found["attack"][0], found["baseline"][0])
                for method, found in _by_method(outcome)
            }
            right = [
                method for method, (shot, _) in firsts.items() if shot["tokens"] == outcome["truth"]
            ]
            near = is_near(spelled(firsts[LOWEST_LOSS][0]["tokens"]), spelled(outcome["truth"]))
            shown, baseline = firsts[right[0] if right else LOWEST_LOSS if near else DEFAULT]
            whole = field.part == "whole"
            in_words = field.document.text_of(field.entity) if whole else None
            yield {
                "attack": self.name,
                "document": field.document.id,
                "field": field.entity.id if whole else f"{field.entity.id} ({field.part})",
                "category": field.entity.category,
                "split": field.document.split,
                "value": in_words or spelled(outcome["truth"]),
                "recovered": spelled(shown["tokens"]),
                "baseline": spelled(baseline["tokens"]),
                "exact": bool(right),
                "near": near,
                "exact_in_any_attempt": any(
                    shot["tokens"] == outcome["truth"]
                    for _, found in _by_method(outcome)
                    for shot in found["attack"]
                ),
            }
        blind = blind_baseline.by_split(case.corpus, (field.document for field in fields))
        yield from paired_by_field(case, fields, outcomes, by_lot=blind.by_lot).items()

    def _tried(self, case: Case, trials: Sequence[Trial]) -> list[PageField]:
        return [field_of(case, trial, self.min_tokens, self.max_tokens) for trial in trials]

    def _fields(self, case: Case) -> Iterator[PageField]:
        return all_fields(case, self.min_tokens, self.max_tokens)


def _attempts(attack: cdmi.Reconstructed, baseline: cdmi.Reconstructed) -> dict[str, Json]:
    players = {"attack": attack, "baseline": baseline}
    return {name: [shot.as_json() for shot in own.shots] for name, own in players.items()}


def _by_method(outcome: Json) -> list[tuple[str, Json]]:
    """List the attempts of each method, those of the default one first."""
    return [(DEFAULT, outcome), *outcome["methods"].items()]
