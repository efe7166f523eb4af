"""f_G: a model trained as the audited one was, on public documents in place of the audited ones.

Method: methods.md#memorisation.

What it too answers with the answer removed is generalisation or chance; only the rest can be memory (Pinto et al. 2024,
section 3.1). To be that yardstick it must be as strong: the same start, recipe, number of samples and steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from audit import __version__
from audit.corpus.documents import Corpus, Document
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError
from audit.references.provenance import Origin, content_of, write_origin
from audit.references.recipes import key_of, made_once
from audit.references.retrain import AnyRecipe, Retraining, n_samples, recipe_for, retrain, start_of
from audit.targets.opening import open_model


@dataclass(frozen=True)
class Material:
    """What a baseline may learn from.

    Attributes:
        documents: the public ones that make samples, in file order.
        n_left_out: public documents that are copies of an audited one, and would teach the baseline what it must not
            know.
        n_samples: how many samples the audited model was trained on: those of the members.
    """

    documents: tuple[Document, ...]
    n_left_out: int
    n_samples: int


def material(corpus: Corpus) -> Material:
    """The public documents that stand in for the audited ones.

    Raises:
        ManifestError: the members make no sample, so that there is nothing to be as strong as; no public document makes
            one; or those that do are all copies of audited documents.
    """
    sample = "question with an answer" if corpus.manifest.task.asks else "word"
    sample = "output" if corpus.manifest.task.kind == "parsing" else sample
    wanted = n_samples(corpus, corpus.of("member"))
    if not wanted:
        raise ManifestError(f"no member document has a {sample}", "give what the audited model was trained on")
    useful = [document for document in corpus.of("public") if n_samples(corpus, [document])]
    if not useful:
        raise ManifestError(
            f"no public document has a {sample}: there is nothing to train a baseline on",
            "add documents of split public, from the same source, that the audited model never saw",
        )
    audited = {content_of(corpus, document) for document in corpus.of("member", "heldout")}
    kept = tuple(document for document in useful if content_of(corpus, document) not in audited)
    if not kept:
        raise ManifestError(
            f"all {len(useful)} public documents with a {sample} are copies of member or held-out documents",
            "a baseline must not have seen what is audited",
        )
    return Material(kept, len(useful) - len(kept), wanted)


def train_baseline(
    start: Path | None,
    corpus: Corpus,
    out: Path,
    *,
    count: int = 1,
    seed: int | None = None,
    recipe: AnyRecipe | None = None,
    device: str = "cpu",
    half: bool = False,
    progress: Progress = SILENT,
) -> tuple[Path, ...]:
    """Train baselines, or find them in `out`, where they are kept by content.

    Args:
        start: what the audited model was fine-tuned from, or for an NLU model one of its sizes, such as itself; None:
            the manifest's `references.pretrained`.
        corpus: its public documents are learnt from; its member documents say how many samples that takes.
        out: holds one folder a baseline, named after everything it depends on; made when missing.
        count: how many, 1 or more.
        seed: of the first one; the next ones count on from it. None: the recipe's.
        recipe: how; None: the manifest's `[recipe]`, see `recipe_for`.
        device: "cpu", "cuda" or "mps".
        half: store weights in float16.
        progress: told of every epoch.

    Returns:
        The folders of the checkpoints, in the order of their seeds.

    Raises:
        ManifestError: see `material` and `recipe_for`.
        TargetError: see `start_of`; or the start cannot be loaded.
        EngineError: `out` cannot be written.
        ValueError: `count` is under 1.
    """
    if count < 1:
        raise ValueError("count must be 1 or more")
    recipe = recipe_for(corpus) if recipe is None else recipe
    how = Retraining(recipe, device, half)
    given, folder = material(corpus), start_of(corpus, start)
    first = recipe.seed if seed is None else seed
    return tuple(_train(how.with_seed(first + number), folder, corpus, given, out, progress) for number in range(count))


def _train(how: Retraining, start: Path, corpus: Corpus, given: Material, out: Path, progress: Progress) -> Path:
    opened = open_model(start, corpus)
    depends_on = [opened.sha256, corpus.sha256, how.as_json(), __version__]
    key = key_of(depends_on)

    def make(folder: Path) -> None:
        progress.stage(f"training a baseline (seed {how.recipe.seed}), epochs", how.recipe.epochs)
        retrain(how, opened, corpus, given.documents, folder, n=given.n_samples, progress=progress)
        write_origin(folder, Origin.of(corpus, given.documents, opened if how.continues else None))

    return made_once(out / f"baseline-{key}", make)
