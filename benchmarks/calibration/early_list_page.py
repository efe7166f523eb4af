"""The page of `early_list.py`: what a list foresaw, and what leaving it out changed."""

from __future__ import annotations

import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

PAGE = """\
# Documents left out because an early audit listed them

Made by `early_list.py` on {machine}, {date}, {minutes:.1f} minutes of processor time.

{rule}

{verdict}

## The method

The score of a document is its loss by a reference minus that by the checkpoint. `membership` has
asked for both, so the list costs no further pass. It needs the references of `LeakCallback` or of
the manifest, and ranks the audited documents only: set `documents` to the number of both sides to
rank all.

A listed document is among the first tenth, and scores above all but 5 % of the unseen documents. So
on average at most 5 % of the documents that the model does not know are listed. This rate is proved
for documents that were divided by lot (conformal p-values), and tested on simulated ones.

Nothing is listed if members do not outrank unseen documents at 5 %, or if the earlier audit ranks
no more of the list first than chance would. The log gives what they share. It is no precision: both
audits can be wrong alike.

Dentan et al. 2025 ([arXiv 2409.18858](https://arxiv.org/abs/2409.18858)) predict memorised
samples of classifiers by pointwise sliced mutual information of hidden states and labels.
Documents of other tasks have no such label. Score and tests are ours.

`import --without` leaves out equal copies too. The division then counts as `official`: a score
chose the members. It takes no `--by-provider`.

## The lists

{lists}

## The trainings

Exposed documents, first by the model that learned all documents, then by the new model.

{arms}

## Values that came back

Reconstruction, its first attempt at two values a document, for one seed of each recipe. Unseen
documents show what comes back without memory.

{values}
"""
LIST_HEADS = (
    "sample",
    "seed",
    "listed an eighth earlier too",
    "by chance",
    "in the final tenth",
    "exposed in the end",
    "of all exposed",
)
ARM_HEADS = (
    "sample",
    "seed",
    "left out",
    "exposed of these",
    "of the rest",
    "the same at 5 %",
    "rest",
    "AUC of the rest",
    "usefulness",
)
VALUE_HEADS = (
    "sample",
    "seed",
    "left out",
    "values of these",
    "of the rest",
    "of unseen documents",
)
VERDICT = """\
The list names documents that the training does expose. On letters and receipts of 10 epochs,
{precision} listed documents were exposed in the end. Of all lists, {right:.0%} are in the final
tenth, where chance gives 10 %. They name few of the exposed documents, {recall}, because a tenth is
listed.

Leaving the list out protects the listed documents, and no others. Of those {listed} documents,
{unlearned} count as exposed by the models that did not learn them.
Of the {rest} others, {listed_before} were exposed before and {listed_after} after.
Where random ones were left out, it was {random_before} and {random_after}.
At 5 % it was {listed_before_5} and {listed_after_5} without the list, and
{random_before_5} and {random_after_5} without random ones.
So the list leaves no fewer of the others exposed than chance does. In the "privacy onion" of
Carlini et al. 2022, new documents take the place of those that were removed. These runs do not
decide it: on letters the number rises at 1 %, and at 5 % as much as by chance.
One unseen document sets the bar of 1 %. The AUC of the rest hardly changes.

Nor do fewer values of the others come back. Of the receipts without the list it was
{values_listed_before} and {values_listed_after}, of those without random ones
{values_random_before} and {values_random_after}. The score is the loss of a whole document:
{values_of_lists} values of listed receipts came back, and {values_of_others} of the others.
The full recipe of the receipts exposes every document, so no list can help there. Usefulness
changes by at most {useful:.3f}."""
COUNTED = ("letters", "receipts, 10 epochs")
"""The samples whose exposed documents the page sums up: not every document is."""


def page(runs: Sequence[dict[str, Any]], rule: str, machine: str, minutes: float) -> str:
    """Write the page of all runs.

    Args:
        runs: what each sample and seed showed.
        rule: how they were made.
        machine: where.
        minutes: processor time of all.
    """
    lists = []
    arms = []
    values = []
    for run in runs:
        lists.append(cells_of_list(run))
        for arm, counted in run["arms"].items():
            arms.append(cells_of_arm(run, arm, counted))
            if counted["values of unseen ones after"][1]:
                values.append(cells_of_values(run, arm, counted))
    return PAGE.format(
        machine=machine,
        date=time.strftime("%Y-%m-%d"),
        minutes=minutes,
        rule=rule,
        verdict=verdict_of(runs),
        lists=table_of(LIST_HEADS, lists),
        arms=table_of(ARM_HEADS, arms),
        values=table_of(VALUE_HEADS, values),
    )


