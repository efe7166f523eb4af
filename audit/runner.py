"""One scan: case, trials, outcomes, measurements, record."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import importlib.util
import json
import os
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np

import audit
from audit import record as records
from audit.attacks import BATTERY
from audit.attacks.budget import SHARES, sample
from audit.attacks.interface import Attack
from audit.attacks.parameters import AttackParameters
from audit.attacks.parameters import read as read_parameters
from audit.case import Case, References
from audit.corpus.documents import Corpus
from audit.corpus.images import open_image
from audit.corpus.manifest import files_of as files_of_corpus
from audit.corpus.manifest import load as load_corpus
from audit.corpus.summary import card
from audit.engine.interface import Attempt, Engine, Json, Progress, Source, Trial, Work
from audit.engine.journal import Journal, exclusive
from audit.engine.local import WIDTH, LocalEngine
from audit.errors import DocauditError, EngineError, ManifestError, UsageError
from audit.record import AttackResult, AuditRecord, Completed, Failed, Inapplicable, Skipped, TargetCard
from audit.targets.encoder_target import EncoderTarget
from audit.targets.environment import device_named, environment, packages, threads, use_threads
from audit.targets.loading import files_of, load
from audit.targets.utility import utility
from audit.training.references import Filled, Prepared, complete, prepare


@dataclass(frozen=True)
class Options:
    """What the user asked for; see `docaudit scan --help`.

    `width` (attempts in flight) and `batch_tokens` bound memory and never change a result on a CPU. `public_dir` is
    another data set whose public documents train the public model; `image_noise` puts noise in place of the images;
    `cache` keeps trained references, in `evidence` when None (a sweep shares one). `engine` is "local" or "ray"; for
    "ray", `address` and `workers` are those of `RayEngine`. `attack_parameters` is a file that `parameters.read` takes.
    """

    model_dir: Path
    data_dir: Path
    out: Path
    budget: str = "standard"
    only: tuple[str, ...] = ()
    seed: int = 0
    device: str = "auto"
    fresh: bool = False
    references: Mapping[str, Path] = field(default_factory=dict)
    batch_tokens: int | None = None
    width: int = WIDTH
    public_dir: Path | None = None
    image_noise: bool = False
    cache: Path | None = None
    engine: str = "local"
    address: str | None = None
    workers: int | None = None
    attack_parameters: Path | None = None

    @property
    def evidence(self) -> Path:
        """The folder for what only the owner may see."""
        return self.out / "evidence"


@dataclass(frozen=True)
class Opened:
    """Everything a scan reads, loaded and checked; nothing has been written yet.

    `attacks` and `share` (of the trials) follow from the budget; whoever replaces them names the result in `budget`.
    """

    options: Options
    budget: str
    share: float
    attacks: tuple[Attack, ...]
    corpus: Corpus
    target: EncoderTarget
    prepared: Prepared
    warnings: tuple[str, ...] = ()


def known_metrics() -> dict[str, tuple[str, ...]]:
    """The metrics that a policy may ask for, by attack."""
    return {kind.name: kind.metrics for kind in BATTERY}


def open_scan(options: Options) -> Opened:
    """Load and check all that the scan needs.

    Raises:
        DocauditError: the scan cannot start; nothing was written.
    """
    given = read_parameters(options.attack_parameters) if options.attack_parameters is not None else None
    attacks = _chosen(options, given)
    _check_engine(options)
    device = device_named(options.device)
    corpus = load_corpus(options.data_dir)
    target = _target(options.model_dir, corpus, device, options.batch_tokens)
    target.encoder.check_vocabulary(corpus.documents)
    case = Case(target, corpus)
    if not any(attack.trials(case) for attack in attacks):
        problems = [f"{attack.name}: {attack.no_trials(case)[0]}" for attack in attacks]
        raise ManifestError(problems, attacks[0].no_trials(case)[1])
    if options.image_noise and target.encoder.pictures is None:
        raise UsageError(
            f"--image-noise: {target.card.architecture} sees no image",
            "scan without it; it is for models with an image branch",
        )
    public = load_corpus(options.public_dir) if options.public_dir is not None else None
    prepared = prepare(
        _needs(attacks), target, options.model_dir, corpus, options.references, options.batch_tokens, public
    )
    warnings = _warnings(options.attack_parameters, given, corpus)
    return Opened(options, options.budget, SHARES[options.budget], attacks, corpus, target, prepared, warnings)


def _warnings(path: Path | None, given: AttackParameters | None, corpus: Corpus) -> tuple[str, ...]:
    if given is None or given.corpus in (None, corpus.sha256):
        return ()
    return (f"{path}: these parameters were tuned on another data set (only on its public documents)",)


def _target(folder: Path, corpus: Corpus, device: str, batch_tokens: int | None) -> EncoderTarget:
    return load(
        folder,
        device=device,
        labels=corpus.manifest.task.labels,
        label_all_tokens=corpus.manifest.recipe.label_all_tokens,
        batch_tokens=batch_tokens,
        images=partial(open_image, corpus),
    )


def _check_engine(options: Options) -> None:
    if options.engine not in ("local", "ray"):
        raise UsageError(f"no engine is called {options.engine!r}", "local or ray")
    if options.engine == "local":
        if options.address is not None or options.workers is not None:
            raise UsageError("--address and --workers are for Ray", "add --engine ray")
        return
    if any(importlib.util.find_spec(name) is None for name in ("ray", "tblib")):
        raise UsageError("--engine ray: Ray is not installed", "pip install 'docaudit[ray]'")
    if options.address is not None and not re.fullmatch(r"auto|[^/]+:\d+", options.address):
        # Ray Client (ray://) cannot stream outcomes.
        raise UsageError(
            f"--address {options.address}: not HOST:PORT",
            "scan on a machine of the cluster, with --address auto or the head's HOST:PORT",
        )


def _needs(attacks: Sequence[Attack]) -> set[str]:
    return {need for attack in attacks for need in attack.needs}


def _chosen(options: Options, given: AttackParameters | None) -> tuple[Attack, ...]:
    if options.budget not in SHARES:
        raise UsageError(f"no budget is called {options.budget!r}", f"one of {', '.join(SHARES)}")
    names = [kind.name for kind in BATTERY]
    unknown = [name for name in options.only if name not in names]
    if unknown:
        raise UsageError(f"no attack is called {unknown[0]!r}", f"one of {', '.join(names)}")
    kinds = [kind for kind in BATTERY if not options.only or kind.name in options.only]
    attacks = tuple(kind.preset(options.budget) for kind in kinds)
    if given is not None:
        attacks = tuple(map(given.applied, attacks))
    return tuple(map(_with_noise, attacks)) if options.image_noise else attacks


def _with_noise(attack: Attack) -> Attack:
    """The attack with noise in place of the images, when it has that parameter."""
    parameters = _parameters(attack)
    return dataclasses.replace(attack, image_noise=True) if "image_noise" in parameters else attack  # type: ignore[type-var]


def trial_counts(model_dir: Path, corpus: Corpus) -> list[tuple[str, str, int]]:
    """How many trials each attack finds in a corpus with a checkpoint's tokens, by stratum; runs no model."""
    case = Case(load(model_dir, labels=corpus.manifest.task.labels), corpus)
    counts = []
    for kind in BATTERY:
        found = Counter(trial.stratum for trial in kind.preset("standard").trials(case))
        counts += [(kind.name, stratum, count) for stratum, count in sorted(found.items())]
    return counts


@contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Hold `out` for one scan: made when missing, its older record moved aside, its older reports removed.

    Raises:
        EngineError: the folder cannot be written, or another scan holds it.
    """
    try:
        evidence = out / "evidence"
        out.mkdir(parents=True, exist_ok=True)
        evidence.mkdir(mode=0o700, exist_ok=True)
        evidence.chmod(0o700)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None
    with exclusive(out):
        _clear(out)
        yield


def _clear(out: Path) -> None:
    """Move an older record aside and remove what was drawn from it, so that nothing shows another scan's verdict."""
    try:
        if (out / "record.json").exists():
            os.replace(out / "record.json", out / "record.previous.json")
        reports = ("report.html", "report.pdf", "trend.html", "trend.pdf")
        drawn = [*(out / name for name in reports), out / "evidence" / "report-revealed.html"]
        for path in [*drawn, *(out / "evidence").glob("failure-*.txt")]:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "choose another --out") from None


def run(opened: Opened, progress: Progress) -> AuditRecord:
    """Run every attack that was asked for and write down what came of it.

    `options.out` must be held (`claimed`). Each attack ends as exactly one result; a failure of one stops none of the
    others. Outcomes are journaled in `evidence/` as they come, so that a killed scan goes on where it was.

    Raises:
        DocauditError: the audit itself could not go on.
    """
    started, clock = _now(), time.monotonic()
    options, target, corpus = opened.options, opened.target, opened.corpus
    # Before the attacks: what can break down on its own does so before hours are spent.
    useful = utility(target, corpus.of("heldout"), options.seed)
    references = cache(lambda: _fill(opened, progress))
    with _evidence_file(options.evidence / "recovered.jsonl") as recovered:
        results = tuple(_examine(opened, attack, references, recovered, progress) for attack in opened.attacks)
    return AuditRecord(
        schema_version=1,
        target=target.card,
        corpus=card(corpus),
        references=references().cards if _completed(results) else (),
        budget=opened.budget,
        share=opened.share,
        seed=options.seed,
        battery=tuple(kind.name for kind in BATTERY),
        attacks=results,
        utility=(useful,),
        environment=environment(target),
        timing=records.Timing(started, _now(), round(time.monotonic() - clock, 3)),
    )


