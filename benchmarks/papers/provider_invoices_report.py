"""The README of `provider_invoices.py`: our numbers beside the paper's, every one from the files in the same folder."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from audit import record as records
from audit.measurements import Estimate
from audit.record import AuditRecord, Result

METHODS = {"azk": "AZK", "apk": "APK", "azk_ensemble": "AZK++", "apk_ensemble": "APK++"}
SUFFIXES = {"s = 0": "", "s = 5": ".s5", "s = 10": ".s10"}
PAPER = {
    "AZK": (56.13, 60.25, 65.12),
    "APK": (59.67, 61.66, 65.20),
    "APK with memory features": (60.97, 61.26, 64.44),
    "AZK++": (60.56, 63.68, 66.25),
    "APK++": (61.84, 62.53, 66.99),
}
"""Table A6, VT5 trained centrally: attack accuracy, per cent."""
FEATURES = ("accuracy", "similarity", "loss", "confidence", "loss_change", "confidence_change")
MEMORY = ("memory_similarity", "memory_change")
PERMUTED = 0.02
"""How far from one half the mean of runs with permuted labels may lie."""
HEAD = """# Provider membership on synthetic invoices: did a provider's documents train this model?

Made by `provider_invoices.py` on a {machine} ({system}, torch {torch}), other jobs running beside it; the
last scan ended on {date}. {providers} providers of invoices that `sample_models/receipts_generator.py` makes, each with
a look of its own; half of them, drawn at random, are in. Documents: {documents}. The attacker holds
three or four kept-aside documents of every provider and asks one to four questions about each (company, trade, town,
cashier, total), {questions} in all.

The model is a Donut (`sample_models/small_donut.py`: {parameters:.2f} million parameters) that sees pages of 128 x 128
pixels. It was pretrained on invoices of other providers, asked for the trade alone at first and then for everything;
that is the reference of the attack. Then it was trained on two invoices of every provider that is in. Intervals (95 %)
are over providers, not over trainings.
"""
TABLE = """Balanced accuracy in per cent, 50 for a coin, as table A6 has it: s is how many questions a provider needs
to be counted."""
PAPER_NOTE = """The paper's numbers are accuracies on 307 providers in and 353 out, without intervals: calling all
of them out gives 53.5. Its model, VT5, was pretrained on text and pages and then trained for 10 epochs on invoices of
4,149 providers; ours is small and sees small pages. So compare the order of the rows, not the sizes of the effects."""
NULL = """The whole pipeline, run again on the journal of the long model's scan with the labels of providers permuted:
both sides cut to match, training shares drawn, forests fitted and everybody called anew, with all {seeds} seeds. The
mean of {runs} runs must lie within {tolerance:g} of 50 %."""
SROIE = """SROIE's receipts by company: every company with two receipts or more is audited, half of them in. The model
(a Donut as in `vqa_sroie`, 128 x 64 pixels) was trained for {epochs} epochs on {samples} questions."""


@dataclass(frozen=True)
class Scanned:
    """One model: its record, and how it was trained."""

    name: str
    record: AuditRecord
    training: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, name: str) -> Scanned:
        """From `NAME.json` and `NAME.training.json`."""
        training = json.loads((folder / f"{name}.training.json").read_text())
        return cls(name, records.read(folder / f"{name}.json"), training)

    @property
    def result(self) -> Result:
        """What the attack found."""
        (found,) = self.record.attacks
        assert found.status == "completed", found
        return found

    def words(self, metric: str, scale: float = 1, digits: int = 3) -> str:
        """A measurement with its interval and n, or that there is none."""
        found = next((one for one in self.result.measurements if one.name == metric), None)
        if not isinstance(found, Estimate):
            if found is None:
                return "-"
            return f"unresolved (n = {found.n})"
        value, low, high = (
            f"{scale * number:.{digits}f}" for number in (found.value, found.low, found.high)
        )
        return f"{value} [{low}, {high}]"

    def n(self, metric: str) -> str:
        """How many units a measurement averages."""
        found = next((one for one in self.result.measurements if one.name == metric), None)
        if found is not None:
            return str(found.n)
        return "-"

    def diagnostic(self, name: str) -> float | None:
        """A diagnostic's value; None: there is none of that name."""
        return next((one.value for one in self.result.diagnostics if one.name == name), None)

    def count(self, name: str) -> int:
        """A count's value."""
        return next((one.value for one in self.result.counts if one.name == name), 0)


