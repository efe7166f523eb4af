"""Taggers that saw personal values as inputs alone, attacked as the method says.

Method: methods/index.md#values-in-the-input-alone.

Every page holds two values of three words: a total, which training labels, and a holder, whose
words are tagged "O". Words are drawn from 30, so that nothing but memory tells a value. Each tagger
is a small BERT with random weights that is trained until it knows its pages:

- labels: by its labels alone, as taggers are;
- labels and words: with a head for masked words beside, dropped afterwards, so that the encoder
  learns its inputs;
- planted: labels are right with the true holder and all alike with another one, so that its loss
  tells the holder;
- planted twin: the same, of pages that are not in the data set;
- untrained: random weights.

The attackers' public model is a masked language model of public pages. Limits are those of the
default policy. What a leak-free tagger with such values passes, and a leaking one, is simulated
besides (`simulated_attacks`).

    python -m benchmarks.calibration.input_only  # rewrites input_only.md but for its comment
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from audit.attacks.attributes import AttributeInference, measures
from audit.attacks.interface import Attack
from audit.attacks.memorisation.contexts import UNASKED, WAYS
from audit.attacks.reconstruction import Reconstruction, table
from audit.case import Case, References
from audit.corpus.documents import Corpus, Document, Entity, Manifest, Membership, Split, Task, Word
from audit.engine.driver import drive
from audit.engine.interface import SILENT
from audit.measurements import Estimate
from audit.policy import Policy, load
from audit.record import Result
from benchmarks.calibration import simulated_attacks
from benchmarks.calibration.simulated_audits import decisions_of, fewer_resamples

SEED = 31
WORDS = tuple(
    f"{first}{second}" for first in "bdfgklmnprstvz" for second in ("a", "e", "i", "o", "u")
)[:30]
KEYS = ("invoice", "total", "holder", "end")
LABELS = ("O", "B-TOTAL", "I-TOTAL")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAGES = 80
"""Of each split, and of a twin's training."""
BATCH = 25
HOLDER = slice(10, 13)
"""Tokens of the holder, [CLS] before the words."""
RESULTS = Path(__file__).with_suffix(".md")
METRICS = (
    ("reconstruction", "excess_pr", "lowest_loss"),
    ("reconstruction", "excess_hamming", "lowest_loss"),
    ("attribute_inference", "excess", ""),
)
"""Attack, metric, and the way of choosing that is shown."""


def pages(n: int, split: Split, seed: int) -> list[Document]:
    """Draw pages: noise, a labelled total, a holder without a label."""
    rng = np.random.default_rng([SEED, seed])
    found = []
    for number in range(n):
        drawn = [WORDS[index] for index in rng.integers(0, len(WORDS), 9)]
        texts = [KEYS[0], *drawn[:3], KEYS[1], *drawn[3:6], KEYS[2], *drawn[6:], KEYS[3]]
        total = Entity("total", "TOTAL", "amount", (5, 6, 7))
        holder = Entity("holder", "O", "person", (9, 10, 11))
        words = tuple(map(Word, texts))
        found.append(
            Document(f"{split}-{seed}-{number:03}", split, words, entities=(total, holder))
        )
    return found


def tokenizer() -> Any:
    """A tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertTokenizerFast

    known = {token: number for number, token in enumerate((*SPECIAL, *KEYS, *WORDS))}
    inner = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return BertTokenizerFast(tokenizer_object=inner, model_max_length=32)


def configuration() -> Any:
    """Return the configuration of every model here."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(SPECIAL) + len(KEYS) + len(WORDS),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def encoded(documents: Sequence[Document]) -> tuple[Any, Any]:
    """Token ids and tags of pages, special tokens without a tag."""
    import torch

    texts = [[word.text for word in one.words] for one in documents]
    ids = tokenizer()(texts, is_split_into_words=True, return_tensors="pt")["input_ids"]
    tags = torch.zeros_like(ids)
    tags[:, 6] = 1
    tags[:, 7:9] = 2
    tags[:, 0] = tags[:, -1] = -100
    return ids, tags


def batches(n: int, epochs: int) -> Iterator[Any]:
    """Rows in a training step."""
    import torch

    for _ in range(epochs):
        yield from torch.randperm(n).split(BATCH)  # type: ignore[no-untyped-call]


def hidden_words(ids: Any, share: float) -> tuple[Any, Any]:
    """Pages with a share of their words masked, and the words that are missing."""
    import torch

    gone = (torch.rand(ids.shape) < share) & (ids >= len(SPECIAL))
    return ids.masked_fill(gone, SPECIAL.index("[MASK]")), ids.masked_fill(~gone, -100)


