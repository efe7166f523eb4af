"""What differential privacy buys and costs on the samples: `docaudit defend dp` at epsilon 2, 8 and without noise.

    python -m benchmarks.calibration.dp_samples [--only utterances] [--work FOLDER]

Every training starts from the sample's `pretrained`, protects documents, and is scanned with the
whole battery before and after. Writes `dp_samples/`: each comparison and guarantee as it
is, and a README with all of them. The settings beside the defaults stand in `SETTINGS`; they were
chosen by held-out usefulness without noise, never by an attack's result. What is in `--work`
already is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.policy.decision import word_of

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "sample_models"
EPSILONS = ("2", "8", "inf")
SETTINGS: dict[str, tuple[str, ...]] = {
    "utterances": ("--set", "embeddings=true", "--set", "learning-rate=0.01", "--set", "rows=64"),
    "questions": (),
    "receipts": (),
}
"""A model of intents and slots is made anew, its word vectors too: frozen ones would stay
random."""
EXIT_CODES = {"met": 0, "exceeded": 10, "undecided": 11}


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/dp_samples"))
    parser.add_argument("--only", action="append", choices=list(SETTINGS))
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    folder = HERE / "dp_samples"
    folder.mkdir(exist_ok=True)
    for sample in options.only or SETTINGS:
        for epsilon in EPSILONS:
            content = measure(sample, epsilon, options.work / sample)
            (folder / f"{sample}-{epsilon}.json").write_text(json.dumps(content, indent=1) + "\n")
            (folder / "README.md").write_text(page(folder, options.machine))


def measure(sample: str, epsilon: str, work: Path) -> dict[str, Any]:
    """The comparison of one training with the model as it was, its guarantee, and what its canaries show."""
    out = work / epsilon
    seconds = 0.0
    if not (out / "dp" / "comparison.json").exists():
        earlier = _scan_of_another_epsilon(work)
        if earlier is not None and not (out / "before").exists():
            shutil.copytree(earlier, out / "before")  # the scan without goes on from its journal
        command = [
            sys.executable,
            "-m",
            "audit",
            "defend",
            "dp",
            SAMPLES / sample / "model",
            SAMPLES / sample / "data",
        ]
        command += ["--out", out, "--unit", "document", "--epsilon", epsilon, *SETTINGS[sample]]
        began = time.monotonic()
        subprocess.run([*map(str, command)], check=True)
        seconds = round(time.monotonic() - began, 1)
    record = json.loads((out / "dp" / "after" / "record.json").read_text())
    return {
        "comparison": json.loads((out / "dp" / "comparison.json").read_text()),
        "dp": record["dp"],
        "epsilon_from_one_run": [*_epsilons_of(record)],
        "seconds": seconds,
    }


def _scan_of_another_epsilon(work: Path) -> Path | None:
    """Give the scan of the model as it was that another training left; None: there is none yet."""
    for epsilon in EPSILONS:
        if (work / epsilon / "dp" / "comparison.json").exists():
            return work / epsilon / "before"
    return None


def _epsilons_of(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the bounds on epsilon that canaries show."""
    for attack in record["attacks"]:
        for item in attack.get("measurements", ()):
            if item["name"].split(".")[0] == "epsilon" and item["kind"] == "estimate":
                yield {name: item[name] for name in ("name", "low", "high", "method")}


INTRODUCTION = """\
# Training with differential privacy, on the samples

`dp_samples.py`, {machine}, {date}. Each model is trained again from what it was fine-tuned from, with a
guarantee for every document, and scanned before and after with the whole battery and the default policy. The samples
are small, 160, 80 and 487 protected documents: so few can hardly hide one of them and still teach anything, and what is
left of usefulness is that of the start. 95 % intervals over documents, not over trainings; one training each.
"""
COLUMNS = ("", "before", "after", "difference", "p")


def page(folder: Path, machine: str) -> str:
    """The README: one table a training."""
    lines = [INTRODUCTION.format(machine=machine, date=time.strftime("%Y-%m-%d"))]
    for sample in SETTINGS:
        for epsilon in EPSILONS:
            path = folder / f"{sample}-{epsilon}.json"
            if path.exists():
                lines += section(sample, epsilon, json.loads(path.read_text()))
    return "\n".join(lines)


def section(sample: str, epsilon: str, content: dict[str, Any]) -> list[str]:
    """One training: its guarantee, its verdict, what changed."""
    card = content["dp"]
    comparison = content["comparison"]
    promised = (
        "no guarantee"
        if card["epsilon"] is None
        else f"epsilon {card['epsilon']:.2f}, delta {card['delta']:.2g}"
    )
    verdicts = [word_of(comparison[f"verdict_{when}"]) for when in ("before", "after")]
    codes = " to ".join(f"{verdict} (exit code {EXIT_CODES[verdict]})" for verdict in verdicts)
    lines = [
        f"## {sample}, {'without noise' if epsilon == 'inf' else f'epsilon {epsilon}'}",
        "",
        f"{promised}; N {card['n_units']}, sigma {card['noise_multiplier']:.2f}, q {card['sample_rate']:.2f}, "
        f"{card['steps']} steps; {card['trained']} ({card['trained_parameters']:,} numbers); engine {card['engine']}.",
        f"Verdict: {codes}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(
            row(effect)
            for effect in (*comparison["usefulness"], *comparison["effects"])
            if effect["difference"]
        ),
        "",
    ]
    shown = [item for item in content["epsilon_from_one_run"] if item["name"] == "epsilon"]
    if shown and card["epsilon"] is not None:
        lines += [
            f"One run shows that epsilon is at least {shown[0]['low']:.2f}; promised is {card['epsilon']:.2f}.",
            "",
        ]
    return lines


def row(effect: dict[str, Any]) -> str:
    """One number, before and after."""
    name = f"{effect['attack']} {effect['metric']}".strip() + (
        "" if effect["paired"] else " (not paired)"
    )
    cells = [name, *(interval(effect[part]) for part in ("before", "after", "difference"))]
    return f"| {' | '.join([*cells, format(effect['p'], '.4f')])} |"


def interval(estimate: dict[str, Any] | None) -> str:
    """A number with its interval."""
    if estimate is None or estimate["kind"] != "estimate":
        return "-"
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


if __name__ == "__main__":
    main()
