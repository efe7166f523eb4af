"""docaudit beside memaudit 0.2 on the same checkpoints: findings, seconds, memory.

A GPT-2 of 2 layers x 96 learns 160 rows of forms (`canaries_gpt2.py`) with the canaries that each
tool plants by default. Three checkpoints are audited: "strong" after 40 epochs, "weak" after 10
epochs of the same training, and "clean", which saw other forms and no canaries in 40. memaudit
compares with the untrained start. So does docaudit in its setting "alike"; for "quick" and
"standard" it also has a baseline, trained on 80 public forms.

    python benchmarks/memaudit.py --memaudit-python VENV/bin/python     # an environment that has
    memaudit 0.2.0

Each audit is a process of its own with one thread. `--keep DIR` keeps models and results; a second
run goes on from them.
Writes `benchmarks/memaudit.json` and the tables of `benchmarks/memaudit.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import canaries_gpt2 as small
import numpy as np
import torch
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

from audit.corpus import manifest
from audit.corpus.canaries.insertion import insert
from audit.corpus.canaries.pages import page_of
from audit.corpus.canaries.schema import load_canaries
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import page_view
from audit.stats.intervals import clopper_pearson
from audit.stats.roc import auc_interval
from audit.targets.answering.loading import load_answering
from audit.targets.answering.reader import Sample

HERE = Path(__file__).resolve().parent
OUT = HERE / "memaudit.json"
BEGIN, END = "<!-- tables -->\n\n", "\n\n<!-- end of tables -->"
CHECKPOINTS = ("strong", "weak", "clean")
SAVES = 4
"""Checkpoints of a training; the first is the weak one."""
SETTINGS: Mapping[str, Sequence[str]] = {
    "quick": ("--budget", "quick"),
    "alike": ("--only", "canaries", "--only", "membership"),
    "standard": (),
}
"""Of docaudit: the questions and references of memaudit, and whole scans."""
SHOWN = (
    "extracted",
    "extracted.control",
    "excess",
    "excess_top3",
    "exposure",
    "excess_exposure",
    "epsilon",
)
COUNT = """
import atexit, json, os, runpy, sys
from transformers.models.gpt2 import modeling_gpt2
counted, out, mine = {"calls": 0, "rows": 0, "tokens": 0}, sys.argv[1], os.getpid()
plain = modeling_gpt2.GPT2Model.forward
def forward(self, input_ids=None, *rest, **named):
    given = named.get("inputs_embeds") if input_ids is None else input_ids
    counted["calls"] += 1
    counted["rows"] += given.shape[0]
    counted["tokens"] += given.shape[0] * given.shape[1]
    return plain(self, input_ids, *rest, **named)
modeling_gpt2.GPT2Model.forward = forward
atexit.register(lambda: os.getpid() == mine and json.dump(counted, open(out, "w")))
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module and counts what the model is given; also a tool that hides its passes is
counted."""
PLANT = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
from memaudit import generate_canaries, inject
start, rows, out, seed = sys.argv[1:]
words, model = AutoTokenizer.from_pretrained(start), AutoModelForCausalLM.from_pretrained(start)
canaries = generate_canaries(words, profile="routine", seed=int(seed), model=model)
texts = json.load(open(rows))
merged, made = inject([{"text": text} for text in texts], canaries, seed=int(seed), tokenizer=words)
known = set(texts)
json.dump({"texts": [row["text"] for row in merged if row["text"] not in known], "manifest": made}, open(out, "w"))
"""
REAL = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
from memaudit.scorers import resolve_scorer
from memaudit.scoring import extract_token_signals
model, start, member, heldout, out = sys.argv[1:]
words, scorer = AutoTokenizer.from_pretrained(start), resolve_scorer(None)
models = [AutoModelForCausalLM.from_pretrained(path).eval() for path in (model, start)]
def score(text):
    ids = words(text)["input_ids"]
    return scorer.score(*(extract_token_signals(one, ids, span=(0, len(ids))) for one in models))
