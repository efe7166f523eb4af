"""Rows of large pages with an older checkout and with this one: speed, memory, and the work that is avoided.

    git worktree add ../older COMMIT
    python -m benchmarks.performance.large_rows --before ../older

Each model reads a page and is asked 10 questions about it: an answer of 8 tokens, and the loss of a
given one. The encoder scores 20 candidates. Processor time is user and system, on one thread.
Memory is what the process takes beyond its size before the first question. Operations are those of
linear layers, counted while they run. The least count reads each page once, reads each other token
once, and scores the tokens of answers alone. Writes `large_rows.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGES = 1
QUESTIONS = 10
CANDIDATES = 20
LONGEST = 8
VOCABULARY = 50_000
SIDE = 252
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "head_dim": 32,
}
TEXT |= {"max_position_embeddings": 4096}
SIZES: dict[str, dict[str, Any]] = {
    "qwen2_vl": {
        "config": {
            "text_config": {**TEXT, "rope_parameters": {"mrope_section": [4, 6, 6]}},
            "vision_config": {"embed_dim": 48, "hidden_size": 64, "depth": 2},
        },
        "images": {"size": {"shortest_edge": 60_000, "longest_edge": 64_000}},
    },
    "idefics3": {
        "config": {
            "text_config": TEXT,
            "vision_config": {
                "hidden_size": 48,
                "intermediate_size": 96,
                "num_hidden_layers": 2,
                "image_size": 64,
            },
        },
        "images": {"size": {"longest_edge": 256}, "max_image_size": {"longest_edge": 64}},
    },
}
NAMES = {
    "qwen2_vl": "Qwen2-VL",
    "idefics3": "Idefics3",
    "donut": "Donut",
    "llama": "Llama",
    "layoutlm": "LayoutLM",
}
SEEN = ("visual", "vision", "connector", "encoder")
"""Parts of the names of layers that see a page's image, or that are a separate encoder."""


def write_model(kind: str, folder: Path) -> Path:
    """Write a tiny model of a kind."""
    import torch
    from answering_checkpoints import make_donut
    from text_zoo import write_text_model
    from vlm_zoo import write_vlm

    if kind == "donut":
        make_donut(folder, size=(512, 512), positions=256, ends="")
        return folder
    if kind == "llama":
        write_text_model(
            folder, "llama", ends="", **TEXT, num_attention_heads=2, num_key_value_heads=2
        )
        return folder
    if kind == "layoutlm":
        import tiny
        from transformers import LayoutLMConfig, LayoutLMForTokenClassification

        labels = ["O", *(f"{place}-total" for place in "BI")]
        sizes = {
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "intermediate_size": 128,
        }
        names = {
            "id2label": dict(enumerate(labels)),
            "label2id": {name: index for index, name in enumerate(labels)},
        }
        words = tiny.tokenizer(512)
        torch.manual_seed(0)
        model = LayoutLMForTokenClassification(
            LayoutLMConfig(vocab_size=len(words), **sizes, **names)
        )
        for part in (model, words):
            part.save_pretrained(folder)
        return folder
    write_vlm(folder, kind, ends="", wider=SIZES[kind])
    if kind == "idefics3":
        settings = json.loads((folder / "processor_config.json").read_text())
        (folder / "processor_config.json").write_text(json.dumps({**settings, "image_seq_len": 64}))
    return folder


def queries_of(kind: str, target: Any) -> list[list[Any]]:
    """Give the queries that a model is asked, in batches of one type."""
    import numpy as np
    from PIL import Image

    from audit.corpus.documents import Document, Entity, Word
    from audit.corpus.images import PageView
    from audit.targets import interface

    n_words = 110 if kind == "llama" else 50

    def page(number: int) -> PageView:
        """Return a page of random pixels and words, drawn from its number."""
        noise = np.random.default_rng(number).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        words = [
            Word(f"word{number}{index:03d}", (4.0, 4.0 + index, 60.0, 12.0 + index))
            for index in range(n_words)
        ]
        return PageView(tuple(words), (SIDE, SIDE), lambda: Image.fromarray(noise))

    views = [page(number) for number in range(PAGES)]
    if kind == "layoutlm":
        candidates = np.arange(10, 10 + CANDIDATES)
        losses = []
        for number, view in enumerate(views):
            total = Entity("e", "total", "amount", (3,))
            document = Document(
                f"m{number}", "member", view.words, entities=(total,), size=view.size
            )
            losses.append(interface.TrainingLoss(target.encode(document), 20, candidates))
        return [losses]
    answers = []
    answer_losses = []
    for view in views:
        for number in range(QUESTIONS):
            question = f"What is value {number} here?"
            answers.append(interface.Answer(view, question))
            answer_losses.append(interface.AnswerLoss(view, question, "12.50"))
    return [answers, answer_losses]


