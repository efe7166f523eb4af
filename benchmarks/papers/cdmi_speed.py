r"""How fast CDMI runs, against a plain loop that follows algorithm 2 of the paper literally.

    python -m benchmarks.papers.cdmi_tables --stage train --only sroie-public-mlm \
        --only sroie-token-classification-unimodal
    python -m benchmarks.papers.cdmi_speed

The loop (here, not in the package) takes one field, one attempt, one batch of candidates at a time.
Both get the same seed and the same padded lengths and must give the same tokens field by field.
Reported apart: what sharing prefixes saves (a), candidates per second with the sharing left out of
account (b), the share of the machine's own matrix- product rate (c), both together end to end, and
whether memory grows with the number of fields. `--paper-size` runs the attack at the size of the
paper's largest experiment, with random weights of LayoutLM-base's shape, for a GPU. Writes
`cdmi_speed/<device>.json`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LayoutLMConfig, PreTrainedTokenizerFast

from audit.attacks.budget import sample
from audit.attacks.fields import field_of
from audit.attacks.measuring import combine, log_likelihood_of_losses, log_softmax
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.reconstruction.methods import Rule, Sampling, draw, nucleus, temperature_at
from audit.attacks.reconstruction.table import DEFAULT
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Task, Word
from audit.engine.driver import drive
from audit.engine.interface import WIDTH, Attempt, Trial
from audit.targets.batching import bucket_of
from audit.targets.encoded_page import NOT_READ, Encoding
from audit.targets.encoders.families import family_named
from audit.targets.encoders.heads import HeadName
from audit.targets.encoders.loading import load
from audit.targets.encoders.target import best_first
from audit.targets.interface import TokenTarget, TrainingLoss
from audit.workflows.options import ScanOptions
from audit.workflows.session import Session, open_session

HERE = Path(__file__).parent
SEED = 0
TOP_P = 0.5
"""A wide nucleus: with the usual one this model's attempts are nearly all alike, and sharing would
save too much."""


@dataclass(frozen=True)
class Published(Reconstruction):
    """The published method alone, with these settings: what the loop does too."""

    @property
    def rules(self) -> Mapping[str, Rule]:
        """See `Reconstruction.rules`."""
        own = Sampling(
            self.temperature, self.temperature_start, self.target_weight, self.mean, self.top_p
        )
        return {DEFAULT: own}


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/cdmi"))
    parser.add_argument(
        "--fields", type=int, default=6, help="790 in the paper's largest experiment"
    )
    parser.add_argument("--n-candidates", type=int, default=64, help="128 in the paper")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    parser.add_argument(
        "--paper-size", action="store_true", help="random weights of LayoutLM-base's shape"
    )
    parser.add_argument(
        "--peak-memory", action="store_true", help="only attack, and print the peak memory in MB"
    )
    options = parser.parse_args()
    if options.paper_size:
        report = paper_size(options)
    else:
        opened = open_case(options)
        public: Any = opened.prepared.auxiliary
        case = Case(opened.target, opened.corpus, References(public.target))
        attack = Published(n_candidates=options.n_candidates, top_p=TOP_P)
        trials = sample(attack.usual_trials(case), 1.0, SEED)[: options.fields]
        if options.peak_memory:
            product(case, attack, trials)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            return
        report = compare(case, attack, trials, options)
    report |= {
        "machine": options.machine,
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
    }
    report |= {"device": options.device, "dtype": options.dtype, "threads": torch.get_num_threads()}
    name = f"{options.device}-{options.dtype}{'-paper-size' if options.paper_size else ''}"
    folder = HERE / "cdmi_speed"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def open_case(options: argparse.Namespace) -> Session:
    """The EE-BIO model of `cdmi_tables.py` on SROIE."""
    return open_session(
        ScanOptions(
            model_dir=options.work / "sroie-token-classification-unimodal-precision",
            data_dir=options.work / "data-sroie-token-classification",
            out=options.work / "speed",
            device=options.device,
            references={"auxiliary": [options.work / "sroie-public-mlm-loss"]},
        )
    )


@dataclass(frozen=True)
class AttackWork:
    """The attack's trials, each with the randomness that a scan gives it."""

    case: Case
    attack: Reconstruction

    def attempt(self, trial: Trial) -> Attempt:
        """See `audit.engine.interface.Work`."""
        return self.attack.attempt(self.case, trial, source_of(trial))