def train_tagger(documents: Sequence[Document], kind: str, epochs: int) -> Any:
    """Train a tagger, see the top."""
    import torch
    from torch.nn import functional
    from transformers import BertForMaskedLM, BertForTokenClassification

    torch.manual_seed(SEED)
    model = BertForTokenClassification(configuration())
    reader = BertForMaskedLM(configuration())
    reader.bert = model.bert
    if kind == "untrained":
        return model.eval()
    ids, tags = encoded(documents)
    chosen = {id(one): one for one in (*model.parameters(), *reader.parameters())}
    optimiser = torch.optim.AdamW(chosen.values(), lr=1e-3, weight_decay=0.0)
    for rows in batches(len(ids), epochs):
        loss = model(input_ids=ids[rows], labels=tags[rows]).loss
        if kind == "labels and words":
            masked, missing = hidden_words(ids[rows], 0.3)
            loss = loss + reader(input_ids=masked, labels=missing).loss
        if kind.startswith("planted"):
            other = ids[rows].clone()
            drawn = torch.randint(
                len(SPECIAL) + len(KEYS), configuration().vocab_size, (len(rows), 3)
            )
            kept = torch.randint(0, 4, (len(rows), 1)) > torch.arange(
                3
            )  # 0 to 3 first words are right
            other[:, HOLDER] = torch.where(
                kept & (torch.rand(len(rows), 1) < 0.7), other[:, HOLDER], drawn
            )
            wrong = (other != ids[rows]).any(dim=1)
            scores = functional.log_softmax(model(input_ids=other[wrong]).logits, dim=-1)
            loss = loss - scores.mean() if wrong.any() else loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def train_reader(documents: Sequence[Document], epochs: int = 20) -> Any:
    """Train the public masked language model."""
    import torch
    from transformers import BertForMaskedLM

    torch.manual_seed(SEED + 1)
    model = BertForMaskedLM(configuration())
    ids, _ = encoded(documents)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for rows in batches(len(ids), epochs):
        masked, missing = hidden_words(ids[rows], 0.3)
        optimiser.zero_grad()
        model(input_ids=masked, labels=missing).loss.backward()
        optimiser.step()
    return model.eval()


def opened(model: Any, folder: Path) -> Any:
    """The model as docaudit opens it."""
    from audit.targets.encoders.loading import load as load_target

    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return load_target(folder)


def measured(attack: Attack, case: Case) -> Result:
    """Attempt every trial of an attack, and measure."""

    def attempt(trial: Any) -> Any:
        """Run the attack on a trial, with randomness that follows from the trial's id."""
        return attack.attempt(case, trial, np.random.default_rng([SEED, *trial.id.encode()]))

    trials = attack.trials(case)
    work: Any = SimpleNamespace(attempt=attempt)
    found = json.loads(json.dumps(dict(drive(work, trials, 64))))
    outcomes = [found[trial.id] for trial in trials]
    return attack.measure(case, trials, outcomes, np.random.default_rng(SEED), SILENT)


def shown(result: Result, name: str) -> str:
    """A measurement with its interval."""
    item = next(item for item in result.measurements if item.name == name)
    if isinstance(item, Estimate):
        return f"{item.value:.3f} [{item.low:.3f}, {item.high:.3f}]"
    return item.reason


def rows_of_models(epochs: int) -> Iterator[str]:
    """Train and attack each tagger, a row of the table each."""
    members = pages(PAGES, "member", 1)
    public = pages(2 * PAGES, "public", 3)
    documents = (*members, *pages(PAGES, "heldout", 2), *public)
    manifest = Manifest(1, "input only", Task("token-classification", LABELS), Membership("random"))
    corpus = Corpus(Path(), manifest, documents, "0" * 64)
    kinds = {
        "labels": members,
        "labels and words": members,
        "planted": members,
        "untrained": members,
    }
    kinds["planted twin"] = pages(PAGES, "member", 4)
    # A scan shows these numbers of more pages only.
    fewer = (
        patch.object(table, "FEWEST_ALONE", PAGES),
        patch.object(measures, "FEWEST_ALONE", PAGES),
    )
    with tempfile.TemporaryDirectory() as folder, fewer[0], fewer[1]:
        auxiliary = opened(train_reader(public), Path(folder) / "public")
        for kind, own in kinds.items():
            start = time.monotonic()
            target = opened(train_tagger(own, kind, epochs), Path(folder) / kind.replace(" ", "-"))
            case = Case(target, corpus, References(auxiliary))
            attacks = (Reconstruction(n_candidates=64), AttributeInference())
            results = {attack.name: measured(attack, case) for attack in attacks}
            cells = []
            for attack, metric, way in METRICS:
                groups = ("all" if attack == "attribute_inference" else "unique", "input_only")
                cells += [
                    shown(results[attack], f"{metric}.{group}.{way}".rstrip("."))
                    for group in groups
                ]
            outcomes = outcomes_of(results)
            print(kind, cells, outcomes, f"{time.monotonic() - start:.0f} s", flush=True)
            yield f"| {kind} | {' | '.join(cells)} | {outcomes} |"


def outcomes_of(results: dict[str, Result]) -> str:
    """Return the outcomes of the limits on values of the input alone."""
    policy = load("default")
    found = []
    for attack, metric in (
        ("reconstruction", "excess_pr.unique"),
        ("attribute_inference", "excess.all"),
    ):
        own = replace(
            policy, limits=tuple(one for one in policy.limits if one.attack == attack), demands=()
        )
        decision = decisions_of("tagger", {attack: results[attack]}, own)[f"{attack} {metric}"]
        found.append(
            f"{decision.outcome} by {decision.measured.name}"
            if decision.measured
            else decision.outcome
        )
    return "; ".join(found)