def _completed(results: Sequence[AttackResult]) -> bool:
    return any(isinstance(result, Completed) for result in results)


def _fill(opened: Opened, progress: Progress) -> Filled:
    options = opened.options
    return complete(
        opened.prepared,
        _needs(opened.attacks),
        opened.target,
        cache=options.cache or options.evidence / "references",
        seed=options.seed,
        progress=progress,
        batch_tokens=options.batch_tokens,
    )


def _examine(
    opened: Opened, attack: Attack, references: Callable[[], Filled], recovered: list[Json], progress: Progress
) -> AttackResult:
    """One attack's result, whatever happens."""
    reason = attack.inapplicable(Case(opened.target, opened.corpus))
    if reason is not None:
        return Inapplicable(attack.name, attack.metrics, reason)
    try:
        filled = references()
        for need in attack.needs:
            if need in filled.missing:
                return Skipped(attack.name, attack.metrics, f"it needs a reference ({need})", filled.missing[need])
        return _complete(opened, attack, filled, recovered, progress)
    except DocauditError:
        raise
    except Exception as error:  # noqa: BLE001 (the only broad one: a failing attack must become a result)
        # The record says type and place only; the owner finds the whole story in evidence/.
        (opened.options.evidence / f"failure-{attack.name}.txt").write_text(traceback.format_exc(), encoding="utf-8")
        return Failed(attack.name, attack.metrics, type(error).__name__, _place(error))


def _complete(
    opened: Opened, attack: Attack, filled: Filled, recovered: list[Json], progress: Progress
) -> AttackResult:
    options = opened.options
    case = Case(opened.target, opened.corpus, filled.references)
    everything = attack.trials(case)
    if not everything:
        return Skipped(attack.name, attack.metrics, *attack.no_trials(case))
    trials = sample(everything, opened.share, options.seed)
    outcomes = _outcomes(opened, attack, case, filled, trials, progress)
    rng = np.random.default_rng([options.seed, *attack.name.encode()])
    findings = attack.measure(case, trials, outcomes, rng, progress)
    recovered.extend(attack.evidence(case, trials, outcomes))
    return Completed(
        attack=attack.name,
        metrics=attack.metrics,
        parameters=_parameters(attack),
        measurements=findings.measurements,
        counts=findings.counts,
        diagnostics=findings.diagnostics,
        histograms=findings.histograms,
        curves=findings.curves,
        categories=findings.categories,
        power=attack.power,
    )


def _outcomes(
    opened: Opened, attack: Attack, case: Case, filled: Filled, trials: Sequence[Trial], progress: Progress
) -> list[Json]:
    """The outcome of every trial, in trial order, from the journal where it is known."""
    options = opened.options
    key = _journal_key(opened, attack, filled)
    journal = Journal(options.evidence / f"journal-{attack.name}-{key}.jsonl", options.fresh)
    todo = [trial for trial in trials if trial.id not in journal.outcomes]
    progress.stage(attack.name, len(todo))
    # Closed at once when the journal fails: an engine may hold processes and files.
    with closing(_engine(opened).run(_source(opened, attack, case, filled), todo)) as done:
        for trial_id, outcome in done:
            journal.append(trial_id, outcome)
            progress.advance()
    return [journal.outcomes[trial.id] for trial in trials]


@dataclass(frozen=True)
class _AttackWork(Work):
    """An attack's trials as work for an engine."""

    attack: Attack
    case: Case
    seed: int

    def attempt(self, trial: Trial) -> Attempt:
        """The trial with a source of randomness of its own, from (seed, attack, trial id)."""
        digest = hashlib.sha256(f"{self.attack.name}\0{trial.id}".encode()).digest()
        rng = np.random.default_rng([self.seed, int.from_bytes(digest[:16])])
        return self.attack.attempt(self.case, trial, rng)


