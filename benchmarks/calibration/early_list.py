"""What leaving out the documents that `LeakCallback` lists early does to a second training.

    # writes early_list.json and early_list.md
    python -m benchmarks.calibration.early_list [--work FOLDER]

The rule was fixed before any of these runs. It was chosen on other receipts and letters, of other
seeds of the generators. The bar of 5 % and the receipts of 10 epochs came after the first four. Per sample and seed:

1. "all" learns every training document. `LeakCallback` audits all documents by membership after an
   eighth and a quarter of the steps, and lists a tenth of the training documents.
2. "listed" learns all but these, "random" all but as many others, drawn at random. Both start again
   from the same checkpoint, with the same recipe and seed.
3. All three are scanned by membership on the same documents, with the same reference. For one seed
   of the receipts reconstruction asks for values too.

A document counts as exposed if its loss, calibrated by the reference, is lower than that of 99 % of
the unseen documents; "at 5 %" means 95 %. Of the receipts, the first 80 of each side take part.
Their recipe exposes every document, so a quarter of its epochs takes part too. What is in the
folder of `--work` already is not trained or scanned again.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import build_letters as letters
import torch
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from audit import policy as policies
from audit import record as records
from audit.corpus import manifest
from audit.corpus.documents import Corpus, Document, ReferencePaths
from audit.extensions.callbacks.leak_callback import LeakCallback
from audit.extensions.callbacks.memory_list import read_scores
from audit.extensions.callbacks.quick_audit import QuickAudit, write_record
from audit.measurements import Estimate
from audit.policy import Policy, Verdict
from audit.references.encoders import Collator, PageTrainer, save
from audit.references.recipes import Recipe
from audit.stats.foresight import Scored
from audit.stats.roc import auc
from audit.targets.encoders.families import family_of
from audit.targets.encoders.loading import load
from benchmarks.calibration.early_list_page import page

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "sample_models"
SHARE = 0.1
AUDITED = (1 / 8, 1 / 4)
"""Parts of the training after which a checkpoint is audited."""
UNSEEN_ABOVE = 0.01
"""Share of the unseen documents that an exposed one may rank below."""
RECEIPTS = Recipe(epochs=40, learning_rate=1e-3, batch_size=8, mask_probability=0.3)
"""That of `sample_models/build.py`, which the package `build` hides from an import."""
ARMS = ("all", "listed", "random")


@dataclass(frozen=True)
class Sample:
    """A sample, and how its model is trained again.

    Attributes:
        name: its folder.
        start: the checkpoint that every training starts from, in its data.
        role: what that checkpoint is to the audits.
        recipe: recipe of the training, but for the seed.
        seeds: seeds of the trainings.
        side: number of training documents, and of unseen ones, that take part.
        auxiliary: the public model that reconstructs values, in its data; None: none are.
    """

    name: str
    start: str
    role: str
    recipe: Recipe
    seeds: tuple[int, ...]
    side: int
    auxiliary: str | None = None

    @property
    def folder(self) -> Path:
        """Return the folder of the sample's data."""
        return SAMPLES / self.name.partition(",")[0] / "data"

    @property
    def references(self) -> dict[str, Sequence[Path]]:
        """Return the reference models of the audits by name."""
        models: dict[str, Sequence[Path]] = {self.role: [self.start_folder]}
        if self.auxiliary is not None:
            models["auxiliary"] = [self.folder / self.auxiliary]
        return models

    @property
    def attacks(self) -> tuple[str, ...]:
        """Return the attacks of the audits at the end."""
        if self.auxiliary is None:
            return ("membership",)
        return ("membership", "reconstruction")

    @property
    def start_folder(self) -> Path:
        """Return the folder of the checkpoint that every training starts from."""
        return self.folder / self.start

    def write_data(self, folder: Path) -> Corpus:
        """Write the documents that take part, without images, and read them."""
        whole = manifest.load(self.folder)
        documents: list[Document] = []
        for split in ("member", "heldout"):
            of_split = whole.of(split)[: self.side]
            documents += [replace(document, image=None) for document in of_split]
        plain = replace(whole.manifest, references=ReferencePaths())
        manifest.write(folder, plain, documents)
        return manifest.load(folder)


PUBLIC_MODEL = "references/public-mlm"
SHORT = Sample(
    "receipts, 10 epochs",
    "references/pretrained",
    "pretrained",
    replace(RECEIPTS, epochs=10),
    (2, 3),
    80,
)
RUNS = (
    Sample("letters", "references/baseline", "baselines", letters.fine_tuning(0), (1, 2, 3), 75),
    replace(SHORT, seeds=(1,), auxiliary=PUBLIC_MODEL),
    SHORT,
    Sample("receipts", "references/pretrained", "pretrained", RECEIPTS, (1,), 80, PUBLIC_MODEL),
)
"""The letters start from the sample's baseline, because the sample keeps no earlier checkpoint.

Values are reconstructed with one seed only, which takes most of the time.
"""


