"""Small models with their data, as commands take them: made to be scanned, defended, or killed on the way."""

from pathlib import Path

import asked_pages
import nlu_models
from answering_checkpoints import make_donut

from audit.corpus import manifest as manifests
from audit.corpus.documents import Manifest, Membership, ReferencePaths, Task, TrainingRecipe
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu

RECIPE = TrainingRecipe(epochs=1, batch_size=4, learning_rate=1e-3)
NAMES = ("ann lee", "bo", "cy", "dee", "ed fox", "flo", "gus", "hal ito")


def make_questions(world: Path) -> None:
    """A Donut, a baseline, and what both were trained from."""
    for seed, name in enumerate(("pretrained", "model", "baseline")):
        make_donut(world / "data" / "references" / name, seed)
    made = ReferencePaths(pretrained="references/pretrained", baselines=("references/baseline",))
    sizes = {"members": 10, "heldout": 4, "public": 4, "labels": ("TOTAL",)}
    asked_pages.corpus(world / "data", recipe=RECIPE, references=made, **sizes)
    (world / "data" / "references" / "model").rename(world / "model")


def make_utterances(world: Path) -> None:
    """A model of intents and slots that was trained on some of its utterances."""
    documents = nlu_models.documents()
    documents += [
        nlu_models.play(f"h{number}", name, "heldout") for number, name in enumerate(NAMES)
    ]
    documents += [nlu_models.rate(f"g{number}", str(number), "heldout") for number in range(10, 14)]
    documents += [
        nlu_models.play(f"o{number}", f"{name} x", "public") for number, name in enumerate(NAMES)
    ]
    recipe = TrainingRecipe(epochs=2, batch_size=8)
    task = Task("intent-slots", nlu_models.TAGS)
    manifests.write(
        world / "data",
        Manifest(1, "utterances", task, Membership("random"), recipe=recipe),
        documents,
    )
    data = manifests.load(world / "data")
    (world / "model").mkdir()
    fit_nlu(
        data.of("member"),
        (),
        NluRecipe(epochs=2, batch_size=8),
        world / "model",
        labels=nlu_models.TAGS,
    )
