"""The cards of a record: what was audited, on which documents, where, when and within which bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.measurements import (
    STRICT,
    Estimate,
    Measurement,
    format_change,
    format_number,
    format_value,
)

SCANNED_WITH: Mapping[str, tuple[str, ...]] = {
    "question-answering": ("question-answering", "extractive-qa", "parsing"),
    "extractive-qa": ("question-answering",),
    "mlm": ("token-classification",),
}
"""By the task of a model, other tasks of documents that it may be scanned with.

A model that writes may be asked questions, or for a page's whole output; one that points at answers
is asked questions too; a masked language model learns the words of a page, whatever tags its fields
have.
"""
Revision = Annotated[str, Field(pattern=r"^[\w./-]+@[0-9a-f]{40}$")]
"""A commit of the Hub: ORG/MODEL@COMMIT, or datasets/ORG/NAME@COMMIT."""
NO_MODEL = "no model"
SERVED = "served"
"""The families on the cards of an audit of the text alone, and of a black box behind a server."""


@dataclass(frozen=True, config=STRICT)
class TargetCard:
    """What was audited, or a reference used for it.

    Attributes:
        name: the last part of the checkpoint's folder.
        architecture: family and head, e.g. "LayoutLM, masked language model".
        sha256: over the configuration, the tokenizer and the weights.
        max_tokens: the longest page the model reads, special tokens included.
        dtype: what it was loaded in.
        epoch, step: how far its training had come, when the checkpoint says so
            (trainer_state.json).
        resolution: height and width in pixels of the page images it sees, when it sees some and
            they are all alike.
        files: the sha256 of every file that decides what it does, by its path in the folder, as
            `sha256sum` prints it.
        lifted: settings of its generation_config.json that would keep answers from being given, by
            name; the audit asks without them.
        revision: the commit of the Hub whose snapshot its folder is, when it is one.
        unrun_code: the sha256 of the files of code in its folder that its settings name, by their
            paths in it. None of them was run: transformers' own class was audited.
    """

    name: str
    family: str
    task: str
    architecture: str
    parameters: int
    vocabulary: int
    max_tokens: int
    sha256: str
    device: str
    dtype: str
    epoch: float | None = None
    step: int | None = None
    resolution: tuple[int, int] | None = None
    lifted: tuple[str, ...] = ()
    files: dict[str, str] = Field(default_factory=dict)
    revision: Revision | None = None
    unrun_code: dict[str, str] = Field(default_factory=dict)

    @property
    def is_model(self) -> bool:
        """Test whether a model was audited, rather than the text of a data set alone."""
        return self.family != NO_MODEL


_Many = Annotated[int, Field(ge=0, le=2**53)]
_Some = Annotated[int, Field(ge=1, le=2**53)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Rate = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class PrivacyCard:
    """The guarantee that the training of a model claims (methods/dp-training.md).

    A scan cannot verify it.

    It is numbers and codes alone, so that a checkpoint's own card brings no text into a record.

    Attributes:
        unit: whoever is protected as a whole.
        n_units: N.
        epsilon, delta: the guarantee; epsilon is None where coins or noise could be drawn again.
        noise_multiplier: sigma: the noise of a sum has standard deviation sigma * max_norm.
        max_norm: C, to which a unit's contribution is clipped.
        sample_rate: q, the probability that a unit takes part in a step.
        steps: taken, those that a killed run spent among them.
        per_unit: documents of a unit at most; None: all.
        local_steps: passes over a unit's documents that make its contribution; 0: it is a gradient.
        clients: parties of a federated training; None: a central one.
        client_rate: the probability that a client takes part in a round.
        accountant: the version of Opacus, whose PRV accountant it is.
        optimizer: optimizer of noisy sums, with `learning_rate`; "add": the mean change is added.
        trained: adapters on queries and values with their rank, the head, or all weights.
        embeddings: whether embeddings were trained.
        head: whether the head was.
        trained_parameters, frozen_parameters: number of parameters that are trained, and that are
            not.
        secure: whether coins and noise came from the operating system; else anybody can draw them
            again from a seed.
        weights: sha256 of the weights that it is about.
        curve: further points of the same training's privacy curve, each an epsilon and its delta,
            as the scan computed them from the numbers of this card; empty where it did not.
    """

    unit: Literal["document", "provider"]
    n_units: Annotated[int, Field(ge=2, le=2**53)]
    epsilon: _Positive | None
    delta: Annotated[float, Field(gt=0, le=0.5)]
    noise_multiplier: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    max_norm: _Positive
    sample_rate: _Rate
    steps: _Many
    per_unit: _Some | None
    local_steps: _Many
    clients: _Some | None
    client_rate: _Rate
    accountant: Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$")]
    optimizer: Literal["adam", "sgd", "add"]
    learning_rate: _Positive
    trained: Annotated[str, Field(pattern=r"^(lora:[1-9][0-9]{0,3}|head|full)$")]
    embeddings: bool
    head: bool
    trained_parameters: _Many
    frozen_parameters: _Many
    secure: bool
    weights: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    curve: tuple[tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0, le=1)]], ...] = (
        Field(default=(), max_length=64)
    )

    @property
    def expected_units(self) -> float:
        """Return q N, by which every noisy sum is divided."""
        return self.sample_rate * self.n_units

    @property
    def unit_rate(self) -> float:
        """Return the probability that a unit takes part in a step of its client."""
        return min(1.0, self.sample_rate / self.client_rate)


@dataclass(frozen=True, config=STRICT)
class ReferenceCard:
    """A model that never saw the audited documents: its role, where it came from, and its card.

    Attributes:
        source: who named it; "adapter": it is the base that the audited adapter names.
        recipe: recipe by which docaudit trained it.
        corpus: name and sha256 of the data set it was trained on, when docaudit trained it on
            another than the audited.
    """

    role: str
    source: Literal["manifest", "command line", "adapter", "trained"]
    card: TargetCard
    recipe: dict[str, Any] | None = None
    corpus: str | None = None


@dataclass(frozen=True, config=STRICT)
class Forgotten:
    """The list of documents that the model was to forget, as its owner gave it.

    Attributes:
        listed: number of documents in it.
        sha256: sha256 of their ids, sorted, each with a line feed behind it.
        shown: smallest limit by limited metric that so many documents can show.
    """

    listed: int
    sha256: str
    shown: dict[str, float]


@dataclass(frozen=True, config=STRICT)
class CorpusCard:
    """The data set: counts only.

    Attributes:
        fields: the fields marked for attack, by split and category.
        providers: providers of all splits together.
        questions: questions by split.
        drawn: the day on which docaudit drew the membership, when it did; it says nothing of a
            model trained before.
        drawn_by: the command that drew it.
        left_out: number of documents that a list left out of the training set.
        revision: the commit of the Hub that it was imported from, or whose snapshot its folder is,
            when it is one.
        checkpoint_chosen_on: the split whose documents chose the target's checkpoint, when the
            owner says so.
        near_copies: documents by split that were left out because they copy one of another split;
            `documents` and all other counts are without them, and without the next.
        unread: documents by split that were left out because they name labels or intents that the
            model lacks, or because it points at words, and no answer to their questions stands on
            the page.
        unread_questions: questions by split of other documents that were left out because the model
            points at words of the page, and their answer does not stand there.
        forgotten: the documents that the model was to forget, where these alone are its members;
            None: all members are.
    """

    name: str
    sha256: str
    task: str
    assigned: str
    documents: dict[str, int]
    fields: dict[str, dict[str, int]]
    providers: int
    images: int
    checkpoint_chosen_on: Literal["member", "heldout", "public"] | None = None
    questions: dict[str, int] = Field(default_factory=dict)
    near_copies: dict[str, int] = Field(default_factory=dict)
    unread: dict[str, int] = Field(default_factory=dict)
    unread_questions: dict[str, int] = Field(default_factory=dict)
    drawn: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")
    drawn_by: Literal["docaudit import", "docaudit init"] | None = None
    left_out: int = Field(default=0, ge=0)
    revision: Revision | None = None
    forgotten: Forgotten | None = None

    @property
    def draw(self) -> str:
        """Describe in words how membership was drawn, and what a list left out.

        Empty where docaudit did neither.
        """
        parts = []
        if self.drawn is not None:
            parts.append(f"membership was drawn by {self.drawn_by or 'docaudit'} on {self.drawn}")
        if self.left_out:
            parts.append(f"a list left {self.left_out:,} documents out of the training set")
        return "; ".join(parts)


@dataclass(frozen=True, config=STRICT)
class Environment:
    """Where the audit ran, in general terms, and the versions that matter.

    `batch_tokens` (padded tokens of a forward pass of the target, as the device allows or the user
    asked), `batches_lowered` (how often they were halved since, because memory ran out in this
    process) are given on GPUs, where results depend on them in the last bits; `batch_rows` (samples
    of a forward pass) of every model that answers questions. `ocr` is the program that proves that
    an answer is off a page, when it is there.
    """

    docaudit: str
    python: str
    system: str
    device: str
    threads: int
    packages: dict[str, str]
    batch_tokens: int | None = None
    batches_lowered: int | None = None
    batch_rows: int | None = None
    ocr: str | None = None


@dataclass(frozen=True, config=STRICT)
class Timing:
    """All that differs between two runs of the same audit.

    Attributes:
        seconds: seconds that this run took.
        outcomes: outcomes of the trials of all attacks.
        resumed: number of these that were read from the journals of earlier runs.
        oldest, newest: when the first and the last of these were computed; None where all are this
            run's own, or where nothing says when the first one was.
        same_policy: whether the runs that began these journals declared the record's policy, before
            any trial.
    """

    started: str
    finished: str
    seconds: float
    outcomes: int = 0
    resumed: int = 0
    oldest: str | None = None
    newest: str | None = None
    same_policy: bool = False

    @property
    def origin(self) -> str:
        """Describe the outcomes that earlier runs computed, in an unended sentence.

        Empty when there are none.
        """
        if self.oldest is None:
            unknown = (
                "read from the journal, which does not say when the first of them was computed"
            )
            return (
                f"{self.resumed:,} of {self.outcomes:,} outcomes were {unknown}"
                if self.resumed
                else ""
            )
        first = self.oldest[:10]
        last = (self.newest or self.oldest)[:10]
        when = f"on {first}" if first == last else f"from {first} to {last}"
        return f"{self.resumed:,} of {self.outcomes:,} outcomes were computed {when} and read from the journal"


@dataclass(frozen=True, config=STRICT)
class Bounds:
    """What bounded the trials of a scan beside its budget; set before any outcome was seen.

    Attributes:
        documents: units of member and held-out documents together, at most; None: no bound.
        seconds: seconds for the attacks; None: no bound.
        part: part of the units of each side, what was expected to fit into that time.
    """

    documents: int | None
    seconds: float | None
    part: float


@dataclass(frozen=True, config=STRICT)
class DeclaredPolicy:
    """The policy that was declared when the scan began (`Timing.started`), before any trial of it.

    Attributes:
        name: name as its file has it.
        sha256: sha256 of the file.
        shipped: whether docaudit ships this very file.
        toml: the whole file.
    """

    name: str
    sha256: str
    shipped: bool
    toml: str


Release = Literal["open-weights", "api", "internal"]
"""To whom a model goes."""
RELEASES: tuple[Release, ...] = get_args(Release)


@dataclass(frozen=True, config=STRICT)
class AuditSheet:
    """The circumstances of an audit as its owner states them; None: not stated.

    docaudit verifies none of it.

    Attributes:
        system: system that the model is part of.
        controller: who answers for the processing of the documents.
        purpose: purpose of the system.
        model_name, model_version: name and version as the owner calls the model.
        data_categories: data categories of personal data in the documents of training.
        release: to whom the model goes: its weights to everybody, its answers to strangers, or
            neither.
        auditor: who ran the scan.
        decides: who decides on the deployment.
        dpo: the data-protection officer.
    """

    system: str | None = None
    controller: str | None = None
    purpose: str | None = None
    model_name: str | None = None
    model_version: str | None = None
    data_categories: tuple[str, ...] = ()
    release: Release | None = None
    auditor: str | None = None
    decides: str | None = None
    dpo: str | None = None


ExportOutcome = Literal["more", "no more", "undecided"]
"""Whether an export leaks more than the model that it was made of, the worst first but for the
last."""
EXPORT_WORDS: Mapping[ExportOutcome, str] = {
    "more": "leaks more than the audited model",
    "no more": "leaks no more than the audited model",
    "undecided": "undecided whether it leaks more than the audited model",
}
"""What every output says of an outcome."""


@dataclass(frozen=True, config=STRICT)
class ExportNumber:
    """A number of an audited model and of its export, from the same trials.

    Attributes:
        limits: metrics that the policy limits and that this number answers for.
        before, after: of the audited model, and of the export; None: not measured.
        difference: export minus audited model; of an area, of its distance from chance. None where
            either lacks the number.
        p_adjusted: two-sided p of the difference, after Holm over all compared numbers.
        paired: whether units were compared one by one.
        margin: growth within which the export still leaks no more. None: the number is a count or
            alike, and can only show that it leaks more.
        is_lost: whether the audited model has the number and the export does not.
        reason: why it is undecided; empty otherwise.
    """

    attack: str
    metric: str
    limits: tuple[str, ...]
    outcome: ExportOutcome
    before: Measurement | None
    after: Measurement | None
    difference: Estimate | None = None
    p_adjusted: float | None = None
    paired: bool = False
    margin: float | None = None
    is_lost: bool = False
    reason: str = ""

    @property
    def upper(self) -> float:
        """Return the one-sided upper bound of the difference; infinite without a difference."""
        if self.difference is None:
            return float("inf")
        return self.difference.pass_bound.upper

    @property
    def words(self) -> str:
        """Describe the number in one line: before and after, the change, and what it may be."""
        after = format_value(self.after) if isinstance(self.after, Estimate) else "none"
        sizes = f"{self.metric} {format_value(self.before)} before, {after} now"
        if self.difference is None:
            return sizes
        change = f"{sizes}, change {format_change(self.difference)}"
        if not self.paired:
            change = f"{change}, not paired"
        if self.margin is None or self.outcome == "more":
            return change
        bound = f"it grew by at most {format_number(self.upper)} (95 % sure)"
        return f"{change}; {bound}, and under {format_number(self.margin)} counts as no more"


def _weight_of(number: ExportNumber) -> tuple[bool, bool, bool, float]:
    """Return what makes a number decide about its attack before others, as a key to sort by."""
    return (
        number.outcome == "more",
        number.margin is not None,
        number.outcome == "undecided",
        number.upper,
    )


@dataclass(frozen=True, config=STRICT)
class DerivedFrom:
    """The audited model that this one is an export of, and whether the export leaks more.

    Attributes:
        record_sha256: of the file of the audited model's record.
        subject, model_sha256: name and digest of the audited model.
        scanned: when its scan began.
        docaudit: version of that scan.
        numbers: every number under a limit of the policy that the audited model has.
        notes: what differs between both scans all the same, in sentences.
        incomparable: why no number could be compared; empty where they could.
    """

    record_sha256: str
    subject: str
    model_sha256: str
    scanned: str
    docaudit: str
    numbers: tuple[ExportNumber, ...] = ()
    notes: tuple[str, ...] = ()
    incomparable: str = ""

    @property
    def attacks(self) -> tuple[str, ...]:
        """Return the attacks that are compared, each once."""
        return tuple(dict.fromkeys(number.attack for number in self.numbers))

    def deciding(self, attack: str) -> ExportNumber:
        """Return the number of an attack that decides about it: the worst one.

        A number without a margin decides only where it shows that the export leaks more, or where
        the attack has no other.
        """
        numbers = [number for number in self.numbers if number.attack == attack]
        return max(numbers, key=_weight_of)

    @property
    def outcome(self) -> ExportOutcome:
        """Return the outcome of all attacks together: no more only where each leaks no more."""
        outcomes = set()
        for attack in self.attacks:
            outcomes.add(self.deciding(attack).outcome)
        if "more" in outcomes:
            return "more"
        if outcomes == {"no more"}:
            return "no more"
        return "undecided"