def write_report(folder: Path, machine: str) -> None:
    """`README.md` in the folder of the records; models that were not scanned are left out.

    Args:
        folder: holds NAME.json and NAME.training.json, and for SROIE its plan and verdict too.
        machine: in general terms.
    """
    models = [
        Scanned.read(folder, name)
        for name in ("long", "brief")
        if (folder / f"{name}.json").exists()
    ]
    if not models:
        print("no model has been scanned: nothing to report")
        return
    lines = [_head(models, machine), "## Training", "", *_training(folder, models), ""]
    for model in models:
        lines += [f"## Trained {_words(model)}", "", *attacks(model), ""]
    lines += ["## The paper", "", *paper(), ""]
    lines += ["## What the features tell alone", "", *_features(models), ""]
    lines += ["## Permuted labels", "", *_permuted(folder, models[0]), ""]
    if (folder / "sroie.json").exists():
        lines += ["## SROIE: too small", "", *_sroie(folder), ""]
    (folder / "README.md").write_text("\n".join(lines).rstrip() + "\n")
    print(f"wrote {folder / 'README.md'}")


def _words(model: Scanned) -> str:
    return {"long": "for long", "brief": "briefly"}[
        model.name
    ] + f" ({model.training['epochs']} epochs)"


def _head(models: Sequence[Scanned], machine: str) -> str:
    one = models[0]
    documents = ", ".join(f"{n:,} {split}" for split, n in one.record.corpus.documents.items() if n)
    return HEAD.format(
        machine=machine,
        system=platform.system(),
        torch=torch.__version__,
        date=max(model.record.timing.finished for model in models)[:10],
        providers=one.count("providers in") + one.count("providers out"),
        documents=documents,
        questions=f"{one.count('questions'):,}",
        parameters=one.record.target.parameters / 1e6,
    )


def _training(folder: Path, models: Sequence[Scanned]) -> list[str]:
    names = ("began", "pretrained")
    logs = {name: json.loads((folder / f"{name}.training.json").read_text()) for name in names}
    logs |= {model.name: model.training for model in models}
    read = {}
    for model in models:
        anls = model.record.utility[0]
        assert isinstance(anls, Estimate)
        read[model.name] = f"{anls.value:.3f} [{anls.low:.3f}, {anls.high:.3f}]"
    before = json.loads((folder / "pretrained.anls.json").read_text())
    read["pretrained"] = "{value:.3f} [{low:.3f}, {high:.3f}]; commonest answers {null:.3f}".format(
        **before
    )
    rows = []
    for name, log in logs.items():
        rows.append(
            [
                name,
                f"{log['samples']:,}",
                f"{log['epochs']} ({log['batch_size']} a step, {log['learning_rate']:g})",
                f"{log['losses'][0]:.2f} to {log['losses'][-1]:.2f}",
                f"{log['seconds'] / 60:.1f}",
                read.get(name, "-"),
            ]
        )
    return _table(
        ["model", "samples", "epochs", "loss, nats a token", "minutes", "held-out ANLS"], rows
    )


