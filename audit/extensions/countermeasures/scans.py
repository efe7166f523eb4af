"""Run the scans that a comparison needs: the model as it is, and with a countermeasure in place."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from audit.attacks.questions import PROVEN
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.defenses.interface import Defense
from audit.engine.interface import Progress
from audit.engine.journal import exclusive
from audit.errors import ManifestError, TargetError
from audit.extensions.countermeasures.interface import TrainingDefense
from audit.failures import guarded
from audit.measurements import Estimate
from audit.policy import Policy, Verdict
from audit.record import AuditRecord
from audit.references import TEXTS
from audit.references.retrain import check_start, start_of
from audit.references.training import material, train_baseline
from audit.report.files import remove_stale
from audit.stats.estimates import estimate
from audit.stats.paired import Ratios
from audit.stats.rates import excess_rate
from audit.targets.checkpoint.content import is_adapter
from audit.targets.opening import device_named, open_model, trainer_of
from audit.targets.utility import usefulness_by_document
from audit.workflows.options import ScanOptions, hold_evidence, writing
from audit.workflows.run import read_outcomes, settle_sampling
from audit.workflows.sampling import Sampling
from audit.workflows.scan import audit_checkpoint
from audit.workflows.session import Session, open_session

Answers = tuple[npt.ArrayLike, Sequence[str]]
MIN_DOCUMENTS = 2
"""Fewer documents of a split have no interval."""


@dataclass(frozen=True, eq=False)
class ScanOfSide:
    """A scan that has run.

    Attributes:
        session: the scan as it was opened; its evidence holds the values of units.
        record: record of the scan.
        verdict: verdict on it.
        useful: sums by measure behind the usefulness.
    """

    session: Session
    record: AuditRecord
    verdict: Verdict
    useful: Mapping[str, Ratios]


Choose = Callable[[Session, Progress], Sampling]
"""Chooses the trials that a scan takes."""


def of_least_shares(session: Session, _: Progress) -> Sampling:
    """Return the sampling of the least share of every attack, however fast each is."""
    return session.sampling.with_least_shares()


def chosen_by_time(session: Session, progress: Progress) -> Sampling:
    """Return the sampling as time chose it, in this scan or in the one whose journals it has."""
    return settle_sampling(session, progress).sampling


def run_side(
    options: ScanOptions, policy: Policy, progress: Progress, choose: Choose = of_least_shares
) -> Generator[str, None, ScanOfSide]:
    """Yield progress, and return the scan of the model before or with a countermeasure.

    Args:
        options: options of the scan.
        policy: policy by which it is judged.
        progress: receiver of the progress of every trial.
        choose: chooses the trials of the opened scan.

    Yields:
        Warnings as they arise.

    Raises:
        DocauditError: the scan cannot start or go on.
    """
    session = open_session(options)
    session = replace(session, sampling=choose(session, progress))
    yield from session.warnings
    result = audit_checkpoint(session, policy, progress)
    yield from result.warnings
    useful = usefulness_by_document(session.case.target, session.corpus, options.seed)
    return ScanOfSide(session, result.record, result.verdict, useful)


def check(defense: Defense, options: ScanOptions) -> None:
    """Refuse early what would stop the countermeasure after hours of the scan without it.

    Raises:
        DocauditError: the countermeasure is none for this model or data set.
    """
    corpus = manifest.load(options.data_dir)
    asks = corpus.manifest.task.asks
    has_baselines = bool(options.references.get("baselines", corpus.manifest.references.baselines))
    if asks and not has_baselines and corpus.of("public"):
        # Without public documents nobody can train any, and the scan before had none either.
        raise TargetError(
            "a countermeasure is measured against baselines, and there are none", TEXTS["baselines"]
        )
    if isinstance(defense, TrainingDefense):
        start = _pretrained_start(defense, corpus, options)
        check_start(corpus, start, options.model_dir)
        defense.check(corpus, start)
        if defense.baselines_like and asks and has_baselines:
            material(corpus)


def count_baselines(record: AuditRecord) -> int:
    """Count the baselines of a scan, as many of which are trained with a countermeasure."""
    return sum(card.role.startswith("baseline-") for card in record.references)


def apply(
    defense: Defense, options: ScanOptions, out: Path, count: int, progress: Progress
) -> ScanOptions:
    """Return options for a scan with the countermeasure: trained, or wrapped around the model.

    Where it trains, the model comes first, and `count` baselines.

    Returns:
        The scan with it, into `out`, which lies below `options.out`.
    """
    after = options.below(*out.relative_to(options.out).parts)
    if not isinstance(defense, TrainingDefense):
        return replace(after, defense=defense.name)
    corpus = manifest.load(options.data_dir)
    start = _pretrained_start(defense, corpus, options)
    # They hold the data set's pages, so they are kept where only the owner looks.
    device = device_named(options.device)
    models = options.evidence / "models"
    trained = defense.train(corpus, start, models, device=device, progress=progress)
    references = options.references
    if defense.baselines_like and count and _trains_alike(corpus):
        # A model trained otherwise is held against baselines trained in that way too.
        data = manifest.load(trained.data)
        began = trained.start or start
        baselines = train_baseline(
            began, data, models / "baselines", count=count, device=device, progress=progress
        )
        # Split models of the plain recipe say nothing about this one.
        references = {**references, "baselines": baselines, "splits": ()}
    made_by = (defense.title,)
    return replace(after, model_dir=trained.model, references=references, derived_by=made_by)


def _trains_alike(corpus: Corpus) -> bool:
    """Test whether baselines can be trained with a countermeasure.

    Where no public document stands in for the members, only a model that is asked needs them.
    """
    if corpus.manifest.task.asks:
        return True
    try:
        material(corpus)
    except ManifestError:
        return False
    return True


def refusals_as_sign(
    side: ScanOfSide, defense: Defense, rng: np.random.Generator, progress: Progress
) -> Generator[str, None, Estimate | None]:
    """Measure how well a taught refusal tells members from held-out pages, the answers removed.

    Yields:
        Why it is not measured.

    Returns:
        The AUC; None where no refusal is taught, or too few documents were asked about.
    """
    if not (
        isinstance(defense, TrainingDefense)
        and defense.teaches_refusal
        and side.record.completed.get("memorisation")
    ):
        return None
    planned, outcomes = read_outcomes(side.session, "memorisation", progress)
    members = {document.id for document in planned.case.corpus.of("member")}
    sides: dict[bool, tuple[list[float], list[str]]] = {True: ([], []), False: ([], [])}
    for trial, outcome in zip(planned.trials, outcomes, strict=True):
        replies = outcome.get("replies", {}).get("exact")
        if replies is not None and outcome["status"] == PROVEN:
            answers, documents = sides[trial.cluster in members]
            answers.append(float(defense.refuses(replies[0]["text"])))
            documents.append(trial.cluster)
    if any(len(set(documents)) < MIN_DOCUMENTS for _, documents in sides.values()):
        yield "fewer than two training or unseen documents have questions: the side channel is not measured"
        return None
    return side_channel(sides[True], sides[False], rng)


def side_channel(members: Answers, heldout: Answers, rng: np.random.Generator) -> Estimate:
    """Return the AUC of refusing (ANSWER NOT PRESENT) as a score of membership; null 0.5.

    Each row is a question on a page whose answer was removed, of a member or of a held-out
    document. A score of 0 and 1 has the AUC 1/2 + (rate among members - rate among held-out) / 2,
    and its interval is that of the two rates (Pinto et al. 2024, appendix A).

    Args:
        members: calls of members, 1 where the model said so, else 0, and the names of their
            documents.
        heldout: the same for held-out documents.
        rng: the source of randomness.
    """
    sides = []
    for answers, documents in (members, heldout):
        values = np.asarray(answers, np.float64)
        sides.append(
            (values, np.zeros_like(values), np.unique(list(documents), return_inverse=True)[1])
        )
    gap = excess_rate(sides, rng)

    def area(difference: float) -> float:
        """Return the AUC of a difference of two rates of refusing."""
        return min(1.0, max(0.0, 0.5 + difference / 2))

    return estimate("auc.not_present", gap.transform(area), "questions", 0.5, "chance")


@contextmanager
def hold_folder(options: ScanOptions, files: Sequence[str]) -> Iterator[None]:
    """Lock the output folder for one comparison, and remove what an older one left in it."""
    with ExitStack() as held:
        with writing(options.out):
            options.out.mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusive(options.out))
            remove_stale(*(options.out / name for name in files))
        evidence = held.enter_context(hold_evidence(options.out, options.evidence))
        held.enter_context(guarded("the measurement of countermeasures", evidence))
        yield


def _pretrained_start(defense: TrainingDefense, corpus: Corpus, options: ScanOptions) -> Path:
    """Return the pretrained model from which the audited one was fine-tuned.

    Where only sizes are taken from it, the audited model will do.

    An audited adapter stands for its base and for how it was trained over it.
    """
    given = options.start or next(iter(options.references.get("pretrained", ())), None)
    if (
        defense.keeps_adapter
        and is_adapter(options.model_dir)
        and (given is None or not is_adapter(given))
    ):
        _refuse_elsewhere(corpus, options.model_dir, given)
        return options.model_dir
    if (
        given is None
        and corpus.manifest.references.pretrained is None
        and trainer_of(corpus.manifest.task.kind)
    ):
        given = options.model_dir
    return start_of(corpus, given)


def _refuse_elsewhere(corpus: Corpus, adapter: Path, base: Path | None) -> None:
    """Refuse an adapter whose base the command line alone names.

    Training finds it by the manifest or the adapter.
    """
    wanted = open_model(adapter, corpus, base).beginning.sha256
    try:
        found = open_model(adapter, corpus).beginning.sha256
    except TargetError:
        found = None
    if wanted != found:
        raise TargetError(
            f"{adapter}: neither manifest.toml nor the adapter names the base {base}",
            "name it as references.pretrained in manifest.toml, or as base_model_name_or_path in adapter_config.json: "
            "models are trained from it as the adapter was",
        )