def source_of(trial: Trial) -> np.random.Generator:
    """The randomness of a trial."""
    digest = hashlib.sha256(trial.id.encode()).digest()
    return np.random.default_rng([SEED, int.from_bytes(digest[:16])])


class Counting:
    """Passes questions on to a target and counts the prefixes whose candidates it scores, and their tokens."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self.prefixes = self.candidates = 0
        self.lengths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def ask(self, queries: Sequence[Any]) -> list[Any]:
        """See `Target.ask`."""
        for query in queries:
            if isinstance(query, TrainingLoss):
                self.prefixes += 1
                self.candidates += len(query.candidates)
                self.lengths += [len(query.page.ids)] * len(query.candidates)
        return list(self._target.ask(queries))


def product(
    case: Case, attack: Reconstruction, trials: Sequence[Trial]
) -> tuple[dict[str, Any], Counting, float]:
    """Docaudit's own attack: outcomes by trial, what was asked, seconds."""
    counting = Counting(case.target)
    work = AttackWork(replace(case, target=counting), attack)
    began = time.perf_counter()
    outcomes = dict(drive(work, trials, WIDTH))
    return outcomes, counting, time.perf_counter() - began


@dataclass
class Loop:
    """Algorithm 2, literally: one field, one attempt, one batch of candidates at a time."""

    case: Case
    attack: Reconstruction
    prefixes: int = 0
    candidates: int = 0

    def run(self, trials: Sequence[Trial]) -> dict[str, dict[str, list[list[int]]]]:
        """The tokens of every attempt, by trial, with the target and without it."""
        with torch.inference_mode():
            return {trial.id: self._field(trial) for trial in trials}

    def _field(self, trial: Trial) -> dict[str, list[list[int]]]:
        field = field_of(self.case, trial, self.attack.min_tokens, self.attack.max_tokens)
        assert field.page is not None
        page = field.scrubbed()
        attack_rng, baseline_rng = source_of(trial).spawn(2)
        count = self.attack.n_attempts
        return {
            "attack": [
                self._attempt(page, field.positions, rng, judged=True)
                for rng in attack_rng.spawn(count)
            ],
            "baseline": [
                self._attempt(page, field.positions, rng, judged=False)
                for rng in baseline_rng.spawn(count)
            ],
        }

    def _attempt(
        self, page: Encoding, positions: Sequence[int], rng: np.random.Generator, *, judged: bool
    ) -> list[int]:
        attack = self.attack
        tokens = list[int]()
        for step, position in enumerate(positions):
            ids, logits = self._proposed(page, position)
            temperature = temperature_at(step, attack.temperature, attack.temperature_start)
            log_p = log_softmax(logits / temperature)
            if judged:
                log_l, _ = log_likelihood_of_losses(
                    self._losses(page, position, ids), attack.temperature
                )
                log_p = combine(log_p, log_l, attack.target_weight, attack.mean)
            place = draw(np.exp(log_p), nucleus(np.exp(log_p), ids, attack.top_p), rng)
            tokens.append(int(ids[place]))
            page = page.with_tokens([position], tokens[-1:])
        return tokens

    def _proposed(self, page: Encoding, position: int) -> tuple[Any, Any]:
        public: Any = self.case.references.auxiliary
        logits = (
            public.model(**padded(public, [page.ids], page))
            .logits[0, position]
            .cpu()
            .double()
            .numpy()
        )
        logits[public._never_candidates] = -np.inf
        best = best_first(logits, self.attack.n_candidates)
        return best, logits[best]

    def _losses(self, page: Encoding, position: int, candidates: Any) -> Any:
        self.prefixes += 1
        self.candidates += len(candidates)
        rows = [page.with_tokens([position], [int(token)]).ids for token in candidates]
        target: Any = self.case.target
        inputs = padded(target, rows, page)
        logits = target.model(**inputs).logits
        labels = torch.full(logits.shape[:2], NOT_READ)
        assert page.labels is not None
        labels[:, : len(page.ids)] = torch.from_numpy(page.labels)
        costs = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten().to(logits.device), reduction="none"
        ).view(labels.shape)
        read = (labels != NOT_READ).to(logits.device)
        return ((costs * read).sum(1) / read.sum(1)).cpu().double().numpy()