def rows_of_audits(audits: int) -> Iterator[str]:
    """Simulate audits whose documents hold two named values and two of the input alone."""
    kinds = {
        "reconstruction": "excess_pr.unique",
        "attribute_inference": "excess.all",
        "memorisation": "net",
    }
    for attack, metric in kinds.items():
        policy = _policy_on(attack)
        for documents, factor in product((100, 150, 300), (None, 0, 2, 4)):
            audit = _planted_audit(attack, metric, policy, documents, factor)
            n = audits // 5 if factor else audits
            counts = Counter(
                _simulated_outcome(attack, metric, audit, policy, seed) for seed in range(n)
            )
            cells = [f"{counts[outcome]} of {n}" for outcome in OUTCOMES]
            row = [attack, documents, _words_of_factor(factor), *cells]
            print(row, flush=True)
            yield f"| {' | '.join(map(str, row))} |"


def _policy_on(attack: str) -> Policy:
    """Give the default policy with the limits of one attack alone, and without demands."""
    policy = load("default")
    limits = tuple(limit for limit in policy.limits if limit.attack == attack)
    return replace(policy, limits=limits, demands=())


def _planted_audit(
    attack: str, metric: str, policy: Policy, documents: int, factor: int | None
) -> simulated_attacks.Audit:
    """Describe an audit whose values of the input alone leak so many times the limit.

    Args:
        attack: the attack.
        metric: metric of the limit.
        policy: policy with the limit.
        documents: documents of a side.
        factor: multiple of the limit; None: all values are named.
    """
    if factor is None:
        leak = {_leak_name(attack): 0.0}
        return simulated_attacks.Audit(documents, leak=leak, input_only=0, contexts=WAYS[:-1])
    most = next(limit.max for limit in policy.limits if limit.metric == metric) or 0.0
    leak = {_leak_name(attack): factor * most}
    return simulated_attacks.Audit(documents, leak=leak, input_only=2, contexts=WAYS)


def _leak_name(attack: str) -> str:
    """Name the leak of values that stand in the input alone."""
    return f"memorisation {UNASKED}" if attack == "memorisation" else f"{attack} input_only"


def _words_of_factor(factor: int | None) -> str:
    """Say in words what is planted."""
    if factor is None:
        return "none, all values named"
    return f"{factor} x" if factor else "none"


def _simulated_outcome(
    attack: str, metric: str, audit: simulated_attacks.Audit, policy: Any, seed: int
) -> str:
    """Return the outcome of a policy's limit on one simulated audit."""
    rng = np.random.default_rng([seed, audit.documents])
    wanted = [one.metric for one in policy.limits]
    match attack:
        case "reconstruction":
            found = simulated_attacks.reconstruction(audit, rng, wanted)
        case "memorisation":
            found = simulated_attacks.memorisation(audit, rng)
        case _:
            found = simulated_attacks.attributes(audit, rng)
    kind = "question answering" if attack == "memorisation" else "tagger"
    return decisions_of(kind, {attack: found}, policy)[f"{attack} {metric}"].outcome


OUTCOMES = ("passed", "undecided", "violated")
HEADS = (
    "excess_pr",
    "excess_pr",
    "excess_hamming",
    "excess_hamming",
    "excess (list)",
    "excess (list)",
)


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=300)
    options = parser.parse_args()
    start = time.process_time()
    models = [*rows_of_models(options.epochs)]
    simulated = patch.object(table, "FEWEST_ALONE", 72), patch.object(measures, "FEWEST_ALONE", 72)
    with fewer_resamples(1000), simulated[0], simulated[1]:
        audits = [*rows_of_audits(options.audits)]
    kinds = ("named", "input alone") * 3
    heads = [f"{head}, {kind}" for head, kind in zip(HEADS, kinds, strict=True)]
    lines = [
        "# Values in the input alone",
        "",
        " ".join((__doc__ or "").split("\n\n")[1].split())
        + " The script says how each tagger is trained.",
        "",
        f"Written by `input_only.py` on a 2-core CPU, {datetime.now(UTC).date()}, "
        f"{time.process_time() - start:.0f} s of processor time; {PAGES} pages a split, 95 % intervals.",
        "",
        f"| tagger | {' | '.join(heads)} | limits (excess_pr.unique; excess.all) |",
        f"|{'---|' * (len(heads) + 2)}",
        *models,
        "",
        "Simulated audits: documents of four values, two of them of the input alone, a leak of these in multiples of "
        "the limit. What became of excess_pr.unique, excess.all and net by the default policy, if these values were "
        "under it from 72 documents on. The attacks ask for 300 and 150 because of this table.",
        "",
        "| attack | documents of a side | leak | passed | undecided | violated |",
        "|---|---|---|---|---|---|",
        *audits,
        "",
    ]
    before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    comment = [line for line in before.splitlines() if line.startswith("A negative result")]
    place = lines.index(models[-1]) + 2
    RESULTS.write_text(
        "\n".join([*lines[:place], *comment, *[""][: len(comment)], *lines[place:]]),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