def _engine(opened: Opened) -> Engine:
    options = opened.options
    if options.engine == "local":
        return LocalEngine(options.width)
    from audit.engine.ray import RayEngine

    gpu = opened.target.card.device == "cuda"
    return RayEngine(options.address, options.workers, options.width, threads=threads(), gpu=gpu)


def _source(opened: Opened, attack: Attack, case: Case, filled: Filled) -> Source:
    """An attack's trials as work for any engine."""
    target, auxiliary = case.target, case.references.auxiliary
    assert isinstance(target, EncoderTarget)  # no defence wraps it in a scan
    elsewhere = _Elsewhere(
        attack=attack,
        seed=opened.options.seed,
        corpus=opened.corpus.sha256,
        target=_Loaded(target.card, target.batch_tokens),
        auxiliary=_Loaded(auxiliary.card, auxiliary.batch_tokens) if isinstance(auxiliary, EncoderTarget) else None,
        threads=threads(),
        packages=packages(),
    )
    folders = {
        "target": files_of(opened.options.model_dir),
        "data": files_of_corpus(opened.corpus),
        **{role: files_of(folder) for role, folder in filled.folders.items()},
    }
    return Source(_AttackWork(attack, case, opened.options.seed), folders, elsewhere)


@dataclass(frozen=True)
class _Loaded:
    """A checkpoint as this process loaded it."""

    card: TargetCard
    batch_tokens: int

    def like_here(self, copy: EncoderTarget) -> EncoderTarget:
        """A copy of it, computing as it does here."""
        if copy.card.sha256 != self.card.sha256:
            raise EngineError(f"{self.card.name} has changed since the scan began", "scan again, and leave it alone")
        return copy if copy.card.dtype == self.card.dtype else copy.rounded(self.card.dtype)


@dataclass(frozen=True)
class _Elsewhere:
    """Opens an attack's work in another process, from copies of the files; every choice was made in this one."""

    attack: Attack
    seed: int
    corpus: str
    target: _Loaded
    auxiliary: _Loaded | None
    threads: int
    packages: Mapping[str, str]

    def __call__(self, folders: Mapping[str, Path]) -> Work:
        """The work, from the folders "target", "data" and "auxiliary".

        Raises:
            EngineError: the other process would get other results.
        """
        for name, version in packages().items():
            if self.packages[name] != version:
                raise EngineError(
                    f"a worker has {name} {version}, this machine {self.packages[name]}", "install one on all machines"
                )
        use_threads(self.threads)
        corpus = load_corpus(folders["data"])
        if corpus.sha256 != self.corpus:
            raise EngineError("the data set has changed since the scan began", "scan again, and leave it alone")
        device, batch_tokens = self.target.card.device, self.target.batch_tokens
        target = self.target.like_here(_target(folders["target"], corpus, device, batch_tokens))
        references = References()
        if self.auxiliary is not None:
            auxiliary = load(folders["auxiliary"], device=device, batch_tokens=self.auxiliary.batch_tokens)
            references = References(self.auxiliary.like_here(auxiliary))
        return _AttackWork(self.attack, Case(target, corpus, references), self.seed)


def _journal_key(opened: Opened, attack: Attack, filled: Filled) -> str:
    """What an outcome depends on, apart from its trial; a change of any starts another journal."""
    card = opened.target.card
    depends_on = {
        "parameters": _parameters(attack),
        "seed": opened.options.seed,
        "target": card.sha256,
        "device": card.device,
        "dtype": card.dtype,
        "references": [(reference.role, reference.card.sha256) for reference in filled.cards],
        "corpus": opened.corpus.sha256,
        "version": audit.__version__,
        "packages": packages(),
        "threads": threads(),
        "batch_tokens": None if card.device == "cpu" else opened.target.batch_tokens,
    }
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()[:16]


def _parameters(attack: Attack) -> dict[str, Json]:
    return dataclasses.asdict(attack)  # type: ignore[call-overload, no-any-return]


def _place(error: BaseException) -> str:
    """The innermost line of docaudit's own code that the error went through."""
    package = Path(audit.__file__).parent
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if package in Path(frame.filename).parents]
    return f"{Path(frames[-1].filename).relative_to(package.parent)}:{frames[-1].lineno}" if frames else "unknown"


@contextmanager
def _evidence_file(path: Path) -> Iterator[list[Json]]:
    """Collects objects and writes them, one a line, for the owner alone."""
    collected: list[Json] = []
    yield collected
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in collected)
    records.write_atomically(path, text.encode(), mode=0o600)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