def padded(target: Any, rows: Sequence[Any], page: Encoding) -> dict[str, torch.Tensor]:
    """The model's inputs for these token ids on one page, padded as docaudit pads them."""
    length = len(page.ids)
    bucket = bucket_of(len(page.ids))
    ids = np.full((len(rows), bucket), target.encoder.tokenizer.pad_token_id, np.int64)
    mask = np.zeros_like(ids)
    boxes = np.zeros((*ids.shape, 4))
    ids[:, :length] = np.stack(rows)
    mask[:, :length] = 1
    boxes[:, :length] = page.boxes
    inputs: dict[str, torch.Tensor] = target.family.inputs(ids, mask, boxes, target.card.device)
    return inputs


def compare(
    case: Case, attack: Reconstruction, trials: Sequence[Trial], options: argparse.Namespace
) -> dict[str, Any]:
    """Both ways on the same fields, interleaved with the machine's matrix products, so that all see the same load."""
    product(case, attack, trials[:1])  # warm up
    rates = [matmul_rate(case.target, options.dtype)]
    outcomes, counting, seconds = product(case, attack, trials)
    rates.append(matmul_rate(case.target, options.dtype))
    loop = Loop(case, attack)
    began = time.perf_counter()
    literal = loop.run(trials)
    loop_seconds = time.perf_counter() - began
    rates.append(matmul_rate(case.target, options.dtype))
    same = [
        all(
            [shot["tokens"] for shot in outcomes[name][player]] == found[player]
            for player in ("attack", "baseline")
        )
        for name, found in literal.items()
    ]
    sharing = loop.prefixes / counting.prefixes
    faster = (counting.candidates / seconds) / (loop.candidates / loop_seconds)
    rate = float(np.median(rates))
    return {
        "fields": len(trials),
        "n_candidates": attack.n_candidates,
        "n_attempts": attack.n_attempts,
        "top_p": attack.top_p,
        "distinct attempts, median": float(
            np.median(
                [
                    len({tuple(shot["tokens"]) for shot in found["attack"]})
                    for found in outcomes.values()
                ]
            )
        ),
        "same tokens as the loop, fields": sum(same),
        "prefixes, all": loop.prefixes,
        "prefixes, asked": counting.prefixes,
        "prefixes, distinct in the attempts' trie": sum(
            trie_size(found["attack"]) for found in outcomes.values()
        ),
        "a: sharing": sharing,
        "candidates per second": counting.candidates / seconds,
        "candidates per second, loop": loop.candidates / loop_seconds,
        "b: faster than the loop, sharing apart": faster,
        "matmul GFLOP/s": rate / 1e9,
        "c: share of the matmul rate": flop(case.target, counting.lengths) / seconds / rate,
        "seconds": seconds,
        "seconds, loop": loop_seconds,
        "end to end / (a b)": loop_seconds / seconds / (sharing * faster),
        "peak memory MB, fields and twice as many": [
            peak_memory(options, n) for n in (len(trials), 2 * len(trials))
        ],
    }


def trie_size(shots: Sequence[dict[str, Any]]) -> int:
    """Distinct prefixes among the attempts at a field, the empty one included, whole attempts left out."""
    return len(
        {tuple(shot["tokens"][:step]) for shot in shots for step in range(len(shot["tokens"]))}
    )


def flop(target: Any, lengths: Sequence[int]) -> float:
    """Floating-point operations of one forward pass of the encoder over rows of these lengths, padding left out."""
    config = target.model.config
    hidden = config.hidden_size
    inner = config.intermediate_size
    layers = config.num_hidden_layers
    rows = np.array(lengths, float)
    per_layer = rows * 2 * (4 * hidden**2 + 2 * hidden * inner) + 4 * rows**2 * hidden
    return float(layers * per_layer.sum())


