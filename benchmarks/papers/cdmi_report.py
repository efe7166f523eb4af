"""The table of `cdmi_tables.py`: our numbers beside the paper's, every one from the files in the same folder."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from audit import record as records
from audit.measurements import Estimate
from audit.record import AuditRecord, Result
from benchmarks.papers.cdmi_numbers import Number, read_numbers

MIN_POWER = 0.5
"""The candidate recall under which the default policy passes nothing."""
TASKS = {
    "mlm": "MLM",
    "token-classification": "EE-BIO",
    "spade-extraction": "EE-SPADE",
    "spade-linking": "EL",
}
PAPER_EPOCHS = {"mlm": 300}
COLUMNS = {
    "prec": "Prec",
    "ipf.member": "IpF",
    "hamaac.member.attack": "HamAAC",
    "accauc.member.attack": "AccAUC",
    "acc_at_1.member.attack": "AccAt 1 %",
    "acc_at_5.member.attack": "AccAt 5 %",
    "acc_at_100.member.attack": "AccAt 100 %",
}
PAPER = {
    ("funsd", "mlm", "unimodal", "precision"): (0.545, 1.132, 0.153, 0.020, 0.125, 0.051, 0.009),
    ("funsd", "mlm", "bimodal", "precision"): (0.545, 1.395, 0.274, 0.061, 0.125, 0.154, 0.027),
    ("funsd", "mlm", "unimodal", "loss"): (0.543, 1.123, 0.198, 0.021, 0.125, 0.077, 0.010),
    ("funsd", "mlm", "bimodal", "loss"): (0.543, 1.171, 0.181, 0.034, 0.250, 0.103, 0.013),
    ("sroie", "mlm", "unimodal", "precision"): (0.540, 1.081, 0.104, 0.036, 0.000, 0.075, 0.020),
    ("sroie", "mlm", "bimodal", "precision"): (0.538, 1.393, 0.191, 0.070, 0.125, 0.225, 0.032),
    ("sroie", "mlm", "unimodal", "loss"): (0.534, 0.977, 0.077, 0.017, 0.000, 0.025, 0.010),
    ("sroie", "mlm", "bimodal", "loss"): (0.534, 1.226, 0.112, 0.031, 0.000, 0.025, 0.021),
    ("sroie", "token-classification", "unimodal", "precision"): (
        0.960,
        1.252,
        0.231,
        0.026,
        0.000,
        0.025,
        0.019,
    ),
    ("sroie", "token-classification", "bimodal", "precision"): (
        0.967,
        1.207,
        0.204,
        0.010,
        0.000,
        0.000,
        0.010,
    ),
    ("sroie", "token-classification", "unimodal", "loss"): (
        0.940,
        1.246,
        0.249,
        0.023,
        0.000,
        0.025,
        0.018,
    ),
    ("sroie", "token-classification", "bimodal", "loss"): (
        0.955,
        1.294,
        0.231,
        0.014,
        0.000,
        0.000,
        0.013,
    ),
    ("sroie", "spade-extraction", "unimodal", "precision"): (
        0.952,
        1.141,
        0.213,
        0.019,
        0.000,
        0.050,
        0.010,
    ),
    ("sroie", "spade-extraction", "bimodal", "precision"): (
        0.935,
        1.209,
        0.192,
        0.008,
        0.000,
        0.000,
        0.009,
    ),
    ("sroie", "spade-extraction", "unimodal", "loss"): (
        0.856,
        1.224,
        0.227,
        0.044,
        0.125,
        0.150,
        0.020,
    ),
    ("sroie", "spade-extraction", "bimodal", "loss"): (
        0.880,
        1.221,
        0.205,
        0.009,
        0.000,
        0.050,
        0.005,
    ),
    ("funsd", "spade-linking", "unimodal", "precision"): (
        0.240,
        1.164,
        0.135,
        0.012,
        0.000,
        0.026,
        0.013,
    ),
    ("funsd", "spade-linking", "bimodal", "precision"): (
        0.193,
        0.986,
        0.059,
        0.005,
        0.000,
        0.026,
        0.001,
    ),
    ("funsd", "spade-linking", "unimodal", "loss"): (
        0.093,
        1.019,
        0.118,
        0.006,
        0.125,
        0.026,
        0.001,
    ),
    ("funsd", "spade-linking", "bimodal", "loss"): (
        0.000,
        1.015,
        0.116,
        0.002,
        0.000,
        0.000,
        0.001,
    ),
}
"""Dentan et al. 2024, table 5, backbone LayoutLM, in the order of `COLUMNS`."""


@dataclass(frozen=True)
class Row:
    """One audited model: its record, its numbers by name, and how it was trained."""

    corpus: str
    task: str
    modality: str
    criterion: str
    record: AuditRecord
    numbers: Mapping[str, Number]
    log: dict[str, float]

    @property
    def paper(self) -> tuple[float, ...]:
        """The paper's numbers."""
        return PAPER[self.corpus, self.task, self.modality, self.criterion]

    @property
    def title(self) -> str:
        """As the paper names it."""
        return f"{TASKS[self.task]}, {self.corpus.upper()}, {self.modality}, {self.criterion.capitalize()}"


