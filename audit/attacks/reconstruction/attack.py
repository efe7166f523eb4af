"""The CDMI attack: algorithm 2 of the paper, its baseline, and the attacker's own ceiling."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

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
from audit.attacks.questions import all_questions
from audit.attacks.reconstruction import cdmi
from audit.attacks.reconstruction.methods import SHIPPED, LowestLoss, Rule, Sampling
from audit.attacks.reconstruction.recollected import (
    WORDS,
    evidence_of_recollected,
    measure_recollected,
)
from audit.attacks.reconstruction.recollection import recollect, recollects, reference_of
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
from audit.corpus.documents import Corpus, Document, Split
from audit.corpus.folding import fold, occurrences
from audit.engine.interface import Attempt, Json, Progress, Trial
from audit.record import Reason, Result
from audit.targets import OWN_VOCABULARIES
from audit.targets.encoded_page import Encoding
from audit.targets.interface import FillMask, TrainingLoss

N_ATTEMPTS = 8
"""Under every budget."""

OWN_MARKS = "no public masked language model has the model's tokens and could propose values"
NO_LOSS = "the model has neither a masked-language-model head nor a training loss over tokens"
ADD_QUESTIONS: str = text_of("memorisation").add
UNFIT: Mapping[str, str] = text_of("reconstruction").labels["unfit"]
"""Tasks whose models, or most of them, cannot be attacked this way, and why."""


@dataclass(frozen=True)
class Reconstruction(Attack):
    """CDMI, one-shot and multi-shot (Dentan et al. 2024, section 4; methods/reconstruction.md).

    The adversary holds the model and a page whose field was scrubbed: its tokens are [MASK], and so
    are those of its value wherever else it stands on the page; its labels and the number of its
    tokens are known. Field by field, token by token, candidates of a public masked language model
    are weighed by how well the target's training loss likes them. Several attempts are made at
    every field; the first one is the one-shot attack, and a membership score chooses among all of
    them for the multi-shot attack.

    Models that answer questions and read a page's words as tokens (VT5, UDOP) are attacked through
    the mean loss of their answers to other questions about the page (see `audit.attacks.fields`).
    Other models that answer questions propose values themselves, and no limit is held against that
    (see `recollection`).

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
        n_pages: pages that a model which proposes values itself is asked about; 0: it is not tried,
            as no limit is held against that.
        min_tokens, max_tokens: smallest and largest number of tokens of a field of usual length.
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
    n_pages: Annotated[int, Field(ge=0)] = 8

    name: ClassVar[str] = "reconstruction"
    needs: ClassVar[tuple[str, ...]] = ("auxiliary",)
    uses: ClassVar[tuple[str, ...]] = ("pretrained",)

    def __post_init__(self) -> None:
        """Refuse a `min_tokens` above `max_tokens`."""
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens: {self.min_tokens} is more than max_tokens, {self.max_tokens}"
            )

    @property
    def rules(self) -> Mapping[str, Rule]:
        """Return the rules that choose tokens, by the name of the method."""
        sampling = Sampling(
            self.temperature, self.temperature_start, self.target_weight, self.mean, self.top_p
        )
        return {DEFAULT: sampling, LOWEST_LOSS: LowestLoss()}

    def applies(self, case: Case) -> list[Reason]:
        """Return why values of fields cannot be reconstructed."""
        barred = self._barred(case)
        if barred is not None:
            return [Reason("model", barred)]
        if recollects(case):
            if not self.n_pages:
                return [Reason("budget", WORDS["untried"], WORDS["try"])]
            return [*_weaknesses_of_recollection(case)]
        reasons = []
        split = missing_split(filter(_has_field, case.corpus.of(*AUDITED)))
        if split is not None:
            reasons.append(
                Reason("data", f"no field to attack in {split} documents", text_of(self.name).add)
            )
        lacking = _missing_reference(case)
        if lacking is not None:
            reasons.append(Reason("missing", lacking))
        return reasons

    def compared_with(self, case: Case) -> tuple[str, ...]:
        """Return the role that the model is compared with: that which it takes."""
        return self.uses if recollects(case) else self.needs

    def parameters_on(self, case: Case) -> dict[str, Any]:
        """Return the pages of a model that proposes values itself, else all other parameters."""
        others = asdict(self)
        n_pages = others.pop("n_pages")
        return {"n_pages": n_pages} if recollects(case) else others

    def unlimited(self, case: Case) -> str | None:
        """Return why no limit is held against values that the model proposes itself."""
        return WORDS["no_limit"] if recollects(case) else None

    def units(self, corpus: Corpus) -> tuple[Units, ...]:
        """Count documents with a field of each group.

        They are the most that there can be: only a tokenizer tells the tokens of a field.
        """
        seen = occurrences(corpus)
        documents: Counter[tuple[Split, str]] = Counter()
        for document in corpus.of(*AUDITED):
            groups = set()
            for entity in document.entities:
                if entity.attack:
                    unique = seen[fold(document.text_of(entity))].unique
                    groups |= {"unique" if unique else "repeated", ALL}
            documents.update((document.split, group) for group in groups)
        methods = Counter(metric for metric, _ in methods_of(LIMITED))
        kind = kind_of_difference(corpus)
        units = []
        for metric in LIMITED:
            group = metric.partition(".")[2]
            sides = [documents[split, group] for split in AUDITED]
            units.append(Units(metric, kind, "documents", *sides, methods=methods[metric]))
        return tuple(units)

    def _barred(self, case: Case) -> str | None:
        """Return why this model, or any for the task, cannot be attacked; None when it can."""
        if not case.target.card.is_model:
            return UNFIT.get(case.corpus.manifest.task.kind)
        if case.corpus.manifest.task.kind == "intent-slots":
            return UNFIT["intent-slots"]
        if points(case.target):
            return UNFIT[POINTING]
        if recollects(case):
            return None
        if case.target.card.family in OWN_VOCABULARIES:
            return OWN_MARKS
        return None if {FillMask, TrainingLoss} & case.target.answers else NO_LOSS

    def trials(self, case: Case) -> list[Trial]:
        """List fields of member and held-out documents; questions where the model proposes values.

        A field of more than `max_tokens` tokens gives two trials.
        """
        if recollects(case):
            return [question.trial for question in all_questions(case.corpus)]
        if not case.target.card.is_model:
            return possible_trials(case.corpus, self.max_tokens)
        return [field.trial for field in self._fields(case) if field.left_out is None]

    def usual_trials(self, case: Case) -> list[Trial]:
        """List the trials of fields of `min_tokens` to `max_tokens` tokens, as in the paper."""
        return [trial for trial in self.trials(case) if trial.stratum in AUDITED]

    def attempt(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Reconstruct one value with the target, and again without it.

        The outcome of a model that proposes values itself is that of `recollect`.
        """
        if recollects(case):
            return (yield from recollect(case, trial, self.n_pages, rng))
        return (yield from self._attempt_field(case, trial, rng))

    def _attempt_field(self, case: Case, trial: Trial, rng: Rng) -> Attempt:
        """Reconstruct one field by algorithm 2.

        "attack" and "baseline" are the attempts of the default method; "methods" holds those of the
        others. "reached" says whether the truth was within reach.
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
        attempts: dict[str, tuple[cdmi.Reconstructed, cdmi.Reconstructed]] = {}
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
            attempts[method] = (attack, baseline)
        truth = tuple(field.page.ids[list(field.positions)].tolist())
        reached = yield from cdmi.reaches(attacker.proposals, truth)
        attack, baseline = attempts.pop(DEFAULT)
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
            "methods": {method: _attempts(*players) for method, players in attempts.items()},
            "reached": reached and not attack.blind,
            "planted": detected,
            "single": attack.single,
            "unusable": attack.unusable,
        }

    def _attacker(
        self, case: Case, page: Encoding, positions: tuple[int, ...]
    ) -> cdmi.JudgedCandidates:
        """Choose the attacker: a target that fills masks proposes tokens itself.

        A target with a masked-language-model head needs no help from the public model.
        """
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
        """Return the source of candidates for a field's tokens, which the public model proposes."""
        assert case.references.auxiliary is not None
        return cdmi.Proposals(case.references.auxiliary, page, positions, self.n_candidates)

    def measure(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes, rng: Rng, progress: Progress
    ) -> Result:
        """Reduce the outcomes to the shares of values that are reconstructed; see `scores`."""
        if recollects(case):
            return measure_recollected(case, trials, outcomes, rng, progress)
        fields = self._tried(case, trials)
        return measure_fields(case, [*self._fields(case)], fields, outcomes, rng, progress)

    def evidence(
        self, case: Case, trials: Sequence[Trial], outcomes: Outcomes
    ) -> Iterator[Evidence]:
        """Yield each value, and what was recovered of it with the model and without.

        One object is yielded a field or end. What was recovered is the first attempt's of the
        default method, or another method's where that one is right, or the lowest loss nearly.
        """
        if recollects(case):
            yield from evidence_of_recollected(case, trials, outcomes)
            return
        fields = self._tried(case, trials)
        spelled = case.token_target.token_strings
        for field, outcome in zip(fields, outcomes, strict=True):
            yield {"attack": self.name, **_describe_field(field, outcome, spelled)}
        blind = blind_baseline.by_split(case.corpus, (field.document for field in fields))
        yield from paired_by_field(case, fields, outcomes, by_lot=blind.by_lot).items()

    def _tried(self, case: Case, trials: Sequence[Trial]) -> list[PageField]:
        """Return the field that each trial is about, in the order of the trials."""
        return [field_of(case, trial, self.min_tokens, self.max_tokens) for trial in trials]

    def _fields(self, case: Case) -> Iterator[PageField]:
        """Yield all fields of the case that may be attacked, within this attack's lengths."""
        return all_fields(case, self.min_tokens, self.max_tokens)