def wait_for(device: str) -> None:
    """Wait until a GPU has done what it was given: only then does a clock say anything."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def matmul_rate(target: Any, dtype_name: str, seconds: float = 2.0) -> float:
    """The machine's own rate, operations per second: the encoder's largest product at the size of one batch."""
    config = target.model.config
    dtype = getattr(torch, dtype_name)
    device = target.card.device
    a = torch.randn(target.batch_tokens, config.hidden_size, dtype=dtype, device=device)
    b = torch.randn(config.hidden_size, config.intermediate_size, dtype=dtype, device=device)
    a @ b
    wait_for(device)
    done = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            a @ b
        wait_for(device)
        done += 10
    return done * 2 * a.shape[0] * b.shape[0] * b.shape[1] / (time.perf_counter() - began)


def paper_size(options: argparse.Namespace) -> dict[str, Any]:
    """One-shot and multi-shot at the size of the paper's largest experiment.

    Random weights, invented pages.
    """
    case = invented_case(options.fields, options.device)
    if options.dtype != "float32":
        case = replace(case, target=case.target.rounded(options.dtype))  # type: ignore[attr-defined]
    report: dict[str, Any] = {"fields": options.fields, "n_candidates": options.n_candidates}
    product(case, Published(n_candidates=options.n_candidates, n_attempts=1), trials_of(case, 2))
    rate = matmul_rate(case.target, options.dtype)
    for name, n_attempts in (("one-shot", 1), ("multi-shot", 8)):
        attack = Published(n_candidates=options.n_candidates, n_attempts=n_attempts)
        _, counting, seconds = product(case, attack, trials_of(case, options.fields))
        work = flop(case.target, counting.lengths)
        report[name] = {
            "seconds": seconds,
            "prefixes": counting.prefixes,
            "bound, FLOP / (0.5 x measured rate), seconds": work / (0.5 * rate),
            "share of the matmul rate": work / seconds / rate,
        }
    return report


def invented_case(
    n_fields: int, device: str, config: LayoutLMConfig | None = None, n_words: int = 240
) -> Case:
    """Pages of as many one-token words, with one field each of 3 to 15.

    A target and a public model of base shape.

    Args:
        n_fields: one a page.
        device: "cpu", "cuda" or "mps".
        config: another shape than LayoutLM-base's.
        n_words: of a page, 40 or more.
    """
    base = config or LayoutLMConfig()
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    vocabulary |= {f"w{i}": i for i in range(len(vocabulary), base.vocab_size)}
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    inner = Tokenizer(WordLevel(vocabulary, "[UNK]"))
    inner.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        model_max_length=512,
        **{f"{name}_token": token for name, token in names.items()},
    )
    labels = ("O", "B-X", "I-X")
    base.num_labels = len(labels)
    targets = {}
    heads: dict[HeadName, tuple[str, ...]] = {"token-classification": labels, "mlm": ()}
    for task, outputs in heads.items():
        torch.manual_seed(SEED)
        with tempfile.TemporaryDirectory() as folder:
            family_named("layoutlm").heads[task](base).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            targets[task] = load(Path(folder), device=device, labels=outputs)
    rng = np.random.default_rng(SEED)
    documents = []
    for number in range(n_fields):
        corners = rng.integers(0, 900, (n_words, 2))
        words = tuple(
            Word(f"w{rng.integers(5, base.vocab_size)}", (x, y, x + 60.0, y + 12.0))
            for x, y in corners.tolist()
        )
        start = int(rng.integers(n_words - 15))
        length = int(np.clip(rng.poisson(2.6) + 3, 3, 15))
        field = Entity("e", "X", "misc", tuple(range(start, start + length)))
        documents.append(
            Document(f"d{number}", "member", words, size=(1000, 1000), entities=(field,))
        )
    about = Manifest(1, "invented", Task("token-classification", labels), Membership("random"))
    corpus = Corpus(Path(), about, tuple(documents), "")
    return Case(
        targets["token-classification"], corpus, References(cast("TokenTarget", targets["mlm"]))
    )


def trials_of(case: Case, n_fields: int) -> list[Trial]:
    """The first fields of an invented corpus."""
    return Reconstruction().usual_trials(case)[:n_fields]


def peak_memory(options: argparse.Namespace, n_fields: int) -> float:
    """Peak memory of a process of its own that attacks so many fields, MB."""
    command = [
        sys.executable,
        __file__,
        "--peak-memory",
        "--work",
        options.work,
        "--device",
        options.device,
    ]
    command += ["--fields", str(n_fields), "--n-candidates", "8"]
    return float(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()[-1]
    )


if __name__ == "__main__":
    main()