def rows_in(folder: Path, work: Path) -> list[Row]:
    """Every audited setting, in the paper's order; what has not been made is left out."""
    rows = []
    for corpus, task, modality, criterion in PAPER:
        path = folder / f"{corpus}-{task}-{modality}-{criterion}.json"
        if path.exists():
            log = json.loads((work / f"{corpus}-{task}-{modality}.json").read_text())
            rows.append(
                Row(corpus, task, modality, criterion, records.read(path), numbers_in(path), log)
            )
    return rows


def numbers_in(path: Path) -> dict[str, Number]:
    """Return the estimates of a record, and the numbers that were computed from its journal."""
    record = records.read(path)
    estimates = {
        item.name: Number.of(item)
        for item in completed(record).measurements
        if isinstance(item, Estimate)
    }
    skill = next((item for item in record.utility if isinstance(item, Estimate)), None)
    useful = {} if skill is None else {"prec": Number.of(skill)}
    return estimates | useful | read_numbers(path.with_suffix(".numbers.json"))


def write_table(folder: Path, work: Path, machine: str) -> None:
    """`README.md` in the folder of the records."""
    rows = rows_in(folder, work)
    lines = [
        HEAD.format(machine=machine, system=platform.system(), torch=torch.__version__),
        *training(rows, work),
    ]
    lines += ["", "## Beside the paper's table 5", "", *table(rows), "", *differences(rows)]
    lines += ["", "## The held-out control", "", *control(rows), "", CONTROL_NOTE]
    lines += ["", "## Noise in place of the image", "", *noise(folder, rows), ""]
    (folder / "README.md").write_text("\n".join(lines))


HEAD = """# CDMI, the settings of the paper's table 5

Made by `cdmi_tables.py` on a {machine} ({system}, torch {torch}), other jobs running beside it. A LayoutLM
made of the first two layers of a 384-wide BERT-like encoder (box embeddings, image branch and heads fresh), pages of at
most 255 tokens; 40 % of the documents are members, 20 % held out (they also choose the checkpoint, as the paper's
validation set does), 40 % public. The paper: LayoutLM-base pre-trained on millions of pages, 300 epochs (MLM) or 150,
N_c = 128, all fields; splits of other sizes. Ours: the epochs and N_c stated below, and a sample of the fields.
Intervals are 95 %, over documents. Rows of one model whose two criteria chose the same epoch are one audit, printed
twice. "Prec" is F1 of entities (EE) or links (EL), or the share of masked tokens read rightly (MLM), on the held-out
documents, as the records hold it: the paper says that its numbers agree with those of BROS (table 2), which are F1.
"Labels right" is the share of labels right that the loss reads, from which the epoch was chosen, and no measure of the
paper's: nearly all labels are "outside" or "none", so that an EL model that finds no link at all reaches about 0.80 on
FUNSD, and EE models of 0.96 to 0.97 have entity F1 between 0.36 and 0.59. Under EL no epoch of any model got above that
0.80, so these models learned next to nothing and there was nothing to find.

## Training
"""
CONTROL_NOTE = """The excess is (attack - baseline on members) - (attack - baseline on held-out fields): what is left
when being the better language model is taken off. FUNSD has about 30 held-out forms: its rows describe, and decide
nothing."""


def training(rows: list[Row], work: Path) -> list[str]:
    """How long each model was trained and which epoch each criterion chose."""
    lines = []
    for name in sorted({path.stem for path in work.glob("*.json")}):
        log = json.loads((work / f"{name}.json").read_text())
        best = max(score["validation_accuracy"] for score in log["history"])
        lines.append(
            f"- {name}: {log['pages']} pages, {log['epochs']} epochs in {log['minutes']:.0f} min; best validation "
            f"accuracy {best:.3f} at epoch {log['precision']}, lowest validation loss at epoch {log['loss']}."
        )
    return lines


def table(rows: list[Row]) -> list[str]:
    """Table 5's columns, ours with intervals, the paper's in the line below."""
    lines = [
        f"| setting | fields (documents) | {' | '.join(COLUMNS.values())} | labels right |",
        "|---" * (len(COLUMNS) + 3) + "|",
    ]
    for row in rows:
        found = row.numbers.get("acc_at_100.member.attack")
        fields = f"{found.n} ({found.clusters})" if found else "-"
        cells = [
            skill(row.record),
            *(number(row.numbers, name) for name in list(COLUMNS)[1:]),
            accuracy(row),
        ]
        lines.append(f"| {row.title} | {fields} | {' | '.join(cells)} |")
        baseline = [
            "",
            "",
            *(
                number(row.numbers, name.replace(".attack", ".baseline"))
                for name in list(COLUMNS)[2:]
            ),
        ]
        lines.append(f"| without the model | {fields} | {' | '.join(baseline)} | |")
        lines.append(f"| *paper* | | {' | '.join(f'*{value:.3f}*' for value in row.paper)} | |")
    return lines


