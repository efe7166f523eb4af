"""The references that attacks on a model take: whether they are there, and how to get those that are not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from audit.attacks.battery import BATTERY
from audit.attacks.interface import Attack, why_inapplicable
from audit.case import Case
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.errors import DocauditError, TargetError
from audit.files import read_file
from audit.references.load import PROVIDE_EMBEDDER
from audit.references.locate import REFERENCE_NAMES
from audit.references.public_model import has_masked_head, proposed_to, provide
from audit.targets.checkpoint.content import is_adapter
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import Answer, AnswerLoss, Query, TrainingLoss
from audit.targets.opening import Checkpoint, device_named, open_model
from audit.workflows.checking import CheckedModel, check_model
from audit.workflows.plan.timing import seconds_of
from audit.workflows.setup import ScanSetup, usable_references

State = Literal["there", "offered", "trained by the scan", "can be trained", "missing"]
N_SPLITS = 16
"""Split models that `docaudit train-splits` trains if it is not told a number."""
PASS_SECONDS = 6.0
"""For the pass from which the time of a training is estimated (ours)."""
STEP = 3.0
"""A training step of a sample, in forward passes (ours): forward and backward."""
BESIDE = {
    "auxiliary": ("auxiliary", "public", "public-mlm", "roberta-base", "xlm-roberta-base"),
    "pretrained": ("pretrained", "base"),
    "baselines": ("baselines", "baseline"),
    "splits": ("splits",),
    "embedder": ("embedder", "all-MiniLM-L6-v2"),
}
"""Names of folders beside the model or in the data set that are offered as references (ours)."""


@dataclass(frozen=True)
class ReferenceNeed:
    """One reference and the attacks that take it.

    Attributes:
        name: of the reference, as `--reference` takes it.
        needed_by: attacks that cannot run without it.
        used_by: attacks that are weaker without it.
        state: "there": named in the manifest or on the command line; "offered": a folder beside the model looks like
            it; "trained by the scan": from what is there; "can be trained" by a command; else "missing".
        source: where it was found; empty where it was not.
        folders: its folders.
        how: the command, or what to give; empty for one that is there.
        seconds: the time that its training takes on this device, estimated from one pass; None: not known or none.
    """

    name: str
    needed_by: tuple[str, ...]
    used_by: tuple[str, ...]
    state: State
    source: str = ""
    folders: tuple[str, ...] = ()
    how: str = ""
    seconds: float | None = None


def list_references(
    data_dir: Path, model_dir: Path, given: Mapping[str, Sequence[Path]], device: str = "auto"
) -> tuple[ReferenceNeed, ...]:
    """List the references that the attacks which apply to a model take.

    Args:
        data_dir: the data set.
        model_dir: the checkpoint to be audited.
        given: folders by name, as a scan is given them.
        device: of the model.

    Raises:
        DocauditError: a scan would refuse the model.
    """
    corpus = manifest.load(data_dir)
    attacks = [kind.preset("standard") for kind in BATTERY]
    folder = open_model(model_dir, corpus, next(iter(given.get("pretrained", ())), None))
    checked = check_model(folder, corpus, attacks, device_named(device))
    return needs_of(checked, data_dir, model_dir, given)


def needs_of(
    checked: CheckedModel, data_dir: Path, model_dir: Path, given: Mapping[str, Sequence[Path]]
) -> tuple[ReferenceNeed, ...]:
    """The same of a model that was checked."""
    return _Search(checked, data_dir, model_dir, given).needs()


def missing(needs: Sequence[ReferenceNeed]) -> Iterator[str]:
    """Say, of each reference without which attacks are skipped, how to get it."""
    for need in needs:
        if need.needed_by and need.state in ("offered", "can be trained", "missing"):
            yield f"{', '.join(need.needed_by)}: skipped without the reference {need.name}: {need.how}"


def missing_references(opened: ScanSetup) -> tuple[str, ...]:
    """The same for a scan that was opened: the exact command for each reference that it lacks."""
    case = Case(opened.defended(opened.target), opened.corpus)
    attacks = tuple(attack for attack in opened.attacks if attack.inapplicable(case) is None)
    trials = {attack.name: attack.trials(case) for attack in attacks if attack.needs}
    checked = CheckedModel(opened.target, opened.corpus, opened.copies, opened.unread, attacks, trials)
    options = opened.options
    return tuple(missing(needs_of(checked, options.data_dir, options.model_dir, options.references)))


def attacks_with_references(opened: ScanSetup) -> frozenset[str]:
    """Names of the attacks that can be put to the model and for whose references somebody named a folder."""
    case = Case(opened.defended(opened.target), opened.corpus)
    named = opened.corpus.manifest.references
    given = {*opened.options.references, *(name for name in REFERENCE_NAMES if getattr(named, name))}
    if "pretrained" in given:
        given.add("auxiliary")  # trained from it
    return frozenset(
        attack.name
        for attack in opened.attacks
        if why_inapplicable(attack, case) is None and given.issuperset(attack.needs)
    )


@dataclass(frozen=True)
class _Search:
    checked: CheckedModel
    data_dir: Path
    model_dir: Path
    given: Mapping[str, Sequence[Path]]

    def needs(self) -> tuple[ReferenceNeed, ...]:
        attacks = [attack for attack in self.checked.applicable if self.checked.trials.get(attack.name)]
        taken = usable_references(attacks, self.checked.target)
        if not proposed_to(self.checked.target):
            taken.discard("auxiliary")
        if "auxiliary" in taken and self._trains_public():
            taken.add("pretrained")
        return tuple(self._need(name, attacks) for name in REFERENCE_NAMES if name in taken)

    def _need(self, name: str, attacks: Sequence[Attack]) -> ReferenceNeed:
        needed = tuple(attack.name for attack in attacks if name in attack.needs)
        used = tuple(attack.name for attack in attacks if name in attack.uses)
        if found := self._named(name):
            source, folders = found
            return ReferenceNeed(name, needed, used, "there", source, tuple(map(str, folders)))
        if offered := next(self._beside(name), None):
            how = f"docaudit scan {self.model_dir} {self.data_dir} --reference {name}={offered}"
            return ReferenceNeed(name, needed, used, "offered", "beside the model", (str(offered),), how)
        return ReferenceNeed(name, needed, used, *self._made(name))

    def _named(self, name: str) -> tuple[str, Sequence[Path]] | None:
        if name in self.given:
            return "command line", self.given[name]
        named = getattr(self.checked.corpus.manifest.references, name) or ()
        paths = [self.data_dir / path for path in ((named,) if isinstance(named, str) else named)]
        if not paths and name == "pretrained" and self._base is not None:
            return "what the adapter was trained on", [self._base]
        return ("manifest", paths) if paths else None

    @cached_property
    def _base(self) -> Path | None:
        """The model under an adapter."""
        if not is_adapter(self.model_dir):
            return None
        given = next(iter(self.given.get("pretrained", ())), None)
        base = open_model(self.model_dir, self.checked.corpus, given).base
        return None if base is None else base.own_path

    def _beside(self, name: str) -> Iterator[Path]:
        for place in (self.model_dir.resolve().parent, self.data_dir / "references", self.data_dir):
            for folder in (place / own for own in BESIDE[name]):
                holds = any(folder.glob("config.json")) or any(folder.glob("*/config.json"))
                alike = name != "pretrained" or _kind(folder) == _kind(self.model_dir)
                if holds and alike and folder.resolve() != self.model_dir.resolve():
                    yield folder

    def _made(self, name: str) -> tuple[State, str, tuple[str, ...], str, float | None]:
        """State, source, folders, command and seconds of a reference that nobody gave."""
        public = bool(self.checked.corpus.of("public"))
        start = self._start()
        if name == "auxiliary" and self._trains_public() and public:
            if start is not None:
                return "trained by the scan", "from pretrained and the public documents", (), "", None
            return "missing", "", (), provide(self.checked.target), None
        if name in ("baselines", "splits"):
            command = f"docaudit train-{'baseline' if name == 'baselines' else name} {self.data_dir} --out {name}"
            command += self._started_from(start)
            if name == "baselines" and not public:
                return "missing", "", (), "train one like the model on documents that are not audited", None
            count = 1 if name == "baselines" else N_SPLITS
            return "can be trained", "", (), command, _training(self.checked.corpus, count, self.pass_seconds)
        words = {
            "pretrained": "give the checkpoint that the model was fine-tuned from (--reference pretrained=PATH)",
            "embedder": PROVIDE_EMBEDDER,
        }
        return "missing", "", (), words.get(name) or provide(self.checked.target), None

    def _started_from(self, start: Path | None) -> str:
        """The end of a command that trains models as the audited one was."""
        if self._base is not None:
            # Its settings are read there; its base is looked for in the manifest and in them.
            named = f" --reference pretrained={self.model_dir}"
            try:
                open_model(self.model_dir, self.checked.corpus)
            except TargetError:
                return f"{named} (first name its base as references.pretrained in manifest.toml: {start})"
            return named
        if start is None:
            return " --reference pretrained=PATH (what the model was fine-tuned from)"
        return f" --reference pretrained={start}" if "pretrained" in self.given else ""

    def _trains_public(self) -> bool:
        target = self.checked.target
        return isinstance(target, EncoderTarget) and has_masked_head(target)

    def _start(self) -> Path | None:
        found = self._named("pretrained")
        return found[1][0] if found else None

    @cached_property
    def pass_seconds(self) -> float | None:
        """Seconds of one pass of one sample; None where there is none, or where it takes too long."""
        query = _sample(self.checked.target, self.checked.corpus)
        if query is None:
            return None
        ask = partial(self.checked.target.ask, [query])
        return None if seconds_of(ask, PASS_SECONDS) is None else seconds_of(ask, PASS_SECONDS)


def _kind(folder: Path) -> object:
    """The `model_type` of a folder; None where it says none."""
    try:
        return json.loads(read_file(folder / "config.json")).get("model_type")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def _sample(target: Checkpoint, corpus: Corpus) -> Query[object] | None:
    """A question about a document of training, whose answer takes one pass."""
    from audit.corpus.page_view import page_view
    from audit.targets.interface import MaskedLoss

    for document in corpus.of("member"):
        if AnswerLoss in target.answers and Answer in target.answers:
            asked = [question for question in document.questions if question.answers]
            if asked:
                return AnswerLoss(page_view(corpus, document), asked[0].question, asked[0].answers[0])
            continue
        page = target.encode(document)
        if page is not None and TrainingLoss in target.answers and page.has_loss:
            return TrainingLoss(page, 0, page.ids[:1])
        if page is not None and MaskedLoss in target.answers:
            return MaskedLoss(page, (min(1, len(page.ids) - 1),))
    return None


def _training(corpus: Corpus, count: int, pass_seconds: float | None) -> float | None:
    """Seconds of training so many models; None where it is not known."""
    if pass_seconds is None:
        return None
    # Imported here, as a scan that trains nothing starts sooner without.
    from audit.references.retrain import n_samples, recipe_for

    try:
        epochs = recipe_for(corpus).epochs
    except DocauditError:
        return None
    share = 1.0 if count == 1 else 0.5
    return count * share * epochs * n_samples(corpus, corpus.of("member")) * STEP * pass_seconds
