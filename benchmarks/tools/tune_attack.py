r"""Fit the reconstruction attack's parameters on a shadow target inside the public split, not on audited fields.

    python -m benchmarks.tools.tune_attack MODEL_DIR DATA_DIR --reference pretrained=PATH \
        [--out attack.toml]
    docaudit scan MODEL_DIR DATA_DIR --attack-parameters attack.toml

Divides the public documents in two, trains a shadow target like the model on one half and the
adversary's public model on the other, and tries every setting of `attack_tuning.Grid`. Writes the
best setting to `--out`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import tomli_w

import audit
from audit.attacks.battery import PROVENANCE
from audit.attacks.interface import why
from audit.attacks.reconstruction import Reconstruction
from audit.case import Case, References
from audit.cli.console import Reporter, show_error
from audit.cli.options import named_paths
from audit.corpus.documents import Corpus
from audit.corpus.manifest import load as load_corpus
from audit.engine.interface import Progress
from audit.errors import DocauditError, EngineError, ManifestError, TargetError, UsageError
from audit.files import check_file, write_atomically
from audit.references.recipes import Recipe
from audit.references.resolve import fit_public_mlm
from audit.targets.checkpoint.folder import open_checkpoint
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import EncoderTarget
from audit.targets.interface import FillMask, TokenTarget
from audit.targets.opening import device_named, find_unread, open_model, target_of, without_unread
from benchmarks.tools.attack_tuning import FOLDS, Score, Tuned, collect, tune
from benchmarks.tools.shadow_target import Halves, fit_shadow, halves, pretrained_of

EPOCHS = 40
"""Passes of the shadow target over its half (ours). The closer to the audited model's own number,
the better."""
SHARE = 0.5
"""Share of the public documents that go to the shadow target (methods/reconstruction.md)."""
MAX_SEED = 2**32 - 1
TUNED = ("temperature", "temperature_start", "target_weight", "top_p")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the parameters, write them and print what they reach.

    Args:
        arguments: what follows the script's name; None: those of the process.

    Returns:
        The exit code: 0, or that of the `DocauditError` whose lines were printed.
    """
    given = _parser().parse_args(arguments)
    try:
        check_file("--out", given.out)
        options = TuningOptions(**{**vars(given), "references": named_paths(given.references)})
        with Reporter() as progress:
            tuned = tune_attack(open_tuning(options), progress)
    except DocauditError as error:
        show_error(error)
        return error.exit_code
    _print_tuned(tuned, options.out)
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.tune_attack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "model_dir",
        type=Path,
        metavar="MODEL_DIR",
        help="model to be audited: the shadow target is built like it",
    )
    add(
        "data_dir",
        type=Path,
        metavar="DATA_DIR",
        help="folder with manifest.toml and documents.jsonl",
    )
    add(
        "--out",
        type=Path,
        default=Path("attack.toml"),
        help="file for scan's --attack-parameters (%(default)s)",
    )
    add(
        "--reference",
        dest="references",
        action="append",
        metavar="pretrained=PATH",
        help="what the model was fine-tuned from, unless the manifest says it",
    )
    add(
        "--epochs",
        type=int,
        default=EPOCHS,
        help="epochs of the shadow target: the model's own number (%(default)s)",
    )
    add(
        "--share",
        type=float,
        default=SHARE,
        help="share of public documents for the shadow target (%(default)s)",
    )
    add("--seed", type=int, default=0, help="every random choice follows from it (%(default)s)")
    add("--device", default="auto", help="auto, cpu, cuda or mps (%(default)s)")
    add("--cache", type=Path, help="where trained models are kept (references, beside --out)")
    return parser


def _print_tuned(tuned: Tuned, out: Path) -> None:
    """Print the tuned settings, their scores, the warnings, and where they are written."""
    settings = [(name, f"{default:g}", f"{value:g}") for name, default, value in settings_of(tuned)]
    _print_table("Parameters", [("parameter", "default", "tuned"), *settings])
    scores = [
        (label, f"{score.objective:.4f}", f"{score.fields:.4f}", f"{score.tokens:.4f}")
        for label, score in scores_of(tuned)
    ]
    reached = (
        f"Scores on {tuned.n_fields} fields of {tuned.n_documents} documents of the shadow target"
    )
    _print_table(reached, [("", "objective", "fields", "tokens"), *scores])
    for warning in warn_of_tuned(tuned):
        print(f"warning: {warning}", file=sys.stderr)
    print(f"Written to {out}: docaudit scan ... --attack-parameters {out}")