def skill(record: AuditRecord) -> str:
    """What the paper calls precision: entity or link F1, or masked-token accuracy, on the held-out documents."""
    return text(next((item for item in record.utility if isinstance(item, Estimate)), None))


def accuracy(row: Row) -> str:
    """Share of labels right on the validation documents, at the epoch that was audited."""
    history = row.log["history"]
    chosen = history[int(row.log[row.criterion]) - 1]  # type: ignore[index]
    return f"{chosen['validation_accuracy']:.3f}"


def differences(rows: list[Row]) -> list[str]:
    """A sentence on each difference from the paper, drawn from the numbers."""
    return [f"- {row.title}: {sentence(row)}" for row in rows]


def sentence(row: Row) -> str:
    """How a row stands to the paper's."""
    ipf = row.numbers.get("ipf.member")
    exact = row.numbers.get("acc_at_100.member.attack")
    power = row.numbers.get("candidate_recall")
    heldout = row.numbers.get("ipf.heldout")
    theirs = row.paper[1]
    if ipf is None or exact is None or power is None:
        return "not resolved with this sample."
    agrees = (
        "our interval holds the paper's"
        if ipf.low <= theirs <= ipf.high
        else "our interval leaves out the paper's"
    )
    gain = (
        "the attack beats the public model"
        if ipf.low > 1
        else "no gain over the public model is shown"
    )
    control = ""
    if heldout is not None:
        apart = ipf.low > heldout.high
        compared = "less than" if apart else "not told apart from"
        control = f" On held-out fields IpF is {heldout.value:.3f}, {compared} that."
    strength = (
        ""
        if power.value >= MIN_POWER
        else f" The attacker reaches {power.value:.0%} of the fields, too few to pass a limit."
    )
    hits = round(exact.value * exact.n)
    epochs = f"{row.log['epochs']} epochs against {PAPER_EPOCHS.get(row.task, 150)}"
    return (
        f"IpF {ipf.value:.3f} [{ipf.low:.3f}, {ipf.high:.3f}] ({agrees} {theirs:.3f}; {gain}); {hits} of {exact.n} "
        f"fields exact in the chosen attempt (paper: {row.paper[-1]:.1%}). Our model had {epochs} and no pre-training "
        f"on pages."
        f"{control}{strength}"
    )


def control(rows: list[Row]) -> list[str]:
    """Held-out fields beside the members, and the excess."""
    lines = [
        "| setting | held-out fields (documents) | IpF held-out | AccAUC held-out | HamAAC held-out | "
        "excess PR, unique | excess 1-HD, unique | excess AccAUC, all | candidate recall | PUB-MLM accuracy | "
        "distinct attempts | N_c |",
        "|---" * 12 + "|",
    ]
    for row in rows:
        found = row.numbers.get("pr.heldout.attack")
        units = f"{found.n} ({found.clusters})" if found else "-"
        names = (
            "ipf.heldout",
            "accauc.heldout.attack",
            "hamaac.heldout.attack",
            "excess_pr.unique",
            "excess_hamming.unique",
            "excess_accauc.all",
            "candidate_recall",
            "public_accuracy",
        )
        result = completed(row.record)
        distinct = next(
            item.value for item in result.diagnostics if item.name == "distinct attempts"
        )
        cells = [number(row.numbers, name) for name in names]
        cells += [f"{distinct:.1f}", str(result.parameters["n_candidates"])]
        lines.append(f"| {row.title} | {units} | {' | '.join(cells)} |")
    return lines


def noise(folder: Path, rows: list[Row]) -> list[str]:
    """The ablation of section 6.2: Gaussian noise for the image of a bimodal masked language model."""
    lines = []
    for path in sorted(folder.glob("*-noise.json")):
        setting = path.stem.removesuffix("-noise")
        plain = folder / f"{setting}-precision.json"
        if not plain.exists():
            continue
        numbers = [numbers_in(one) for one in (plain, path)]
        with_image, without = (own.get("ipf.member") for own in numbers)
        if with_image is None or without is None:
            continue
        if without.high < with_image.low:
            effect = "lowers it, and the intervals lie apart"
        elif without.value < with_image.value:
            effect = "lowers the value, but the intervals overlap: not shown"
        else:
            effect = "does not lower it"
        lines.append(
            f"- {setting}: IpF {text(with_image)} with the image, {text(without)} with noise: noise {effect} "
            "(paper, mean over four models: 1.296 to 1.044)."
        )
    return lines or ["No bimodal masked language model was audited."]


def completed(record: AuditRecord) -> Result:
    """The reconstruction attack's result."""
    (result,) = record.attacks
    assert result.status == "completed", result
    return result


def number(numbers: Mapping[str, Number], name: str) -> str:
    """A number with its interval, in text."""
    return text(numbers.get(name))


def text(found: Estimate | Number | None) -> str:
    """A number with its interval; None is unresolved."""
    if found:
        return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
    return "unresolved"