def _weaknesses_of_recollection(case: Case) -> Iterator[Reason]:
    """Yield why nothing can be asked of a model that proposes values, or only a weak attack."""
    split = missing_split(question.document for question in all_questions(case.corpus))
    if split is not None:
        yield Reason("data", f"no question with an answer in {split} documents", ADD_QUESTIONS)
    if reference_of(case) is None:
        yield Reason("weak", WORDS["no_reference"], "(give --reference pretrained=PATH)")


def _has_field(document: Document) -> bool:
    """Test whether a document has a field to attack."""
    return any(entity.attack for entity in document.entities)


def _missing_reference(case: Case) -> str | None:
    """Describe, before there is a model, which reference nobody gives; None where nothing lacks."""
    references = case.corpus.manifest.references
    if case.target.card.is_model or references.auxiliary is not None:
        return None
    if not case.corpus.of("public"):
        return SENTENCES["no_auxiliary"]
    if references.pretrained is None:
        return SENTENCES["no_pretrained"]
    return None


def _describe_field(
    field: PageField, outcome: Json, spelled: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Describe what was recovered of one field, see `Reconstruction.evidence`."""
    truth = outcome["truth"]
    attempts = dict(_by_method(outcome))
    right = [
        method for method, players in attempts.items() if players["attack"][0]["tokens"] == truth
    ]
    near = is_near(spelled(attempts[LOWEST_LOSS]["attack"][0]["tokens"]), spelled(truth))
    if right:
        method = right[0]
    elif near:
        method = LOWEST_LOSS
    else:
        method = DEFAULT
    exact_in_any_attempt = False
    for players in attempts.values():
        if any(shot["tokens"] == truth for shot in players["attack"]):
            exact_in_any_attempt = True
    name = field.entity.id
    value = spelled(truth)
    if field.part == "whole":
        value = field.document.text_of(field.entity) or value
    else:
        name += f" ({field.part})"
    return {
        "document": field.document.id,
        "field": name,
        "category": field.entity.category,
        "split": field.document.split,
        "value": value,
        "recovered": spelled(attempts[method]["attack"][0]["tokens"]),
        "baseline": spelled(attempts[method]["baseline"][0]["tokens"]),
        "exact": bool(right),
        "near": near,
        "exact_in_any_attempt": exact_in_any_attempt,
    }


def _attempts(attack: cdmi.Reconstructed, baseline: cdmi.Reconstructed) -> dict[str, Json]:
    """Convert what target and public model reconstructed to JSON for the journal."""
    return {
        "attack": [shot.as_json() for shot in attack.shots],
        "baseline": [shot.as_json() for shot in baseline.shots],
    }


def _by_method(outcome: Json) -> list[tuple[str, Json]]:
    """List the attempts of each method, those of the default one first."""
    return [(DEFAULT, outcome), *outcome["methods"].items()]