def _print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a title and rows in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(title)
    for row in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    print()


@dataclass(frozen=True)
class TuningOptions:
    """The options of tuning; see `python -m benchmarks.tools.tune_attack --help`.

    `cache` keeps the two models that are trained; None: `references` beside `out`.
    """

    model_dir: Path
    data_dir: Path
    out: Path
    references: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    epochs: int = EPOCHS
    share: float = SHARE
    seed: int = 0
    device: str = "auto"
    cache: Path | None = None


@dataclass(frozen=True)
class TuningSetup:
    """Everything that tuning reads, loaded and checked; nothing has been written yet."""

    options: TuningOptions
    corpus: Corpus
    target: EncoderTarget
    pretrained: Path
    halves: Halves
    device: str


def open_tuning(options: TuningOptions) -> TuningSetup:
    """Load and check all that tuning needs.

    Raises:
        DocauditError: it cannot start.
    """
    if not 0 < options.share < 1:
        raise UsageError(f"--share {options.share:g}: must lie between 0 and 1")
    if options.epochs < 1:
        raise UsageError(f"--epochs {options.epochs}: must be at least 1")
    if not 0 <= options.seed <= MAX_SEED:
        raise UsageError(f"--seed {options.seed}: must lie between 0 and {MAX_SEED}")
    superfluous = sorted(set(options.references) - {"pretrained"})
    if superfluous:
        raise UsageError(
            f"--reference {superfluous[0]}: tuning trains its own models, from pretrained alone",
            "a public model that has seen the shadow target's documents would make the attack look better than it is",
        )
    if options.out.is_dir():
        raise UsageError(f"--out {options.out}: is a folder", "name a file, such as attack.toml")
    device = device_named(options.device)
    corpus = load_corpus(options.data_dir)
    # The audited model only says what the shadow must be like: it is never run.
    base = next(iter(options.references.get("pretrained", ())), None)
    target = target_of(open_model(options.model_dir, corpus, base), corpus)
    if not isinstance(target, EncoderTarget):
        raise TargetError(
            f"{options.model_dir}: tuning reads encoders of pages alone", "give such a model"
        )
    if "mlm" not in target.family.heads:
        raise TargetError(
            f"{options.model_dir}: {target.family.name} has no masked-language-model head, and tuning trains the "
            "public model from the same checkpoint as the shadow target",
            "tune on a model of a family that has one, and scan with its parameters",
        )
    corpus = without_unread(corpus, find_unread(target, corpus))
    target.encoder.check_vocabulary(corpus.of("public"))
    pretrained = pretrained_of(target, options.model_dir, corpus, options.references)
    if pretrained is None:
        raise TargetError(
            "nothing to train a shadow target from",
            "say what the model was fine-tuned from (--reference pretrained=PATH, or [references] in manifest.toml)",
        )
    return TuningSetup(
        options, corpus, target, pretrained, halves(corpus, options.share, options.seed), device
    )


def tune_attack(opened: TuningSetup, progress: Progress) -> Tuned:
    """Train the shadow target and its adversary's public model, tune on them, and write `options.out`.

    A target with a masked-language-model head proposes its own candidates, so no public model is
    trained for it.

    Raises:
        DocauditError: a model cannot be trained, too few documents hold a field to attack, or the
            disk is full.
    """
    options = opened.options
    cache = options.cache or options.out.parent / "references"
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(f"{options.out}: {error.strerror}", "choose another --out") from None
    attack = Reconstruction()
    case = _shadow_case(opened, attack, cache, progress)
    rng = np.random.default_rng([options.seed, *b"folds"])
    tuned = tune(attack, collect(case, attack, progress), rng, progress)
    write_atomically(options.out, file_of(tuned, _provenance(opened, tuned)).encode())
    return tuned


