"""What countermeasures change on the sample that answers questions (Pinto et al. 2024, tables 1 and 2).

    python -m benchmarks.calibration.countermeasures [--only blocking] [--work FOLDER]

Runs `docaudit defend` for each countermeasure on `sample_models/questions/` and writes
`countermeasures/`: each comparison as it is, and a README with all of them. What is in
`--work` already is not run again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "sample_models" / "questions"
NAMES = ("blocking", "paraphrase", "random-before", "random-after")
TRAINED_ON = "exact"
"""The only context that extraction blocking trains on."""


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("benchmarks/.work/countermeasures"))
    parser.add_argument("--only", action="append", choices=NAMES)
    parser.add_argument("--machine", default="2-core CPU", help="the machine in general terms")
    options = parser.parse_args()
    folder = HERE / "countermeasures"
    folder.mkdir(exist_ok=True)
    for name in options.only or NAMES:
        out = options.work / name
        if not (out / name / "comparison.json").exists():
            command = [
                sys.executable,
                "-m",
                "audit",
                "defend",
                name,
                SAMPLE / "model",
                SAMPLE / "data",
                "--out",
                out,
            ]
            subprocess.run([str(part) for part in command], check=True)
        shutil.copyfile(out / name / "comparison.json", folder / f"{name}.json")
    written = [name for name in NAMES if (folder / f"{name}.json").exists()]
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in written}
    (folder / "README.md").write_text(page(found, options.machine))


INTRODUCTION = """\
# Countermeasures on the sample that answers questions

`countermeasures.py`, {machine}, {date}: a small Donut that remembers invented forms, 80 member and 80
held-out documents with two questions each (a number that it cannot read at its resolution, a town that it can). Shares
of the questions whose answers were proven to be off the page; 95 % intervals over documents, not over training runs; p
by sign flips, not corrected for the number of contexts. The paper (table 1): paraphrasing leaves 26 of 63 for Donut at
-12.5 ANLS, random strings 34 to 38 at -3.1 to -3.4, extraction blocking 2 at +1.2; blocking in contexts that it was not
trained on (table 2): 0 to 6.

Read the last row of each table first: a countermeasure that takes the held-out ANLS with it has stopped the reading,
and the extraction only with it. The sample's model knows one wording of each question.
"""
CHANNEL = """\
AUC of "says that the answer is not there" as a sign of membership, answers removed (the side channel of appendix A; 0.5
says nothing): {interval}.
"""
COLUMNS = ("number", "context", "before", "after", "difference", "p")


def page(found: dict[str, Any], machine: str) -> str:
    """The README: one table a countermeasure."""
    lines = [INTRODUCTION.format(machine=machine, date=time.strftime("%Y-%m-%d"))]
    for name, content in found.items():
        lines += [f"## {name}", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        lines += [*(row(change, name) for change in changes(content)), ""]
        if content["side_channel"] is not None:
            lines.append(CHANNEL.format(interval=interval(content["side_channel"])))
    return "\n".join(lines)


def changes(content: dict[str, Any]) -> list[dict[str, Any]]:
    """List the numbers of memory, by context, and of usefulness.

    Before docaudit 0.14 they stood apart.
    """
    if "changes" in content:
        return list(content["changes"])
    found = [
        one
        for one in (*content["effects"], *content["usefulness"])
        if one["difference"] is not None
    ]
    return [
        one
        | dict(zip(("metric", "context"), (one["metric"] + ".exact").split(".")[:2], strict=True))
        for one in found
        if one["attack"] in ("", "memorisation") and one["metric"].split(".")[0] in ("net", "anls")
    ]


def row(change: dict[str, Any], name: str) -> str:
    """One number, before and after."""
    context = change["context"] or "complete pages, held-out"
    if name == "blocking" and change["context"]:
        context += " (trained on)" if context == TRAINED_ON else " (not trained on)"
    cells = [
        change["metric"],
        context,
        *(interval(change[part]) for part in ("before", "after", "difference")),
    ]
    return f"| {' | '.join([*cells, format(change['p'], '.4f')])} |"


def interval(estimate: dict[str, Any]) -> str:
    """A number with its interval."""
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


if __name__ == "__main__":
    main()