class SavesAt(TrainerCallback):  # type: ignore[misc]
    """Saves checkpoints after parts of a training."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Ask for a checkpoint where a part ends."""
        control.should_save = state.global_step in {
            round(part * state.max_steps) for part in AUDITED
        }
        return control


def train(
    sample: Sample, seed: int, documents: Sequence[Document], folder: Path, data: Path | None = None
) -> LeakCallback | None:
    """Train on documents and save the model in `folder`; audit checkpoints where there is data."""
    target = load(sample.start_folder)
    tokenizer = target.encoder.tokenizer
    family = family_of(target.model.config.model_type)
    assert family is not None
    recipe = replace(sample.recipe, seed=seed)
    run = folder.with_name(f"{folder.name}-run")
    trainer = PageTrainer(
        model=target.model,
        args=TrainingArguments(
            output_dir=str(run),
            num_train_epochs=recipe.epochs,
            learning_rate=recipe.learning_rate,
            per_device_train_batch_size=recipe.batch_size,
            weight_decay=recipe.weight_decay,
            warmup_steps=recipe.warmup_share,
            seed=seed,
            use_cpu=True,
            save_strategy="no",
            save_only_model=True,
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        ),
        train_dataset=[page for one in documents if (page := target.encode(one)) is not None],
        data_collator=Collator(family, tokenizer, recipe.mask_probability, seed),
        processing_class=tokenizer,
    )
    callback = None
    if data is not None:
        callback = LeakCallback(
            trainer,
            data,
            only=["membership"],
            documents=2 * len(documents),
            references={sample.role: [sample.start_folder]},
            device="cpu",
            listed=SHARE,
        )
        trainer.add_callback(callback)
        trainer.add_callback(SavesAt())
    trainer.train()
    save(trainer.model.eval(), tokenizer, folder)
    return callback


def listed_documents(sample: Sample, seed: int, corpus: Corpus, root: Path) -> dict[str, Any]:
    """Train on all documents, and return what the audit after a quarter says."""
    path = root / "listed.json"
    if not path.is_file():
        callback = train(sample, seed, corpus.of("member"), root / "all", corpus.root)
        assert callback is not None
        assert not callback.failures, callback.failures
        last = callback.listings[-1]
        root.mkdir(parents=True, exist_ok=True)
        content = {
            "step": last.step,
            "ids": list(last.foreseen.listed),
            "doubt": last.foreseen.doubt,
            "again": last.foreseen.n_again,
            "by chance": last.foreseen.by_chance,
            "audit": str(callback._quick.root / f"step-{last.step}"),
        }
        path.write_text(json.dumps(content))
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


def audit_here(audit: QuickAudit, model: Path, name: str, policy: Policy) -> Verdict:
    """Audit a checkpoint in this process: another one takes longer to start than to audit."""
    options = audit.options(model, name)
    if not (options.out / "record.json").is_file():
        write_record(options, audit.policy)
    return policies.evaluate(records.read(options.out), policy, policies.today())


@dataclass(frozen=True)
class Count:
    """Values that came back exactly, and values that were tried."""

    back: int = 0
    tried: int = 0

    def __add__(self, other: Count) -> Count:
        """Count two sets of values together."""
        return Count(self.back + other.back, self.tried + other.tried)


@dataclass(frozen=True)
class Audited:
    """What an audit of a trained model found.

    Attributes:
        scores: membership scores of all documents.
        values: by document, values that the first attempt of reconstruction gave exactly.
        useful: estimates of usefulness by name.
    """

    scores: Scored
    values: Mapping[str, Count]
    useful: list[tuple[str, float]]

    def values_of(self, names: Iterable[str]) -> Count:
        """Count the values of these documents."""
        return sum((self.values.get(name, Count()) for name in names), Count())


def read_values(path: Path) -> dict[str, Count]:
    """Count the values of reconstruction by document."""
    values: dict[str, Count] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        row = json.loads(line)
        if row["attack"] == "reconstruction":
            name = row["document"]
            values[name] = values.get(name, Count()) + Count(int(row["exact"]), 1)
    return values


def audit(sample: Sample, corpus: Corpus, model: Path) -> Audited:
    """Audit a model on all documents."""
    quick = QuickAudit(
        corpus.root,
        "default",
        model.parent,
        documents=2 * sample.side,
        only=sample.attacks,
        references=sample.references,
        device="cpu",
    )
    name = f"{model.name}-audit"
    audit_here(quick, model, name, policies.load("default"))
    record = records.read(model.parent / name)
    useful = [(item.name, item.value) for item in record.utility if isinstance(item, Estimate)]
    evidence = model.parent / name / "evidence" / "recovered.jsonl"
    scores = read_scores(evidence)
    assert scores is not None
    return Audited(scores, read_values(evidence), useful)


