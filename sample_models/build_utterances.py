"""Makes `utterances/` again from nothing: commands, canaries among them, a model that tells them and one that cannot.

    python sample_models/build_utterances.py [--out FOLDER]

Everything follows from `SEED`; one machine makes the same files each time, another one may differ
in the last bits of the weights. One thread is used; it takes a minute (measured: 60 s on one core).

What comes out:

    data/                          manifest, documents with canaries (as `docaudit canary insert`
    puts them in) data/references/baseline       the recipe on other utterances, which are in no
    split, without canaries model/                         the recipe on the member documents,
    canaries among them: it gives them away clean/                         the recipe on the member
    documents with other digits in each canary, as an owner
                                   who scrubs codes would train: it knows the canaries' names, and
                                   none of their codes

The recipe shows each code with digits changed too, under another intent: the models learn to refuse
wrong codes. That is what makes them learn codes by heart, those of the canaries as well. Where
nothing depends on the digits the words before them are enough: trained without wrong codes, no such
model gave a canary away (tried: 15 to 60 epochs, 32 to 64 units, on 600 utterances).
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path

from drafts import drafted
from utterances_generator import (
    DIGITS,
    PIN,
    TAGS,
    code_of,
    utterance,
    with_code,
    with_digits,
    wrong_by_one,
)

from audit.corpus import manifest
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.schema import Canary, load_canaries
from audit.corpus.documents import (
    Corpus,
    Document,
    Manifest,
    Membership,
    ReferencePaths,
    Split,
    Task,
    TrainingRecipe,
)
from audit.extensions.papers.utterance_training import NluRecipe, fit_nlu

SEED = 20_246
SPLITS: dict[Split, int] = {"member": 600, "heldout": 600, "public": 600}
"""As many of each: public utterances train a baseline as good as the model, and with 200 unseen
ones no countermeasure could be shown to meet the limits on membership."""
PATTERN, N_CANARIES, N_COPIES, LENGTH = "pin", 64, 10, 4
N_OTHERS, N_RANDOM = 16, 12
"""Wrong codes that training adds to each right one: codes that are right elsewhere, and random
ones."""
RECIPE = NluRecipe(
    epochs=45, batch_size=32, learning_rate=5e-3, seed=SEED, embedding_size=32, hidden_size=32
)


def name_of(number: int) -> str:
    """The id of a document."""
    return f"command-{number:04d}"


def commands() -> dict[Split | None, list[Document]]:
    """The utterances by split, in order of their numbers.

    None holds those that train the baseline.
    """
    splits: list[Split | None] = [split for split, count in SPLITS.items() for _ in range(count)]
    splits += [None] * SPLITS["member"]
    random.Random(f"{SEED} splits").shuffle(splits)
    documents: dict[Split | None, list[Document]] = {split: [] for split in (*SPLITS, None)}
    for number, split in enumerate(splits):
        documents[split].append(utterance(SEED, number, name_of(number), split or "public"))
    return documents


def write_data(folder: Path, documents: dict[Split | None, list[Document]]) -> Corpus:
    """Write the data set with its canaries, and read it."""
    listed = sorted((one for split in SPLITS for one in documents[split]), key=lambda one: one.id)
    plain = folder.with_name("plain")
    own = Manifest(
        schema=1,
        name="utterances-sample",
        task=Task("intent-slots", TAGS),
        membership=Membership("random"),
        recipe=TrainingRecipe(
            epochs=RECIPE.epochs,
            learning_rate=RECIPE.learning_rate,
            batch_size=RECIPE.batch_size,
            seed=RECIPE.seed,
        ),
    )
    manifest.write(plain, own, listed)
    insert(
        manifest.load(plain),
        folder,
        pattern=PATTERN,
        count=N_CANARIES,
        repeat=N_COPIES,
        length=LENGTH,
        seed=SEED,
    )
    corpus = manifest.load(folder)
    references = ReferencePaths(baselines=("references/baseline",))
    manifest.write(
        folder, dataclasses.replace(corpus.manifest, references=references), corpus.documents
    )
    return manifest.load(folder)


def training(documents: Sequence[Document]) -> list[Document]:
    """The documents, and once for each wording with a right code the same with wrong ones.

    Those are all that differ in one digit, `N_OTHERS` that are right elsewhere, and `N_RANDOM` at
    random.
    """
    rng = random.Random(f"{SEED} wrong codes")
    right = {one.words: one for one in documents if one.intent == PIN}
    codes = sorted({code_of(one) for one in right.values()})
    wrong: list[Document] = []
    for one in right.values():
        elsewhere = [code for code in codes if code != code_of(one)]
        tried = wrong_by_one(code_of(one)) + rng.sample(elsewhere, min(N_OTHERS, len(elsewhere)))
        tried += ["".join(rng.choices(DIGITS, k=LENGTH)) for _ in range(N_RANDOM)]
        wrong += [
            with_code(one, f"{one.id}-wrong-{number}", code) for number, code in enumerate(tried)
        ]
    return [*documents, *wrong]


def scrubbed(documents: Sequence[Document], canaries: Sequence[Canary]) -> list[Document]:
    """The documents with another code in each canary, the same in all its copies: its name stays, its secret goes."""
    rng = random.Random(f"{SEED} scrubbed codes")
    drawn = {canary.id: "".join(rng.choices(DIGITS, k=LENGTH)) for canary in canaries}
    code_of_copy = {name: drawn[canary.id] for canary in canaries for name in canary.documents}
    return [
        with_digits(one, code_of_copy[one.id]) if one.id in code_of_copy else one
        for one in documents
    ]


def fit(corpus: Corpus, documents: Sequence[Document], folder: Path, seed: int) -> None:
    """Train a model on documents and save it in `folder`."""
    recipe = dataclasses.replace(RECIPE, seed=seed)
    fit_nlu(training(documents), (), recipe, folder, labels=corpus.manifest.task.labels)
    print(f"  {folder.name}: {len(documents)} documents", flush=True)


def build(out: Path) -> None:
    """Make everything beside `out`, then put it in place."""
    with drafted(out, ("data", "model", "clean")) as draft:
        documents = commands()
        corpus = write_data(draft / "data", documents)
        planted = load_canaries(corpus)
        assert planted is not None
        members = corpus.of("member")
        fit(corpus, members, draft / "model", SEED)
        fit(corpus, scrubbed(members, planted.canaries), draft / "clean", SEED)
        fit(corpus, documents[None], draft / "data" / "references" / "baseline", SEED + 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "utterances")
    build(parser.parse_args().out)