json.dump([[score(text) for text in json.load(open(path))] for path in (member, heldout)], open(out, "w"))
"""
"""Scores documents as memaudit scores its sample of them; its report has no area of such scores."""


def run(command: Sequence[object], folder: Path, *, python: str = sys.executable) -> dict[str, Any]:
    """Run a module in a process of its own.

    Return its exit code, processor seconds, memory and forward passes.
    """
    counted = folder / "counted.json"
    path = str(HERE.parent) if python == sys.executable else ""
    environment = {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [python, "-c", COUNT, counted, *map(str, command)],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit": process.returncode,
        "user_seconds": round(usage.ru_utime, 1),
        "peak_mib": round(usage.ru_maxrss / 1024),
        "forward": json.loads(counted.read_text()),
    }


def texts_of(begun: Path, samples: Sequence[Sample]) -> list[str]:
    """Write questions with their pages and answers as training has them."""
    reader, words = (
        load_answering(begun, prompt=small.PROMPT).reader,
        PreTrainedTokenizerFast.from_pretrained(begun),
    )
    ids = (reader.taught([sample])["input_ids"][0] for sample in samples)
    return [words.decode(own, skip_special_tokens=True) for own in ids]


def samples_of(corpus: Corpus, documents: Sequence[Document]) -> list[Sample]:
    """Return every question of documents with its first answer."""
    return [
        Sample(page_view(corpus, document), asked.question, asked.answers[0])
        for document in documents
        for asked in document.questions
    ]


def prepare(root: Path, python: str, seed: int) -> dict[str, Any]:
    """Plant, train, and write the rows for memaudit."""
    # Numbers in the order of the splits would separate them without a model.
    plain, other = (
        small.forms(
            root / name,
            seed=own,
            numbers=np.random.default_rng(own).permutation(3 * small.N_PAGES).tolist(),
        )
        for name, own in (("plain", 100 + seed), ("other", 200 + seed))
    )
    insert(
        plain,
        root / "data",
        count=64,
        length=4,
        seed=seed,
        pattern=("pin", "names", "mixed"),
        repeat=(1, 4, 16),
    )
    corpus = manifest.load(root / "data")
    texts = [small.text_of(document) for document in (*corpus.documents, *other.documents)]
    begun = small.start(root / "start", [*texts, "Question: Answer: MEMAUDIT RECOVERY PHRASE:"])
    for split in ("member", "heldout"):
        documents = [one for one in corpus.of(split) if not one.id.startswith("canary-")]
        rows = texts_of(begun, samples_of(corpus, documents))
        (root / f"{split}.json").write_text(json.dumps(rows))
        (root / f"{split}.jsonl").write_text(
            "".join(json.dumps({"text": row}) + "\n" for row in rows)
        )
    command = [python, "-c", PLANT, begun, root / "member.json", root / "made.json", str(seed)]
    subprocess.run([*map(str, command)], check=True, cwd=root, env={**os.environ, "PYTHONPATH": ""})
    made = json.loads((root / "made.json").read_text())
    (root / "manifest.json").write_text(json.dumps(made["manifest"]))
    members = corpus.of("member")
    trained = {
        "strong": small.train(
            begun, root / "strong", corpus, members, made["texts"], seed=seed, saves=SAVES
        ),
        "clean": small.train(begun, root / "clean", other, other.of("member"), (), seed=seed),
        "baseline": small.train(begun, root / "baseline", plain, plain.of("public"), (), seed=seed),
    }
    first = min(root.glob("strong/checkpoint-*"), key=lambda folder: int(folder.name.split("-")[1]))
    first.rename(root / "weak")
    return {**trained, "memaudit_rows": len(made["texts"])}


def docaudit(root: Path, checkpoint: str, name: str) -> dict[str, Any]:
    """Scan a checkpoint."""
    folder = root / f"docaudit-{checkpoint}-{name}"
    folder.mkdir(exist_ok=True)
    references = ["--reference", f"pretrained={root / 'start'}"]
    if name != "alike":
        references += ["--reference", f"baselines={root / 'baseline'}"]
    options = [*SETTINGS[name], *references, "--out", folder / "report", "--quiet", "--fresh"]
    cost = run(["audit", "scan", root / checkpoint, root / "data", *options], folder)
    record = json.loads((folder / "report" / "record.json").read_text())
    attacks = {one["attack"]: one for one in record["attacks"] if one["status"] == "completed"}
    measured = {
        name: {one["name"]: one for one in attack["measurements"]}
        for name, attack in attacks.items()
    }
    return {
        **cost,
        "canaries": {
            key: short(measured["canaries"][key]) for key in SHOWN if key in measured["canaries"]
        },
        "counts": {one["name"]: one["value"] for one in attacks["canaries"]["counts"]},
        "membership": {key: short(value) for key, value in measured["membership"].items()},
        "others": {
            name: {key: short(found[key]) for key in keys if key in found}
            for name, keys in (
                ("memorisation", ("net", "net.decoy", "identified")),
                ("attribute_inference", ("excess.unique", "excess.all")),
            )
            if (found := measured.get(name))
        },
        "weaknesses": {name: list(attack["ablations"]) for name, attack in attacks.items()},
        "stages": {name: attack["stage"]["number"] for name, attack in attacks.items()},
    }


def short(measured: Mapping[str, Any]) -> list[Any]:
    """Return a measurement's value, interval and n, or why it has none."""
    if "value" not in measured:
        return [measured.get("reason"), measured.get("n")]
    return [round(measured[key], 3) for key in ("value", "low", "high")] + [measured["n"]]


