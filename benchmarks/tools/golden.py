r"""Compare the results of the sample scans of the working tree with those of an earlier commit.

    python -m benchmarks.tools.golden --base REV [--samples utterances/model,letters/model] \
        [--write]

Both sides scan their own copy of the samples, in turn and on one machine, with one thread. Compared
are exit codes, values, intervals and n of every limited metric and of the methods behind it,
p-values of its limits and of all checks, outcomes of limits, the outcome of every trial, bit by
bit, and the sentences of report and terminal. Scans of the base are stored by commit under `--out`.
Give `--options=--no-stages` for a base that stops attacks early.
"""

from __future__ import annotations

import argparse
import datetime as dt
import html
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.policy.decision import word_of

TREE = Path(__file__).resolve().parents[2]
# A budget that depends on time takes other trials whenever it runs; a number of documents is the
# same on both sides.
QUICK = ("--budget", "quick", "--documents", "200")
STANDARD = ("--budget", "standard")
SAMPLES = {
    "receipts/model": QUICK,
    "receipts/clean": STANDARD,
    "utterances/model": STANDARD,
    "utterances/clean": STANDARD,
    "letters/model": QUICK,
    "questions/model": QUICK,
    "questions/baseline": STANDARD,
}
"""The sample scans with their options."""
NUMBERS = ("value", "low", "high", "n", "null", "bounds")
SHOWN = 20
"""Differences of one kind and sample that are listed."""

Facts = dict[str, Any]
"""Results of one scan by name; equal on both sides when nothing changed."""