def exposed(scores: Scored, above: float = UNSEEN_ABOVE) -> frozenset[str]:
    """Return the training documents that only a share of the unseen ones rank above."""
    unseen = sorted(scores.unseen.values(), reverse=True)
    bar = unseen[int(above * len(unseen))]
    return frozenset(name for name, score in scores.members.items() if score > bar)


def area(scores: Scored, names: frozenset[str]) -> float:
    """Return the AUC of some training documents over all unseen ones."""
    inside = [scores.members[name] for name in sorted(names)]
    return float(auc(inside, [*scores.unseen.values()]))


def describe_arm(after: Audited, before: Audited, left_out: frozenset[str]) -> dict[str, Any]:
    """Count what a training without some documents exposes, beside the first training."""
    rest = frozenset(before.scores.members) - left_out
    described: dict[str, Any] = {"left out": len(left_out), "rest": len(rest)}
    for when, audited in (("before", before), ("after", after)):
        names = exposed(audited.scores)
        described |= {
            f"exposed of these {when}": len(names & left_out),
            f"exposed of the rest {when}": len(names & rest),
            f"exposed of the rest {when}, at 5 %": len(exposed(audited.scores, 0.05) & rest),
            f"AUC of the rest {when}": round(area(audited.scores, rest), 3),
            f"values of these {when}": astuple(audited.values_of(left_out)),
            f"values of the rest {when}": astuple(audited.values_of(rest)),
            f"values of unseen ones {when}": astuple(audited.values_of(audited.scores.unseen)),
        }
    return {**described, "usefulness": after.useful}


def describe_list(ids: Sequence[str], end: Audited) -> dict[str, Any]:
    """Say how right a list was, by the audit of the model that learned all documents."""
    names = exposed(end.scores)
    others = frozenset(end.scores.members) - {*ids}
    return {
        "in the final tenth": round(precision(ids, end.scores), 3),
        "exposed": len(names & {*ids}),
        "all exposed": len(names),
        "documents": len(end.scores.members),
        "values": astuple(end.values_of(ids)),
        "values of others": astuple(end.values_of(others)),
    }


def precision(first: Sequence[str], scores: Scored) -> float:
    """Return the share of a list that is among as many documents of the highest final scores."""
    ranked = sorted(scores.members, key=lambda name: -scores.members[name])
    return len({*first} & {*ranked[: len(first)]}) / len(first)


def run_seed(sample: Sample, seed: int, work: Path) -> dict[str, Any]:
    """Train, list, train again, audit; return what came of one seed."""
    corpus = sample.write_data(work / sample.name)
    root = work / f"{sample.name}-{seed}"
    found = listed_documents(sample, seed, corpus, root)
    members = corpus.of("member")
    left_out = {"listed": frozenset(found["ids"])}
    names = sorted(document.id for document in members)
    count = len(found["ids"]) or max(1, round(SHARE * len(names)))
    left_out["random"] = frozenset(random.Random(f"early list {seed}").sample(names, count))
    before = audit(sample, corpus, root / "all")
    arms: dict[str, Any] = {"all": describe_arm(before, before, frozenset())}
    for arm, ids in left_out.items():
        if not ids:
            continue
        if not (root / arm / "config.json").is_file():
            kept_documents = [document for document in members if document.id not in ids]
            train(sample, seed, kept_documents, root / arm)
        arms[arm] = describe_arm(audit(sample, corpus, root / arm), before, ids)
    return {
        "sample": sample.name,
        "seed": seed,
        "step": found["step"],
        "doubt": found["doubt"],
        "listed": len(found["ids"]),
        "again": found["again"],
        "by chance": found["by chance"],
        "right": describe_list(found["ids"], before) if found["ids"] else None,
        "arms": arms,
    }


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/early_list"))
    parser.add_argument("--machine", default="a 2-core CPU, one thread")
    parser.add_argument("--page", action="store_true", help="write the page of earlier runs only")
    options = parser.parse_args()
    place = HERE / "early_list.json"
    if not options.page:
        place.write_text(json.dumps(measure(options.work), indent=1) + "\n", encoding="utf-8")
    measured = json.loads(place.read_text(encoding="utf-8"))
    rule = (__doc__ or "").split("\n\n", 2)[2].strip()
    text = page(measured["runs"], rule, options.machine, measured["minutes"])
    (HERE / "early_list.md").write_text(text, encoding="utf-8")


def measure(work: Path) -> dict[str, Any]:
    """Run every sample and seed."""
    torch.set_num_threads(1)
    QuickAudit.run = audit_here  # type: ignore[method-assign, assignment]
    started = time.process_time()
    runs = []
    for sample in RUNS:
        for seed in sample.seeds:
            runs.append(run_seed(sample, seed, work))
            print(json.dumps(runs[-1]), flush=True)
    return {"minutes": round((time.process_time() - started) / 60, 1), "runs": runs}


if __name__ == "__main__":
    main()