def opened(kind: str, folder: Path, dtype: str) -> Any:
    """Load the model, computing in this number format."""
    from audit.targets.answering.loading import load_answering
    from audit.targets.encoders.loading import load

    if kind == "layoutlm":
        return load(folder).rounded(dtype)
    prompt = "{text}\nQuestion: {question}\nAnswer:" if kind == "llama" else None
    # A vocabulary of this size, known to the tokenizer too, makes one row of a forward pass on a
    # CPU.
    target = load_answering(folder, prompt=prompt, batch_rows=1)
    target.reader.max_new_tokens = LONGEST
    return target.rounded(dtype)


def memory_of(name: str) -> float:
    """Read a line of this process's status, in MiB: its memory now, or the most since the peak began anew."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def measure(kind: str, folder: Path, dtype: str) -> dict[str, Any]:
    """Ask a model and count; the checkout is that of the Python path."""
    from vision_operators import declare_when_imported

    declare_when_imported()
    import torch
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    torch.set_num_threads(1)
    target = opened(kind, folder, dtype)
    asked = queries_of(kind, target)
    head = target.model.get_output_embeddings()
    done: Counter[str] = Counter()
    sizes: Counter[str] = Counter()

    def part_of(name: str, layer: Any) -> str:
        """Return the part of the model that a layer belongs to: head, seen or text."""
        if layer is head:
            return "head"
        if any(word in name for word in SEEN):
            return "seen"
        return "text"

    def counting(part: str, size: int) -> Any:
        """Return a hook that adds up a layer's multiplications and additions for its part."""
        return lambda _, given, __: done.update({part: 2 * size * given[0].shape[:-1].numel()})

    for name, layer in target.model.named_modules():
        if isinstance(layer, Linear | Conv1D):
            size = layer.weight.numel()
            part = part_of(name, layer)
            sizes[part] += size
            layer.register_forward_hook(counting(part, size))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    held = memory_of("VmRSS")
    began = resource.getrusage(resource.RUSAGE_SELF)
    answers = [target.ask(queries) for queries in asked]
    ended = resource.getrusage(resource.RUSAGE_SELF)
    spent = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    rows = CANDIDATES * PAGES if kind == "layoutlm" else sum(map(len, asked))
    found = {
        "rows": rows,
        "rows a second": rows / spent,
        "memory": memory_of("VmHWM") - held,
        "done": sum(done.values()),
    }
    least = (
        sum(done.values())
        if kind == "layoutlm"
        else least_work(kind, target, asked, answers, done, sizes)
    )
    return {**found, "least": least}


def least_work(
    kind: str,
    target: Any,
    asked: list[Any],
    answers: list[Any],
    done: Counter[str],
    sizes: Counter[str],
) -> int:
    """Count the operations of linear layers that are needed: each page once, and the head at answers alone."""
    from audit.targets.answering.reader import Sample

    done.clear()
    target.ask(asked[1][:1])
    seen = done["seen"] * PAGES
    n_written = [min(LONGEST, reply.n_tokens + 1) for reply in answers[0]] + [
        len(loss) for loss in answers[1]
    ]
    lengths = []
    shared = 0
    for number, query in enumerate([*asked[0], *asked[1]]):
        sample = Sample(query.view, query.question)
        inputs = target.reader.prompts([sample])
        row = inputs.get("decoder_input_ids", inputs.get("input_ids"))[0]
        mask = inputs.get("attention_mask")
        length = int(mask[0].sum()) if mask is not None and mask[0].shape == row.shape else len(row)
        # What the page takes of a row: all but the question, which has as many characters as
        # tokens.
        page = 0 if kind == "donut" else length - len(query.question) - 20
        shared += (
            page
            if number % (QUESTIONS * PAGES) % QUESTIONS == 0 and number < QUESTIONS * PAGES
            else 0
        )
        lengths.append(length - page)
    tokens = shared + sum(lengths) + sum(n - 1 for n in n_written)
    return int(seen + 2 * sizes["text"] * tokens + 2 * sizes["head"] * sum(n_written))