def verdict_of(runs: Sequence[dict[str, Any]]) -> str:
    """Sum up all runs."""
    counts = Counter[str]()
    for run in runs:
        if run["sample"] not in COUNTED:
            continue
        counts["exposed of the list"] += run["right"]["exposed"]
        counts["exposed"] += run["right"]["all exposed"]
        counts["listed"] += run["listed"]
        counts["rest"] += run["arms"]["listed"]["rest"]
        counts["unlearned"] += run["arms"]["listed"]["exposed of these after"]
        for arm in ("listed", "random"):
            for when in ("before", "after"):
                key = f"exposed of the rest {when}"
                counts[f"{arm}_{when}"] += run["arms"][arm][key]
                counts[f"{arm}_{when}_5"] += run["arms"][arm][f"{key}, at 5 %"]
    values = sum_values(runs)
    shares = [run["right"]["in the final tenth"] for run in runs if run["right"] is not None]
    text = VERDICT.format(
        right=sum(shares) / len(shares),
        useful=largest_change(runs),
        precision=f"{counts['exposed of the list']} of {counts['listed']}",
        recall=f"{counts['exposed of the list']} of {counts['exposed']}",
        **counts,
        **values,
    )
    return "\n\n".join(textwrap.fill(paragraph, 100) for paragraph in text.split("\n\n"))


def sum_values(runs: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Sum up the values that came back, each as "back of tried"."""
    sums: dict[str, tuple[int, int]] = {}

    def add(name: str, count: Sequence[int]) -> None:
        back, tried = sums.get(name, (0, 0))
        sums[name] = (back + count[0], tried + count[1])

    for run in runs:
        if run["right"] is None:
            continue
        add("values_of_lists", run["right"]["values"])
        add("values_of_others", run["right"]["values of others"])
        for arm in ("listed", "random"):
            for when in ("before", "after"):
                add(f"values_{arm}_{when}", run["arms"][arm][f"values of the rest {when}"])
    return {name: f"{back} of {tried}" for name, (back, tried) in sums.items()}


def largest_change(runs: Sequence[dict[str, Any]]) -> float:
    """Return the largest change of usefulness from the first training to another one."""
    changes = [0.0]
    for run in runs:
        before = run["arms"]["all"]["usefulness"][0][1]
        changes += [abs(arm["usefulness"][0][1] - before) for arm in run["arms"].values()]
    return max(changes)


def table_of(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table."""
    return "\n".join(map(row_of, [heads, ["---"] * len(heads), *rows]))


def row_of(cells: Sequence[object]) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def cells_of_list(run: dict[str, Any]) -> tuple[object, ...]:
    """Return the cells of a list."""
    right = run["right"]
    if right is None:
        return (run["sample"], run["seed"], run["doubt"], "", "none", "none", "none")
    return (
        run["sample"],
        run["seed"],
        f"{run['again']} of {run['listed']}",
        f"{run['by chance']:.1f}",
        f"{right['in the final tenth']:.0%}",
        f"{right['exposed']} of {run['listed']}",
        f"{right['exposed']} of {right['all exposed']}",
    )


LEFT_OUT = {"all": "none", "listed": "the list", "random": "random"}
"""What the page calls the documents that a training leaves out."""


def cells_of_arm(run: dict[str, Any], arm: str, counted: dict[str, Any]) -> tuple[object, ...]:
    """Return the cells of a training."""
    useful = "; ".join(f"{name} {value:.3f}" for name, value in counted["usefulness"])
    return (
        run["sample"],
        run["seed"],
        f"{LEFT_OUT[arm]}: {counted['left out']}",
        change(counted, "exposed of these {when}"),
        change(counted, "exposed of the rest {when}"),
        change(counted, "exposed of the rest {when}, at 5 %"),
        counted["rest"],
        change(counted, "AUC of the rest {when}"),
        useful,
    )


def cells_of_values(run: dict[str, Any], arm: str, counted: dict[str, Any]) -> tuple[object, ...]:
    """Return the cells of the values that a training gave away."""
    cells = []
    for whose in ("these", "the rest", "unseen ones"):
        (back, tried), (back_after, _) = (
            counted[f"values of {whose} {when}"] for when in ("before", "after")
        )
        cells.append(f"{back}, {back_after} of {tried}")
    return (run["sample"], run["seed"], f"{LEFT_OUT[arm]}: {counted['left out']}", *cells)


def change(counted: dict[str, Any], key: str) -> str:
    """Return a number of the first training and that of the new one."""
    return f"{counted[key.format(when='before')]}, {counted[key.format(when='after')]}"
