"""Provider-level differential privacy on the invoices of `provider_invoices.py` (Tito et al. 2024, tables A2 and A6).

    python -m benchmarks.papers.provider_invoices --stage data --stage pretrain
    python -m benchmarks.papers.provider_invoices_dp [--only central-full-8 ...] [--report]

Trains the pretrained Donut on the members' invoices with a guarantee for whole providers, at
epsilon 1, 4 and 8, centrally and by ten clients of 32 providers each, all weights and adapters,
with the paper's ten rounds, rates and largest norms, and without noise; scans each for provider
membership; and writes records and a table beside the paper's into
`provider_invoices_dp/`. The noise is what each epsilon takes: by the paper's own
accounting clients need less, which does not hold (docs/countermeasures.md). What is already in
`--work` is not made again; with several processes on `--only`, each with OMP_NUM_THREADS=1, models
are trained and scanned side by side.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

from audit import record as records
from audit.cli.console import Reporter
from audit.corpus import manifest
from audit.corpus.documents import Corpus
from audit.extensions.private.options import DpOptions
from audit.extensions.private.train import train_private
from audit.measurements import Estimate
from audit.record import AuditRecord
from audit.targets.checkpoint.folder import privacy_card
from benchmarks.papers.provider_invoices import ATTACK, LEARNING_RATE, SEED, audit
from benchmarks.papers.provider_invoices_report import METHODS

HERE = Path(__file__).parent
OUT = HERE / "provider_invoices_dp"
ROUNDS = 10
CENTRAL_RATE = 1000 / 4149
CLIENT_RATE = 0.2
N_CLIENTS = 10
"""The paper's: 1000 of 4,149 providers a round in one place, or two of ten clients with all of
theirs."""
LARGEST_NORM = {
    ("central", 8.0): 5.0,
    ("central", 4.0): 2.5,
    ("central", 1.0): 1.0,
    ("clients", 8.0): 5.0,
    ("clients", 4.0): 5.0,
    ("clients", 1.0): 1.0,
}
PAPER = {
    "central-inf": (81.80, 60.25),
    "central-8": (60.12, 58.54),
    "central-4": (59.72, 56.67),
    "central-1": (54.16, 57.17),
    "clients-inf": (79.30, 57.88),
    "clients-8": (58.62, 57.78),
    "clients-4": (53.68, 55.82),
    "clients-1": (50.60, 57.48),
}
"""Table A2, accuracy of answers, and table A6, AZK at s = 5; per cent."""

INTRODUCTION = """\
Made by `provider_invoices_dp.py` on a {machine}, {date}. Data and start are those of
[provider_invoices](../provider_invoices/README.md); ten rounds of one local pass. Balanced accuracy of the attacks in
per cent, 50 for a coin, s = 5; 95 % intervals over providers, one training each. The paper's columns are accuracy of
answers (table A2) and plain accuracy of AZK (table A6, all called out: 53.5)."""

EFFECTS = """\
An effect appears where one 95 % interval lies wholly under the other, does not where they overlap. The model hardly
reads (ANLS under 0.1), so that there is little usefulness to lose. central-lora-inf is missing: after ten rounds its
adapters had changed so little that the scan refuses its start as a reference, a near copy of the model."""
CHANCE = 0.5


@dataclass(frozen=True)
class Run:
    """One training: where, what is trained, and epsilon (infinite: without noise)."""

    where: str
    trained: str
    epsilon: float

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.where}-{self.trained.partition(':')[0]}-{self.epsilon:g}"

    def options(self, n_units: int, clients: Path) -> DpOptions:
        """The paper's settings, and the noise that this epsilon takes."""
        federated = self.where == "clients"
        rate = CLIENT_RATE if federated else CENTRAL_RATE
        return DpOptions(
            unit="provider",
            epsilon=self.epsilon,
            trained=self.trained,
            steps=ROUNDS,
            expected_units=rate * n_units,
            max_norm=LARGEST_NORM.get((self.where, self.epsilon), 5.0),
            learning_rate=LEARNING_RATE,
            local_steps=1,
            clients=clients if federated else None,
            client_rate=CLIENT_RATE if federated else 1.0,
            rows=16,
            seed=SEED,
        )


RUNS = [
    Run(where, trained, epsilon)
    for where, trained, epsilon in itertools.product(
        ("central", "clients"), ("full", "lora:16"), (math.inf, 8.0, 4.0, 1.0)
    )
]


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("benchmarks/.work/providers"),
        help="of provider_invoices.py",
    )
    parser.add_argument(
        "--only", action="append", choices=[run.name for run in RUNS], help="may be repeated"
    )
    parser.add_argument(
        "--report", action="store_true", help="only write the table of what is there"
    )
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    if not options.report:
        corpus = manifest.load(options.work / "data")
        for run in RUNS:
            if run.name in (options.only or [run.name]):
                measure(run, corpus, options.work)
    (OUT / "README.md").write_text("\n".join(page(options.machine)))


def measure(run: Run, corpus: Corpus, work: Path) -> None:
    """Train and scan one model, once."""
    result = OUT / f"{run.name}.json"
    model = work / f"dp-{run.name}"
    if result.exists():
        return
    names = sorted({document.provider for document in corpus.of("member") if document.provider})
    clients = write_clients(names, work / "clients.toml")
    options = run.options(len(names), clients)
    began = time.monotonic()
    if not model.exists():
        with Reporter() as progress:
            start = corpus.root / "references" / "pretrained"
            trained = train_private(start, corpus, work / "private", options, progress=progress)
        shutil.copytree(trained, model)
    seconds = round(time.monotonic() - began, 1)
    audit(model, corpus.root, work / f"report-{model.name}", result)
    card = privacy_card(model)
    content = {"dp": None if card is None else asdict(card), "seconds": seconds}
    (OUT / f"{run.name}.training.json").write_text(json.dumps(content, indent=1) + "\n")