def memaudit(root: Path, checkpoint: str, python: str) -> dict[str, Any]:
    """Audit a checkpoint with memaudit."""
    folder = root / f"memaudit-{checkpoint}"
    folder.mkdir(exist_ok=True)
    options = [
        "--canary-set",
        root / "manifest.json",
        "--ref",
        root / "start",
        "--profile",
        "routine",
    ]
    options += ["--dataset", root / "member.jsonl", "--held-out", root / "heldout.jsonl"]
    out = folder / "report.json"
    cost = run(
        ["memaudit", "audit", "--model", root / checkpoint, *options, "--output", out],
        folder,
        python=python,
    )
    report = json.loads(out.read_text())
    member, said = report["membership"], report["regurgitation"]
    threshold, rows = member["threshold"], report["per_canary"]
    controls = [one["scores"]["headline_score"] for one in rows if not one["included"]]
    paths = [
        root / checkpoint,
        root / "start",
        root / "member.json",
        root / "heldout.json",
        folder / "real.json",
    ]
    command = [python, "-c", REAL, *paths]
    subprocess.run(
        [*map(str, command)], check=True, cwd=folder, env={**os.environ, "PYTHONPATH": ""}
    )
    return {
        **cost,
        "tpr": [
            member["n_detected"],
            member["n_members"],
            *(member[key] for key in ("ci_low", "ci_high")),
        ],
        "false_alarms": [sum(score >= threshold for score in controls), len(controls)],
        "auc": member["auc"],
        "by_repetition": {
            key: [one["detected"], one["n"]]
            for key, one in member["by_repetition"].items()
            if key.isdigit()
        },
        "regurgitated": [said["overall"]["n_regurgitated"], said["overall"]["n"]],
        "regurgitated_controls": report["negative_controls"]["regurgitation_rate"],
        "real": {
            key: report["real_records"]["set_level"].get(key) for key in ("p_value", "mean_gap")
        },
        "documents": areas(json.loads((folder / "real.json").read_text()), 2),
    }


def areas(scores: Sequence[Sequence[float]], questions: int) -> dict[str, Any]:
    """Summarise scores of rows, `questions` a document, of both sides."""
    inside, outside = (np.reshape(side, (-1, questions)).mean(1) for side in scores)
    found = auc_interval(inside, outside)
    hits = int((inside > np.max(outside)).sum())
    above = clopper_pearson(hits, inside.size)
    return {
        "auc": [round(one, 3) for one in (found.value, found.low, found.high)],
        "above_all": [hits, inside.size, round(above.low, 3), round(above.high, 3)],
    }


def simple(root: Path, checkpoint: str) -> dict[str, Any]:
    """Score rows by the fall of their loss since the start: an attack of five lines, one pass a row and model."""
    models = [GPT2LMHeadModel.from_pretrained(root / name).eval() for name in (checkpoint, "start")]
    reader, corpus = (
        load_answering(root / "start", prompt=small.PROMPT).reader,
        manifest.load(root / "data"),
    )
    drawn = load_canaries(corpus)
    assert drawn is not None

    def falls(documents: Sequence[Document], *, answers: bool) -> list[float]:
        found = []
        for sample in samples_of(corpus, documents):
            row = reader.taught([sample])
            labels = (
                row["labels"]
                if answers
                else row["input_ids"].where(row["attention_mask"].bool(), -100)
            )
            with torch.inference_mode():
                mine, plain = (
                    float(model(input_ids=row["input_ids"], labels=labels).loss) for model in models
                )
            found.append(plain - mine)
        return found

    sides = [
        [one for one in corpus.of(split) if not one.id.startswith("canary-")]
        for split in ("member", "heldout")
    ]
    planted = [
        [page_of(corpus, one, one.completion) for one in drawn.canaries if one.included == included]
        for included in (True, False)
    ]
    return {
        "documents": areas([falls(side, answers=False) for side in sides], 2),
        "answers": areas([falls(side, answers=True) for side in sides], 2),
        # The tokenizer has seen the names of planted canaries: a whole row would tell them without
        # any model.
        "canaries": areas([falls(side, answers=True) for side in planted], 1),
    }


def interval(found: Sequence[Any] | None) -> str:
    """Write a value with its interval, or a dash where there is none."""
    if not found or not isinstance(found[0], int | float):
        return "-"
    return f"{found[0]:.2f} [{found[1]:.2f}, {found[2]:.2f}]"


def of(counts: Sequence[Any]) -> str:
    """Write hits of a number of trials, with their interval where there is one."""
    return f"{counts[0]} of {counts[1]}" + (
        f" [{counts[2]:.2f}, {counts[3]:.2f}]" if len(counts) > 2 else ""
    )


def whole(found: Mapping[str, Sequence[Any]], name: str) -> str:
    """Write how many canaries came out whole."""
    value = found.get(name)
    return "-" if value is None else f"{round(value[0] * value[3])} of {value[3]}"