def run(checkout: Path, kind: str, folder: Path, dtype: str) -> dict[str, Any]:
    """Measure with the package of a checkout, in a process of its own."""
    root = HERE.parents[1]
    path = [str(checkout), str(root), str(root / "tests/fakes")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", kind, str(folder), dtype]
    made = subprocess.run(
        command, env=environment, cwd=checkout, capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise SystemExit(f"{kind} with {checkout} failed:\n{made.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def rows_of(kind: str, dtype: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Write one row of the table."""
    least = after["least"]
    numbers = [
        *(f"{found['rows a second']:.1f}" for found in (before, after)),
        *(f"{found['memory']:,.0f}" for found in (before, after)),
        *(f"{work / 1e9:.1f}" for work in (before["done"], after["done"], least)),
    ]
    avoided = before["done"] - after["done"]
    share = (
        f"{avoided / (before['done'] - least):.0%}"
        if before["done"] > 1.001 * least
        else "none to avoid"
    )
    return "| " + " | ".join([NAMES[kind], dtype, *numbers, share]) + " |"


TEXT_BEFORE = """# Rows of large pages

Five tiny models read a page of about 1,000 tokens and are asked 10 questions about it. Each question is answered and
scored once; the encoder scores 20 candidates. Qwen2-VL, Idefics3 and Llama have a vocabulary of 50,000 tokens. "Before"
is commit {commit}. `python -m benchmarks.performance.large_rows --before ../older` writes this
page ({machine}, {date}).

| model | format | rows/s before | after | MiB before | after | GFLOP before | after | least GFLOP | avoided |
|---|---|---|---|---|---|---|---|---|---|
"""
TEXT_AFTER = """
- Rows a second are of processor time. Memory is what the process takes beyond its size before the first question.
- GFLOP are those of linear layers.
- "Least" reads each page once, reads each other token once, and scores the tokens of answers alone.
- "Avoided" is the share of the work above "least" that is now avoided.
- In float32 on a CPU a decoder reads the page for each question, because reading it once changes last bits.
  It scores the answer alone. In bfloat16, and on a GPU in each format, it reads the page once for each kind of query.
- A Donut's page was encoded once before, and its decoder still scores its prompt.
- An encoder of words needs each row whole, as a candidate changes all of it.
- [Workers of Ray](ray_pool.md) have a table of their own: bytes sent, and how often each model is loaded.
"""


def main() -> None:
    """Measure all models before and after, in turn, and write the table."""
    if sys.argv[1:2] == ["--measure"]:
        kind, place, dtype = sys.argv[2:]
        print(json.dumps(measure(kind, Path(place), dtype)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the older checkout")
    parser.add_argument("--only", nargs="*", default=[*NAMES])
    given = parser.parse_args()
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "fakes"))
    from benchmarks.performance.scan_speed import commit_of

    lines = []
    with tempfile.TemporaryDirectory() as root:
        for kind in given.only:
            folder = write_model(kind, Path(root) / kind)
            # What bfloat16 changes is whether a decoder reads a page once.
            for dtype in ("float32",) if kind in ("donut", "layoutlm") else ("float32", "bfloat16"):
                before, after = (
                    run(checkout.resolve(), kind, folder, dtype)
                    for checkout in (given.before, HERE.parents[1])
                )
                lines.append(rows_of(kind, dtype, before, after))
                print(lines[-1], flush=True)
    head = TEXT_BEFORE.format(
        commit=commit_of(given.before),
        machine=f"{os.cpu_count()}-core CPU",
        date=time.strftime("%Y-%m-%d"),
    )
    (HERE / "large_rows.md").write_text(
        head + "\n".join(lines) + "\n" + TEXT_AFTER, encoding="utf-8"
    )


if __name__ == "__main__":
    main()
