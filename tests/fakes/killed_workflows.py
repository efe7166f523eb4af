"""Commands of docaudit that train, scan or write, on tiny data with tiny models, each to be killed on its way."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

import numpy as np
import redacted
import tiny
from PIL import Image, ImageDraw
from scanned_worlds import RECIPE, make_questions, make_utterances

from audit.corpus import manifest as manifests
from audit.corpus.documents import Document, Manifest, Membership, Task


@dataclass(frozen=True)
class Workflow:
    """A command, and what it needs.

    Attributes:
        name: in the field's words.
        world: makes the folder "{w}" that it reads.
        command: what follows `docaudit`; it writes below the folder in which it runs.
        first: commands that are run before, to their end.
        copied: a folder of the world that is copied to where the command runs, as it changes it.
        drawn: its noise is drawn anew at each run, so that of two models only the guarantees are
            the same.
        gate: whether pull requests try it too.
        needs: a program that it calls.
    """

    name: str
    world: Callable[[Path], None]
    command: str
    first: tuple[str, ...] = ()
    copied: str | None = None
    drawn: bool = False
    gate: bool = False
    needs: str | None = None


def make_receipts(world: Path, members: int = 12, others: int = 6) -> None:
    """Taggers, what they were fine-tuned from, and receipts of two providers."""
    made = manifests.load(
        tiny.corpus(world / "data", members=members, heldout=others, public=others, images=True)
    )
    providers = [
        replace(page, provider=f"provider {index % 2}") for index, page in enumerate(made.documents)
    ]
    manifests.write(world / "data", replace(made.manifest, recipe=RECIPE), providers)
    tiny.checkpoint(world / "pretrained", "layoutlm", "mlm", 3)
    for number, name in enumerate(("model", "run/checkpoint-1", "run/checkpoint-2"), start=2):
        tiny.checkpoint(world / name, "layoutlm", "token-classification", number)
    (world / "clients.toml").write_text(
        '[clients]\nnorth = ["provider 0"]\nsouth = ["provider 1"]\n'
    )


def make_few_receipts(world: Path) -> None:
    """The same with fewer receipts, for two scans and a training."""
    make_receipts(world, members=6, others=3)


def make_letters(world: Path) -> None:
    """Redacted texts, a tagger and its baseline."""
    made = redacted.texts(12, told=True)
    recipe = replace(RECIPE, epochs=2)
    public = [
        replace(text, id=f"p{text.id}", split="public")
        for text in redacted.texts(4, told=True, seed=1).documents
    ]
    manifests.write(
        world / "data",
        replace(made.manifest, name="letters", recipe=recipe),
        [*made.documents, *public],
    )
    for seed, name in enumerate(("model", "baseline", "pretrained"), start=1):
        tiny.checkpoint(world / name, "bert", "token-classification", seed, redacted.LABELS)


def make_pages(world: Path) -> None:
    """A data set with pages whose words nobody read yet, a folder of pages alone, and one of FUNSD's form."""
    images = world / "data" / "images"
    images.mkdir(parents=True)
    rows = []
    for number in range(4):
        page = Image.new("RGB", (320, 120), "white")
        ImageDraw.Draw(page).text((20, 30), f"TOTAL {number}9.00", fill="black", font_size=28)
        page.save(images / f"{number}.png")
        split = "member" if number < 2 else "heldout"
        rows.append(Document(f"d{number}", split, size=(320, 120), image=f"images/{number}.png"))
    manifests.write(world / "data", Manifest(1, "unread", Task("mlm"), Membership("random")), rows)
    (world / "plain").mkdir()
    for number, image in enumerate(sorted(images.iterdir())):
        (world / "plain" / f"page-{number}.png").write_bytes(image.read_bytes())
    _write_forms(world / "funsd")


def _write_forms(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("annotations", "images"):
        (folder / name).mkdir(parents=True)
    for number in range(6):
        words = [
            {"text": "value", "box": [10, 10, 40, 20]},
            {"text": str(number), "box": [45, 10, 60, 20]},
        ]
        field = {
            "id": 0,
            "text": f"value {number}",
            "label": "answer",
            "box": [10, 10, 60, 20],
            "linking": [],
        }
        (folder / "annotations" / f"{number}.json").write_text(
            json.dumps({"form": [{**field, "words": words}]})
        )
        Image.fromarray(rng.integers(0, 255, (80, 100), dtype=np.uint8)).save(
            folder / "images" / f"{number}.png"
        )


WORLDS = (
    make_receipts,
    make_few_receipts,
    make_letters,
    make_pages,
    make_questions,
    make_utterances,
)


def _workflows() -> tuple[Workflow, ...]:
    """Read the workflows of the table, in its order."""
    worlds = {make.__name__: make for make in WORLDS}
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

    def complete(command: str) -> str:
        return Template(command).substitute(table["parts"])

    return tuple(
        Workflow(
            name,
            worlds[row["world"]],
            complete(row["command"]),
            tuple(complete(one) for one in row.get("first", ())),
            **{
                key: value for key, value in row.items() if key not in ("world", "command", "first")
            },
        )
        for name, row in table["workflows"].items()
    )


WORKFLOWS = _workflows()