def attacks(model: Scanned) -> list[str]:
    """The rows of table A6, user inference, and what needs no model."""
    rows = []
    for method, words in METHODS.items():
        cells = [
            model.words(f"balanced_accuracy.{method}{suffix}", 100, 1)
            for suffix in SUFFIXES.values()
        ]
        rows.append([words, *cells])
    sizes = [model.n(f"balanced_accuracy.azk{suffix}") for suffix in SUFFIXES.values()]
    rows.append(["providers", *sizes])
    lines = [TABLE, "", *_table(["", *SUFFIXES], rows)]
    beside = {"User inference, AUC": "auc", "Blind baseline, AUC": "blind_auc"}
    lines += [
        "",
        *_table(["", "value"], [[words, model.words(metric)] for words, metric in beside.items()]),
    ]
    blind = [
        f"{name} {_number(value)}"
        for name in ("blind_p", "blind_power")
        if (value := model.diagnostic(name))
    ]
    lines += [
        "",
        f"The blind baseline sees the documents and never the model: {', '.join(blind) or 'no diagnostics'}.",
    ]
    if model.result.confounded:
        lines += ["", f"Undecided: {model.result.confounded}."]
    return lines


def paper() -> list[str]:
    """The paper's table A6."""
    rows = [[name, *(f"{value:.2f}" for value in values)] for name, values in PAPER.items()]
    return ["Table A6, VT5 trained centrally:", "", *_table(["", *SUFFIXES], rows), "", PAPER_NOTE]


def _features(models: Sequence[Scanned]) -> list[str]:
    rows = []
    for name in (*FEATURES, *MEMORY):
        cells = [model.words(f"auc.{name}") for model in models]
        rows.append([name, *cells, _number(models[0].diagnostic(f"importance.{name}"))])
    head = [
        "feature",
        *(f"AUC, {model.name}" for model in models),
        f"importance in APK, {models[0].name}",
    ]
    return _table(head, rows)


def _permuted(folder: Path, model: Scanned) -> list[str]:
    path = folder / f"{model.name}.permuted.json"
    if not path.exists():
        return ["Not run."]
    rerun = json.loads(path.read_text())
    rows = []
    for method, words in METHODS.items():
        if method not in rerun["methods"]:
            continue
        found = rerun["methods"][method]
        holds = "yes" if abs(found["mean"] - 0.5) <= PERMUTED else "no"
        spread = 100 * found["standard deviation"]
        rows.append(
            [words, f"{100 * found['mean']:.2f}", holds, f"{spread:.2f}", _number(found["p"])]
        )
    head = ["", "mean, permuted", "within", "spread, permuted", "p"]
    return [NULL.format(**rerun, tolerance=100 * PERMUTED), "", *_table(head, rows)]


def _sroie(folder: Path) -> list[str]:
    model = Scanned.read(folder, "sroie")
    verdict = json.loads((folder / "sroie.verdict.json").read_text())
    plan = (folder / "sroie.plan.txt").read_text().rstrip().splitlines()
    lines = [
        SROIE.format(**model.training),
        "",
        "`docaudit plan` says of it, before any model runs:",
        "",
    ]
    lines += ["```", *plan, "```", "", "The scan:", ""]
    rows = [["providers in, out", f"{model.count('providers in')}, {model.count('providers out')}"]]
    rows += [
        [words, model.words(f"balanced_accuracy.{method}", 100, 1)]
        for method, words in METHODS.items()
    ]
    rows += [
        ["user inference, AUC", model.words("auc")],
        ["blind baseline, AUC", model.words("blind_auc")],
    ]
    lines += [
        *_table(["", "value"], rows),
        "",
        f"Verdict of the default policy: **{verdict['overall']}**.",
    ]
    return [*lines, "", *(_decision(one) for one in verdict["decisions"])]


def _decision(one: dict[str, str]) -> str:
    remedy = f" ({one['remedy']})" if one["remedy"] else ""
    return f"- provider_membership `{one['metric']}`: {one['outcome']}; {one['reason']}{remedy}"


def _number(value: float | None) -> str:
    """Return a number with three decimals as text; "-" without one."""
    if value is None:
        return "-"
    return f"{value:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return [
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