def tables(found: Mapping[str, Any]) -> str:
    """Write the tables of the page."""
    planted = [
        "seed",
        "checkpoint",
        "memaudit: found at 1 %",
        "its controls found",
        "1, 4, 16 copies",
        "repeated",
        "docaudit",
        "whole, planted",
        "whole, left out",
        "excess of exposure, bits",
        "epsilon of all copies",
    ]
    own = [
        "seed",
        "checkpoint",
        "fall of the row's loss: AUC",
        "of the answers' loss: AUC",
        "memaudit's score: AUC",
        "memaudit: p",
        "docaudit",
        "AUC: calibrated",
        "whole row",
        "identified: calibrated",
        "whole row",
    ]
    cost = [
        "seed",
        "checkpoint",
        "audit",
        "exit code",
        "user seconds",
        "peak MiB",
        "rows",
        "tokens",
    ]
    lines: dict[str, list[list[str]]] = {"planted": [planted], "own": [own], "cost": [cost]}
    for seed, audits in found["seeds"].items():
        for checkpoint in (one for one in CHECKPOINTS if one in audits):
            audit, begins = audits[checkpoint], [seed, checkpoint]
            peer, plain = audit.get("memaudit"), audit.get("simple", {})
            theirs, known = (
                ["-"] * 4,
                [interval(plain.get(key, {}).get("auc")) for key in ("documents", "answers")],
            )
            if peer:
                tiers = ", ".join(
                    of(one).replace(" of ", "/") for one in peer["by_repetition"].values()
                )
                theirs = [
                    of(peer["tpr"]),
                    of(peer["false_alarms"]),
                    tiers,
                    of(peer["regurgitated"]),
                ]
            known += (
                [interval(peer["documents"]["auc"]), f"{peer['real']['p_value']:.1g}"]
                if peer
                else ["-"] * 2
            )
            for name in (one for one in ("memaudit", *SETTINGS) if one in audit):
                one, given = audit[name], audit[name]["forward"]
                seconds = [f"{one['user_seconds']:.0f}", f"{one['peak_mib']:,}"]
                counted = [f"{given['rows']:,}", f"{given['tokens']:,}"]
                lines["cost"].append([*begins, name, str(one["exit"]), *seconds, *counted])
            for name in [one for one in SETTINGS if one in audit] or ["-"]:
                secrets, documents = (
                    audit.get(name, {}).get(key, {}) for key in ("canaries", "membership")
                )
                said = [whole(secrets, "extracted"), whole(secrets, "extracted.control")]
                said += [interval(secrets.get(key)) for key in ("excess_exposure", "epsilon")]
                lines["planted"].append([*begins, *theirs, name, *said])
                keys = ("auc", "auc.row", "documents_identified", "documents_identified.row")
                lines["own"].append(
                    [*begins, *known, name, *(interval(documents.get(key)) for key in keys)]
                )
    return "\n\n".join(
        "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))
        for rows in lines.values()
    )


def main() -> None:
    """Train, audit, and write what is found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--memaudit-python", required=True, help="the Python of an environment with memaudit 0.2.0"
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for data sets, models and reports")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=[*SETTINGS])
    parser.add_argument(
        "--tables", action="store_true", help="of what --keep holds, without another audit"
    )
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {
        "machine": "2-core CPU, one thread",
        "date": time.strftime("%Y-%m-%d"),
        "seeds": {},
    }
    with TemporaryDirectory() as scratch:
        for seed in range(options.seeds):
            root = (options.keep or Path(scratch)).resolve() / str(seed)
            prepared = root / "prepared.json"
            if not prepared.exists():
                root.mkdir(parents=True)
                prepared.write_text(json.dumps(prepare(root, options.memaudit_python, seed)))
            own: dict[str, Any] = {"training": json.loads(prepared.read_text())}
            found["seeds"][str(seed)] = own
            tasks: dict[str, Callable[[Path, str], dict[str, Any]]] = {
                "memaudit": partial(memaudit, python=options.memaudit_python),
                "simple": simple,
                **{name: partial(docaudit, name=name) for name in options.settings},
            }
            for name, checkpoint in product(tasks, CHECKPOINTS):
                kept = root / f"{checkpoint}-{name}.json"
                if not (kept.exists() or options.tables):
                    kept.write_text(json.dumps(tasks[name](root, checkpoint)))
                    print(seed, checkpoint, name, kept.read_text(), flush=True)
                if kept.exists():
                    own.setdefault(checkpoint, {})[name] = json.loads(kept.read_text())
                options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    page = options.out.with_suffix(".md")
    if page.exists():
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        page.write_text(
            before + BEGIN + tables(found) + END + rest.partition(END)[2], encoding="utf-8"
        )


if __name__ == "__main__":
    main()