def run(command: list[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output, whatever its exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def must(command: list[str | Path]) -> str:
    """Run a command and return its standard output.

    Raises:
        SystemExit: the command failed.
    """
    done = run(command)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# Reading, each for record schemas 1 and 2


def attacks_of(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the results of a record by attack."""
    for result in record.get("attacks") or record.get("results") or ():
        yield result["attack"], result


def limits_of(verdict: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the limits of a verdict: attack, metric, and what became of it."""
    for limit in verdict.get("limits") or verdict.get("decisions") or ():
        yield limit["attack"], limit["metric"], limit


def limited_of(result: Mapping[str, Any], metrics: set[str]) -> dict[str, Any]:
    """Return the measurements that limits on these metrics are held against, by name."""
    methods = result.get("methods") or {}
    names = metrics | {name for metric in metrics for name in methods.get(metric, ())}
    return {
        item["name"]: item for item in result.get("measurements") or () if item["name"] in names
    }


def checks_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the p-value of every check, by attack and name."""
    parts = [("scan", record), *attacks_of(record)]
    for attack, part in parts:
        for check in part.get("checks") or ():
            yield f"check {attack}: {check['name']}", check["p_value"]


def trials_of(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the outcome of every trial in the journals of a scan, by attack and trial."""
    for journal in sorted((folder / "evidence").glob("journal-*.jsonl")):
        attack = journal.name.split("-")[1].removesuffix(".jsonl")
        for line in journal.read_text().splitlines():
            entry = json.loads(line)
            yield f"trial {attack}: {entry['id']}", entry["outcome"]


def read_scan(folder: Path) -> Facts:
    """Return all results of one scan that are compared."""
    facts: Facts = json.loads((folder / "golden.json").read_text())
    record = json.loads((folder / "record.json").read_text())
    verdict = facts.pop("verdict")
    metrics: dict[str, set[str]] = {}
    for attack, metric, limit in limits_of(verdict):
        metrics.setdefault(attack, set()).add(metric)
        facts[f"limit {attack}: {metric}"] = [word_of(limit["outcome"]), limit.get("p_value")]
    for attack, result in attacks_of(record):
        facts[f"status of {attack}"] = result["status"]
        for name, item in limited_of(result, metrics.get(attack, set())).items():
            for field in NUMBERS:
                facts[f"metric {attack}: {name} ({field})"] = item.get(field)
    texts = dict(sentences_of(folder, facts))
    return {**facts, **dict(checks_of(record)), **dict(trials_of(folder)), **texts}


MASKS = (
    (re.compile(r"DA-\d{4}-\d\d-\d\d-[0-9a-f]+"), "AUDIT"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|\+00:00)?)?"), "DATE"),
    (re.compile(r"\d{1,2}\s[A-Z][a-z]+\s\d{4}(?:, \d\d:\d\d)?"), "DATE"),
    (re.compile(r"[\d.]+\s(?:s|min|h)\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"[^\s\"']*docaudit-golden[^\s\"']*"), "PATH"),
    (re.compile(r"[^\s\"']*/sample_models[^\s\"']*"), "PATH"),
)
"""What no two scans say alike: dates, durations, hashes of records, and paths."""


def sentences_of(folder: Path, stored: Facts) -> Iterator[tuple[str, int]]:
    """Yield each line of the report and of the terminal, with how often it is there."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    without_code = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    report = html.unescape(re.sub(r"<[^>]+>", "\n", without_code))
    texts = {"report": report, "terminal": "\n".join(stored.pop("terminal", []))}
    for place, text in texts.items():
        lines: Counter[str] = Counter()
        for line in text.splitlines():
            for pattern, mask in MASKS:
                line = pattern.sub(mask, line)
            lines[" ".join(line.split())] += 1
        for line, number in lines.items():
            yield f"text {place}: {line}", number


# Scanning


@dataclass(frozen=True)
class Side:
    """A checkout of docaudit with an interpreter that runs it, and where its scans are stored.

    Attributes:
        checkout: the folder of the sources.
        python: the interpreter.
        scans: the folder of its scans.
        options: more options of each scan.
    """

    checkout: Path
    python: Path
    scans: Path
    options: tuple[str, ...] = ()

    def scan(self, sample: str, options: tuple[str, ...]) -> Facts:
        """Scan a sample, unless its scan is stored, and return the results."""
        asked = (*options, *self.options)
        folder = self.scans / (sample.replace("/", "-") + "".join(asked))
        if not (folder / "golden.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            name, model = sample.split("/")
            files = self.checkout / "sample_models" / name
            scanned = self._docaudit("scan", files / model, files / "data", "--out", folder, *asked)
            shown = [scanned.stdout, self._docaudit("gate", folder).stdout]
            gated = self._docaudit("gate", folder, "--format", "json")
            if not (folder / "record.json").exists() or not gated.stdout.startswith("{"):
                raise SystemExit(
                    f"the scan of {sample} in {self.checkout} failed:\n{scanned.stderr}{gated.stderr}"
                )
            codes = {"exit code of scan": scanned.returncode, "exit code of gate": gated.returncode}
            results = {**codes, "verdict": json.loads(gated.stdout), "terminal": shown}
            (folder / "golden.json").write_text(json.dumps(results))
        return read_scan(folder)

    def _docaudit(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the command of this checkout, installed without its dependencies, entry points included."""
        site = self.scans / "site"
        if not site.exists():
            install: list[str | Path] = [
                self.python,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
            ]
            must([*install, "--disable-pip-version-check", "--target", site, self.checkout])
        environment = {
            **os.environ,
            "PYTHONPATH": str(site),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        # Not in the checkout, whose packages would go before the installed ones.
        return run(
            [self.python, site / "bin" / "docaudit", *arguments], env=environment, cwd=self.scans
        )


def dependencies(checkout: Path) -> tuple[Any, str]:
    """Return what decides a virtual environment: the dependencies of a checkout and its constraints."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    constraints = checkout / "constraints.txt"
    return project["dependencies"], constraints.read_text() if constraints.exists() else ""


def base_side(revision: str, out: Path, options: tuple[str, ...]) -> Side:
    """Check out a commit, with a virtual environment where its dependencies differ from those of the working tree."""
    commit = must(["git", "-C", TREE, "rev-parse", f"{revision}^{{commit}}"]).strip()
    scans = out / commit
    checkout = scans / "checkout"
    venv = scans / "venv"
    if not checkout.exists():
        scans.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scans) as part:
            must(["git", "-C", TREE, "archive", "--output", Path(part, "tree.tar"), commit])
            shutil.unpack_archive(Path(part, "tree.tar"), Path(part, "checkout"), filter="data")
            Path(part, "checkout").rename(checkout)
    if dependencies(checkout) == dependencies(TREE):
        return Side(checkout, Path(sys.executable), scans, options)
    if not venv.exists():
        must([sys.executable, "-m", "venv", venv])
        install: list[str | Path] = [
            venv / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "hatchling",
            checkout,
        ]
        must([*install, "--constraint", checkout / "constraints.txt"])
    return Side(checkout, venv / "bin" / "python", scans, options)


def tree_side(out: Path) -> Side:
    """Return the working tree, without scans of an earlier state of it."""
    shutil.rmtree(out / "tree", ignore_errors=True)
    (out / "tree").mkdir(parents=True)
    return Side(TREE, Path(sys.executable), out / "tree")


# Comparing


MISSING = "missing"


def compare(base: Facts, tree: Facts) -> dict[str, tuple[Any, Any]]:
    """Return what differs between two scans, by name.

    A result that one side lacks is `MISSING` there.
    """
    both = {name: (base.get(name, MISSING), tree.get(name, MISSING)) for name in {**base, **tree}}
    return {name: pair for name, pair in both.items() if not alike(*pair)}


def alike(base: Any, tree: Any) -> bool:
    """Say whether two values are equal in all that both hold: a key that was dropped from outcomes does not count."""
    if isinstance(base, dict) and isinstance(tree, dict):
        return all(alike(base[key], tree[key]) for key in base if key in tree)
    if isinstance(base, list) and isinstance(tree, list) and len(base) == len(tree):
        return all(map(alike, base, tree))
    # Equal as JSON: 1 is not 1.0, and a float is the same to its last bit.
    return json.dumps(base) == json.dumps(tree)


def table(rows: Mapping[str, tuple[Facts, Facts]]) -> str:
    """Draw the comparison of all samples as a Markdown table, with the differences below it."""
    titles = ["sample", "exit code (base, tree)"]
    for kind in KINDS:
        titles += [f"{kind} of both", f"{kind} that differ", f"{kind} of one side"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    listed: list[str] = []
    for sample, (base, tree) in rows.items():
        differing = compare(base, tree)
        cells = [sample, f"{base['exit code of scan']}, {tree['exit code of scan']}"]
        n_both = Counter(map(kind_of, base.keys() & tree.keys()))
        n_single = Counter(kind_of(name) for name, pair in differing.items() if MISSING in pair)
        n_differing = Counter(map(kind_of, differing))
        for kind in KINDS:
            n_changed = n_differing[kind] - n_single[kind]
            cells += [f"{n_both[kind]:,}", f"{n_changed:,}", f"{n_single[kind]:,}"]
        lines.append(f"| {' | '.join(cells)} |")
        listed += list_differences(sample, differing)
    if listed:
        lines += ["", *listed]
    return "\n".join(lines)


KINDS = ("results", "trials", "lines of text")


def kind_of(name: str) -> str:
    """Return what a result is, by its name."""
    return {"trial": "trials", "text": "lines of text"}.get(name.split(" ")[0], "results")


def list_differences(sample: str, differing: Mapping[str, tuple[Any, Any]]) -> list[str]:
    """List what differs in a sample, at most `SHOWN` of each kind."""
    listed = []
    for kind in KINDS:
        names = [name for name in differing if kind_of(name) == kind]
        for name in names[:SHOWN]:
            base, tree = differing[name]
            # Outcomes of trials hold text of documents: their names are enough.
            change = "" if kind == "trials" else f": {str(base)[:70]} -> {str(tree)[:70]}"
            listed.append(f"- {sample}, {name[:160]}{change}")
        if len(names) > SHOWN:
            listed.append(f"- {sample}: {len(names) - SHOWN:,} more {kind}")
    return listed


def main() -> None:
    """Compare the samples that are named, and end with 1 where something differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", required=True, help="a commit")
    parser.add_argument(
        "--samples", default=",".join(SAMPLES), help="such as utterances/model,letters/model"
    )
    parser.add_argument(
        "--options", default="", help="more options of the scans of the base, such as --no-stages"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(tempfile.gettempdir(), "docaudit-golden"), help="for scans"
    )
    parser.add_argument("--write", action="store_true", help="write golden.md")
    given = parser.parse_args()
    base = base_side(given.base, given.out.resolve(), tuple(given.options.split()))
    tree = tree_side(given.out.resolve())
    rows = {}
    for sample in given.samples.split(","):
        options = SAMPLES[sample]
        rows[sample] = base.scan(sample, options), tree.scan(sample, options)
        print(f"{sample}: {len(compare(*rows[sample])):,} differences", file=sys.stderr, flush=True)
    found = table(rows)
    print(found)
    if given.write:
        commit = must(["git", "-C", TREE, "rev-parse", "--short", "HEAD"]).strip()
        compared = f"Base {base.scans.name[:7]}, working tree on {commit}"
        machine = f"{dt.datetime.now(dt.UTC).date()}, {os.cpu_count()}-core {platform.machine()}, one thread"
        text = f"# Results of the sample scans\n\n{compared}; {machine}.\n\n{found}\n"
        (TREE / "benchmarks" / "tools" / "golden.md").write_text(text)
    if any(compare(*pair) for pair in rows.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