def _shadow_case(
    opened: TuningSetup, attack: Reconstruction, cache: Path, progress: Progress
) -> Case:
    """The shadow target, its members, and the public model of its adversary.

    Raises:
        ManifestError: fewer than `FOLDS` of the members' documents hold a field to attack.
        TargetError: the model cannot be attacked this way.
    """
    options = opened.options
    corpus = opened.corpus
    members = Corpus(corpus.root, corpus.manifest, opened.halves.members, corpus.sha256)
    # Both before hours are spent on training.
    reason = why(attack, Case(opened.target, members), "model")
    if reason is not None:
        raise TargetError(f"{options.model_dir}: {reason}")
    units = {trial.cluster for trial in attack.usual_trials(Case(opened.target, members))}
    if len(units) < FOLDS:
        raise ManifestError(
            f"{len(units)} of the {len(members.documents)} public documents of the shadow target hold a field of "
            f"{attack.min_tokens} to {attack.max_tokens} tokens to attack: {FOLDS} are needed",
            "give more public documents, with annotated fields",
        )
    recipe = Recipe(epochs=options.epochs, seed=options.seed)
    folder = fit_shadow(
        opened.target,
        options.model_dir,
        opened.pretrained,
        corpus,
        opened.halves.members,
        cache,
        recipe=recipe,
        device=opened.device,
        progress=progress,
    )
    shadow = target_of(folder, corpus, opened.device)
    assert isinstance(shadow, EncoderTarget)
    if FillMask in shadow.answers:
        return Case(shadow, members)
    open_image = getattr(shadow.encoder.page_images, "open_image", None)
    folder = fit_public_mlm(
        opened.pretrained,
        opened.halves.public,
        cache,
        recipe=Recipe(seed=options.seed),
        device=opened.device,
        progress=progress,
        images=open_image,
    )
    public = load(folder, device=opened.device, images=open_image)
    return Case(shadow, members, References(cast("TokenTarget", public)))


def _provenance(opened: TuningSetup, tuned: Tuned) -> dict[str, Any]:
    """Return what the tuned parameters come from: models, data, settings and scores."""
    options = opened.options
    return {
        "docaudit": audit.__version__,
        "target_sha256": opened.target.card.sha256,
        "pretrained_sha256": open_checkpoint(opened.pretrained).sha256,
        "corpus_sha256": opened.corpus.sha256,
        "seed": options.seed,
        "share": options.share,
        "epochs": options.epochs,
        "shadow_documents": len(opened.halves.members),
        "public_documents": len(opened.halves.public),
        "fields": tuned.n_fields,
        "documents": tuned.n_documents,
        "objective_defaults": round(tuned.defaults.objective, 6),
        "objective_cross_validated": round(tuned.validated.objective, 6),
        "objective_in_sample": round(tuned.in_sample.objective, 6),
    }


def file_of(tuned: Tuned, provenance: Mapping[str, Any]) -> str:
    """Write the file's text: in comments the parameters and how well they do, then two tables."""
    attempts = tuned.attack.n_attempts
    width = max(len(name) for name, _ in scores_of(tuned))
    comments = [
        "Parameters of the reconstruction attack, fitted by benchmarks.tools.tune_attack on a shadow target whose",
        "training documents are all of split public; no audited document was used.",
        "",
        f"fields: expected share of the shadow's fields that one of {attempts} attempts gets exactly.",
        "tokens: expected share of tokens that one attempt gets right after true ones. objective: mean of both.",
        "",
        *(f"{name:<{width}}  {_score_text(score)}" for name, score in scores_of(tuned)),
        *(
            []
            if tuned.weighed
            else ["", "A masked language model decides alone: its target_weight is not tuned."]
        ),
    ]
    values = {name: value for name, _, value in settings_of(tuned)}
    content = {tuned.attack.name: values, PROVENANCE: dict(provenance)}
    return "".join(f"# {line}".rstrip() + "\n" for line in comments) + "\n" + tomli_w.dumps(content)


def warn_of_tuned(tuned: Tuned) -> list[str]:
    """List warnings that a user needs before using the parameters."""
    if tuned.attack == Reconstruction():
        return ["no setting does better than the defaults: the file holds the defaults"]
    if tuned.validated.objective <= tuned.defaults.objective:
        return [
            "on documents that did not choose them, tuned parameters do no better than the defaults"
        ]
    return []


def settings_of(tuned: Tuned) -> list[tuple[str, float, float]]:
    """List the parameters that were tuned, each with its default and its tuned value."""
    default = Reconstruction()
    names = TUNED if tuned.weighed else [name for name in TUNED if name != "target_weight"]
    return [(name, getattr(default, name), getattr(tuned.attack, name)) for name in names]


def scores_of(tuned: Tuned) -> list[tuple[str, Score]]:
    """List the scores of the default and of the tuned parameters, with a label each."""
    return [
        ("the defaults", tuned.defaults),
        (f"tuned, on documents that did not choose ({FOLDS} folds)", tuned.validated),
        ("tuned, on the documents that chose", tuned.in_sample),
    ]


def _score_text(score: Score) -> str:
    """Return the three numbers of a score as text."""
    return f"objective {score.objective:.4f}, fields {score.fields:.4f}, tokens {score.tokens:.4f}"


if __name__ == "__main__":
    sys.exit(main())