def write_clients(providers: list[str], path: Path) -> Path:
    """Deal the providers out to the clients in turn."""
    dealt = [providers[number::N_CLIENTS] for number in range(min(N_CLIENTS, len(providers)))]
    lines = [f"client-{number} = {json.dumps(own)}" for number, own in enumerate(dealt)]
    path.write_text("\n".join(["[clients]", *lines]) + "\n")
    return path


def page(machine: str) -> Iterator[str]:
    """The README: one row a training, beside the paper's."""
    yield from ("# Provider-level differential privacy on synthetic invoices", "")
    yield INTRODUCTION.format(machine=machine, date=time.strftime("%Y-%m-%d"))
    columns = (
        "training",
        "epsilon",
        "sigma",
        "held-out ANLS",
        *METHODS.values(),
        "user inference AUC",
    )
    head = (*columns, "paper: accuracy", "paper: AZK")
    yield from ("", f"| {' | '.join(head)} |", "|---" * len(head) + "|")
    made = [run for run in RUNS if (OUT / f"{run.name}.training.json").exists()]
    yield from (row(run) for run in made)
    yield from ("", "## Effects", "", EFFECTS, "")
    yield from effects({run.name: records.read(OUT / f"{run.name}.json") for run in made})
    yield ""


def effects(made: dict[str, AuditRecord]) -> Iterator[str]:
    """One line for each direction that the paper reports, and one for adapters, which it does not have."""
    kinds = ("central-full", "central-lora", "clients-full", "clients-lora")
    noised = [f"{kind}-{epsilon}" for kind in kinds for epsilon in (8, 4, 1)]
    told = {name: found(record, "auc") for name, record in made.items()}
    useful = {name: utility_of(record) for name, record in made.items()}
    chance = {f"{kind}-inf": (None, told.get(f"{kind}-inf")) for kind in kinds}
    yield effect("Without noise, providers are told (user inference AUC above 0.5)", chance)
    hidden = {name: (told.get(name), told.get(f"{name.rpartition('-')[0]}-inf")) for name in noised}
    yield effect("With noise, they are told less than without", hidden)
    costs = {
        name: (useful.get(name), useful.get(f"{name.rpartition('-')[0]}-inf")) for name in noised
    }
    yield effect("Noise costs usefulness (held-out ANLS under that without)", costs)
    steps = itertools.product(kinds, ((4, 8), (1, 4)))
    less = {
        f"{kind}-{low}": (useful.get(f"{kind}-{low}"), useful.get(f"{kind}-{high}"))
        for kind, (low, high) in steps
    }
    yield effect("A smaller epsilon costs more (than the next larger one)", less)
    apart = {
        name: (useful.get(name), useful.get(name.replace("clients", "central")))
        for name in noised[6:]
    }
    yield effect("Clients cost more than one place at the same epsilon", apart)
    full = {
        name: (useful.get(name), useful.get(name.replace("full", "lora")))
        for name in noised
        if "full" in name
    }
    yield effect("All weights keep less than adapters at the same epsilon (not in the paper)", full)


def effect(claim: str, pairs: Mapping[str, tuple[Estimate | None, Estimate | None]]) -> str:
    """A claim that the first of each pair is smaller, with where that is so.

    Chance where there is no first.
    """
    sides: dict[str, list[str]] = {"appears": [], "does not appear": [], "is the opposite": []}
    for name, (small, large) in pairs.items():
        if large is None or (small is None and not name.endswith("-inf")):
            continue
        low, high = (CHANCE, CHANCE) if small is None else (small.low, small.high)
        side = (
            "appears"
            if high < large.low
            else "is the opposite"
            if large.high < low
            else "does not appear"
        )
        sides[side].append(name)
    return (
        f"- {claim}: "
        + "; ".join(f"{side} for {', '.join(names)}" for side, names in sides.items() if names)
        + "."
    )


def utility_of(record: AuditRecord) -> Estimate | None:
    """Held-out ANLS."""
    return next((item for item in record.utility if isinstance(item, Estimate)), None)


def row(run: Run) -> str:
    """One training."""
    record = records.read(OUT / f"{run.name}.json")
    card = json.loads((OUT / f"{run.name}.training.json").read_text())["dp"]
    paper = PAPER[f"{run.where}-{run.epsilon:g}"] if run.trained == "full" else ("-", "-")
    promised = "none" if card is None or card["epsilon"] is None else f"{card['epsilon']:.2f}"
    noise = "-" if card is None else f"{card['noise_multiplier']:.2f}"
    cells = [run.name, promised, noise, shown(utility_of(record))]
    cells += [shown(found(record, f"balanced_accuracy.{name}.s5"), 100) for name in METHODS]
    cells += [shown(found(record, "auc")), *map(str, paper)]
    return f"| {' | '.join(cells)} |"


def found(record: AuditRecord, name: str) -> Estimate | None:
    """One number of the attack."""
    (result,) = (one for one in record.attacks if one.attack == ATTACK)
    assert result.status == "completed"
    return next(
        (item for item in result.measurements if item.name == name and isinstance(item, Estimate)),
        None,
    )


def shown(item: Estimate | None, scale: float = 1.0) -> str:
    """A number with its interval."""
    if item is None:
        return "-"
    digits = 1 if scale > 1 else 3
    return f"{scale * item.value:.{digits}f} [{scale * item.low:.{digits}f}, {scale * item.high:.{digits}f}]"


if __name__ == "__main__":
    main()
