"""A countermeasure put in place: what would stop it, the folder held for it, the model that it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.defenses.interface import Defense, TrainingDefense
from audit.engine.interface import Progress
from audit.engine.journal import exclusive
from audit.errors import EngineError, TargetError, TrainingError
from audit.policy import contradiction
from audit.record import AuditRecord
from audit.references.baselines import material, train_baseline
from audit.references.load import PROVIDE_BASELINES
from audit.references.retrain import start_of
from audit.report.files import remove
from audit.targets.checkpoint.content import is_adapter
from audit.targets.opening import device_named, open_model, trainer_of
from audit.workflows.folders import hold_evidence
from audit.workflows.options import ScanOptions


def check(defense: Defense, options: ScanOptions) -> None:
    """Find what would stop the countermeasure before hours are spent on the scan without it."""
    corpus = manifest.load(options.data_dir)
    needed = corpus.manifest.task.asks
    if needed and not options.references.get("baselines", corpus.manifest.references.baselines):
        raise TargetError("a countermeasure is measured against baselines, and there are none", PROVIDE_BASELINES)
    if isinstance(defense, TrainingDefense):
        start = _start(defense, corpus, options)
        check_start(corpus, start, options.model_dir)
        defense.check(corpus, start)
        if defense.baselines_like and needed:
            material(corpus)


def check_start(corpus: Corpus, start: Path, model_dir: Path) -> None:
    """Refuse to train on from the audited model: it would keep what it remembers, whatever the countermeasure."""
    if trainer_of(corpus.manifest.task.kind) is not None:
        return  # its sizes alone are taken
    if open_model(start, corpus).beginning.weights & open_model(model_dir, corpus, start).weights:
        raise TargetError(
            f"reference pretrained: {start} holds the audited model's own weights",
            "name what the model was fine-tuned from: --reference pretrained=PATH",
        )


def _start(defense: TrainingDefense, corpus: Corpus, options: ScanOptions) -> Path:
    """What the audited model was fine-tuned from; where only sizes are taken from it, the audited model will do.

    An audited adapter stands for its base and for how it was trained over it.
    """
    given = next(iter(options.references.get("pretrained", ())), None)
    if defense.keeps_adapter and is_adapter(options.model_dir) and (given is None or not is_adapter(given)):
        _refuse_elsewhere(corpus, options.model_dir, given)
        return options.model_dir
    if given is None and corpus.manifest.references.pretrained is None and trainer_of(corpus.manifest.task.kind):
        given = options.model_dir
    return start_of(corpus, given)


def _refuse_elsewhere(corpus: Corpus, adapter: Path, base: Path | None) -> None:
    """Refuse an adapter whose base the command line alone names: training finds it by the manifest or the adapter."""
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


@contextmanager
def hold_folder(options: ScanOptions, files: Sequence[str]) -> Iterator[None]:
    """Hold the folder for one comparison, and clear what an older one left."""
    with ExitStack() as held:
        try:
            options.out.mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusive(options.out))
            remove(*(options.out / name for name in files))
        except OSError as error:
            raise EngineError(f"{options.out}: {error.strerror or error}", "choose another --out") from None
        held.enter_context(hold_evidence(options.out, options.evidence))
        yield


def apply(defense: Defense, options: ScanOptions, out: Path, count: int, progress: Progress) -> ScanOptions:
    """The scan with the countermeasure in place; where it trains, the model comes first, and `count` baselines."""
    after = options.below(*out.relative_to(options.out).parts)
    if not isinstance(defense, TrainingDefense):
        return replace(after, defense=defense.name)
    corpus = manifest.load(options.data_dir)
    start = _start(defense, corpus, options)
    # They hold the data set's pages, so they are kept where only the owner looks.
    device, models = device_named(options.device), options.evidence / "models"
    trained = defense.train(corpus, start, models, device=device, progress=progress)
    references = options.references
    if defense.baselines_like and count:
        # A model trained otherwise is held against baselines trained in that way too.
        data, began = manifest.load(trained.data), trained.start or start
        baselines = train_baseline(began, data, models / "baselines", count=count, device=device, progress=progress)
        # Split models of the plain recipe say nothing about this one.
        references = {**references, "baselines": baselines, "splits": ()}
    return replace(
        after, model_dir=trained.model, references=references, derived_by=(f"docaudit defend {defense.name}",)
    )


def refuse_contradicted_guarantee(record: AuditRecord) -> None:
    """Refuse a model whose measured leak is more than the guarantee of its training allows.

    Raises:
        TrainingError: the bound that one run measured lies above the proved epsilon.
    """
    found = contradiction(record)
    if found is not None:
        raise TrainingError(found, "the guarantee does not hold: do not use this model")
