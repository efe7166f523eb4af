"""The reference pages of the manual, made from the code; `build.py` adds them to the site."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from audit import policy as policies
from audit.attacks import TEXTS
from audit.attacks.text import CATEGORY_LABELS, AttackText, name_parts
from audit.cli import app
from audit.cli.options import HELP
from audit.report import html

DOCS = Path(__file__).parent
RESULTS = DOCS / "reference" / "models.json"
PAPERS = DOCS / "reference" / "papers.toml"
SOURCES = {
    "audit/attacks": "reference/metrics.md",
    "audit/cli/help.toml": "reference/commands.md",
    "audit/report/glossary.toml": "glossary.md",
    "docs/reference/models.json": "reference/models.md",
    "docs/reference/papers.toml": "reference/papers.md",
}
"""Pages by what of the repository they are made from: links of a clone lead there."""
SHIPPED = ("default", "strict")
FORMS = {
    "share": "share, from 0 to 1; reports print percent",
    "points": "difference of two shares, from -1 to 1; reports print points",
    "ratio": "ratio; 1 is no difference",
    "count": "count; reports print whole numbers",
    "number": "number as it is",
}
TASKS = {
    "mlm": "masked language models",
    "token-classification": "taggers (BIO, BIOES, IO)",
    "document-classification": "classifiers of pages",
    "spade-extraction": "SPADE extraction",
    "spade-linking": "SPADE linking",
    "extractive-qa": "point at answers on the page",
    "question-answering": "answer questions",
    "parsing": "write a page as JSON or markup",
    "intent-slots": "name slots and intents",
}
"""Kinds of models by `task.kind`, in the order of the tables."""
HEADS = [name.replace("_", " ") for name in TEXTS]
MADE = "<!-- Built by docs/generate.py -->"


def pages() -> dict[str, str]:
    """The content of every generated page, by its path inside docs/."""
    return {
        "reference/commands.md": _page("Commands", _commands()),
        "reference/metrics.md": _page("Metrics", _metrics()),
        "reference/limits.md": _page("Limits of the shipped policies", _limits()),
        "reference/models.md": _page("Models", _models()),
        "reference/papers.md": _page("Papers", _papers()),
        "glossary.md": _page("Glossary", _glossary()),
    }


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", MADE, "", *lines]).rstrip("\n") + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
    yield ""


def _cell(text: str) -> str:
    """Text on one line, with no sign that ends a cell or opens a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _commands() -> Iterator[str]:
    exits = HELP["docaudit.exit"]
    yield f"Generated from the command line's own help; `docaudit COMMAND --help-all` prints the same. {exits}"
    yield ""
    for name, command in sorted(_leaves(typer.main.get_command(app), "docaudit")):
        arguments = [item for item in command.params if item.param_type_name == "argument"]
        options = [
            item
            for item in command.params
            if item.param_type_name == "option" and item.name != "help" and not item.hidden
        ]
        signature = " ".join([name, *(_shown(item) for item in arguments), "[OPTIONS]"])
        yield from (f"## {name}", "", f"`{signature}`", "")
        yield from (_paragraphs(command.help or ""), "")
        if arguments:
            rows = (
                [f"`{_shown(item)}`", str(getattr(item, "help", None) or "")] for item in arguments
            )
            yield from _table(("argument", "meaning"), rows)
        groups: dict[str, list[Any]] = {}
        for item in options:
            groups.setdefault(getattr(item, "rich_help_panel", None) or "", []).append(item)
        for group, found in groups.items():
            rows = ([f"`{_flags(item)}`", _meaning(item), _default(item)] for item in found)
            yield from _table(
                (f"option ({group})" if group else "option", "meaning", "default"), rows
            )


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for child, inner in command.commands.items():
        yield from _leaves(inner, f"{name} {child}")


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _shown(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _flags(option: Any) -> str:
    """Name the option, its other spellings, and what it takes."""
    names = "`, `".join(option.opts)
    if option.is_flag:
        return names
    kind = option.metavar or option.display_type(None).strip("<>")
    return (
        f"{names} {kind if option.metavar or '|' in kind else kind.removesuffix(' range').upper()}"
    )


def _meaning(option: Any) -> str:
    """Give the help of an option, and the range of a number."""
    ends = option._get_number_range_help_str()
    return f"{option.help or ''}{f' Range: {ends}.' if ends else ''}".strip()


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    value: Any = option.default
    if option.is_flag or value is None or value == [] or not option.show_default:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _metrics() -> Iterator[str]:
    yield (
        "Every number that a record can hold and a policy can limit, with the words that reports use for it. The name "
        "of a metric has parts, joined by dots: `excess_pr.unique.lowest_loss` is the metric `excess_pr`, of values of "
        "a single document, by the method of lowest loss. Not every combination of parts exists; a policy that names "
        "one that does not is refused, and the error names the nearest one that does."
    )
    yield ""
    limited = _limited()
    for report in TEXTS.values():
        yield from _of_attack(report, limited)
    yield from (
        "## Categories of values",
        "",
        "The last part of many names. In the words of the reports:",
        "",
    )
    yield from _table(
        ("part", "meaning"), ([f"`{name}`", label] for name, label in CATEGORY_LABELS.items())
    )


def _of_attack(report: AttackText, limited: Mapping[tuple[str, str], list[str]]) -> Iterator[str]:
    yield from (f"## {report.name}", "", f"**{report.title}.** {report.question}", "")
    if report.power is not None:
        yield from (f"A policy compares its `min_power` with `{report.power}`.", "")
    rows = []
    for head, metric in report.metrics.items():
        names = metric.names
        if not names:
            continue
        held = "; ".join(
            f"`{name}` ({', '.join(shipped)})"
            for name in names
            if (shipped := limited.get((report.name, name)))
        )
        rows.append(
            [
                f"`{head}`",
                metric.label,
                metric.meaning,
                FORMS[metric.form],
                _parts(head, names),
                held,
            ]
        )
    yield from _table(
        ("metric", "in reports", "meaning", "form", "parts that may follow", "limited by"), rows
    )
    qualifiers = _qualifiers(report)
    if qualifiers:
        yield from _table(
            ("part", "meaning"), ([f"`{name}`", label] for name, label in qualifiers.items())
        )
    yield from ("Sources:", "")
    yield from (f"- {source}" for source in report.sources)
    yield ""


def _parts(head: str, names: Sequence[str]) -> str:
    """What may follow a metric's first part, categories of values named as such."""
    rest = [name.removeprefix(head).removeprefix(".") for name in names if name != head]
    found = dict.fromkeys(part for name in rest for part in name_parts(name))
    own = [f"`{part}`" for part in found if part not in CATEGORY_LABELS]
    return ", ".join([*own, *(["a category"] if {*CATEGORY_LABELS} & {*found} else [])])


def _qualifiers(report: AttackText) -> dict[str, str]:
    """Labels of the parts that follow, of those that have any."""
    parts = dict.fromkeys(part for name in report.names for part in name_parts(name)[1:])
    labels = {
        part: report.qualifier(f"metric.{part}") for part in parts if part not in CATEGORY_LABELS
    }
    return {part: text for part, text in labels.items() if text != part}


def _limited() -> dict[tuple[str, str], list[str]]:
    """The shipped policies that limit each metric."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in SHIPPED:
        for limit in policies.load(name).limits:
            found.setdefault((limit.attack, limit.metric), []).append(name)
    return found


def _limits() -> Iterator[str]:
    yield "What each limit means for a verdict is explained under [policies](../policies.md)."
    yield ""
    for name in SHIPPED:
        policy = policies.load(name)
        yield from (f"## {name}", "", policy.description, "")
        rows = (
            [limit.attack, f"`{limit.metric}`", _bound(limit), _conditions(limit)]
            for limit in policy.limits
        )
        yield from _table(("attack", "metric", "limit", "conditions"), rows)
        yield from ("The reasons:", "")
        yield from (
            f"- `{limit.attack}` `{limit.metric}`: {' '.join(limit.rationale.split())}"
            for limit in policy.limits
        )
        yield ""
        yield from (
            "Demands: questions that a pass must answer. One of the attacks must decide each.",
            "",
        )
        demands = ([one.question, ", ".join(one.any_of), one.rationale] for one in policy.demands)
        yield from _table(("question", "attacks", "rationale"), demands)
        yield from (
            "Gaps: attacks that do not apply to these model types. The policy permits each gap.",
            "",
        )
        yield from _table(
            ("attack", "tasks", "rationale"),
            ([gap.attack, ", ".join(gap.tasks), gap.rationale] for gap in policy.gaps),
        )


def _bound(limit: policies.Limit) -> str:
    if limit.rule:
        return f"at most {limit.rule}"
    return f"at most {limit.max:g}" if limit.max is not None else f"at least {limit.min:g}"


def _conditions(limit: policies.Limit) -> str:
    """What a pass asks for beside the interval."""
    found = [
        f"`{name} = {value:g}`"
        for name in ("min_power", "min_coverage", "min_category_coverage")
        if (value := getattr(limit, name)) is not None
    ]
    found += [] if limit.required else ["`required = false`"]
    found += ['`holds = "estimate"`'] if limit.holds == "estimate" else []
    return ", ".join(found)


def _results() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = list(json.loads(RESULTS.read_text(encoding="utf-8")).values())
    return sorted(found, key=lambda one: [*TASKS].index(one["task"]))


def _marks(result: Mapping[str, Any]) -> tuple[str, ...]:
    """By attack, whether a scan completed it."""
    return tuple(
        "yes" if result["attacks"][name]["status"] == "completed" else "-" for name in TEXTS
    )


def _grouped(results: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A row for the families of a task that the same attacks were completed on.

    Tasks of the same families share it.
    """
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for result in results:
        if result["refusal"] is None:
            rows.setdefault((result["task"], _marks(result)), []).append(result["family"])
    joined: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (task, marks), families in rows.items():
        joined.setdefault((", ".join(families), marks), []).append(TASKS[task])
    cells = (
        [
            "; ".join(tasks),
            ", ".join(head for head, mark in zip(HEADS, marks, strict=True) if mark == "yes"),
            families,
        ]
        for (families, marks), tasks in joined.items()
    )
    yield from _table(("task", "attacks", "families"), cells)


def _models() -> Iterator[str]:
    yield (
        "Tests inspect, plan and scan a tiny checkpoint of each family, with random weights. A table shows which "
        'attacks its scan completed. A "-" means that the attack does not apply, or needs something that the test '
        "did not give. Other families may work too: encoders with a masked language model in transformers, and what "
        "transformers loads as image-text-to-text, causal or sequence-to-sequence model."
    )
    yield from ("", "## At a glance", "")
    yield from _grouped(_results())
    yield (
        "VT5, BROS, the image branches and the models of utterances are classes that transformers lacks; they load and "
        "save like any `PreTrainedModel`. LayoutLMv3 and LiLT need a public masked language model with the same tokens "
        "(RoBERTa's, or XLM-RoBERTa's)."
    )
    yield ""
    for task, words in TASKS.items():
        yield from _of_task(
            words,
            task,
            [one for one in _results() if one["task"] == task and one["refusal"] is None],
        )
    yield "## Refused\n"
    refused = [one for one in _results() if one["refusal"] is not None]
    rows = (
        [one["family"], TASKS[one["task"]], one["refusal"].partition("; docaudit knows ")[0]]
        for one in refused
    )
    yield from _table(("family", "task", "docaudit says"), rows)


def _papers() -> Iterator[str]:
    for authors, paper in tomllib.loads(PAPERS.read_text(encoding="utf-8")).items():
        yield f"- {authors}: " + re.sub(
            r"arXiv:([\d.]+\d)", r"[arXiv:\1](https://arxiv.org/abs/\1)", paper
        )


def terms() -> dict[str, str]:
    """The meaning of each term. Attacks win over reports, and reports over the manual."""
    meanings = dict(html.MANUAL) | dict(html.GENERAL)
    for text in reversed(TEXTS.values()):
        meanings |= text.glossary
    return meanings


def _glossary() -> Iterator[str]:
    yield "Words of reports and of this manual. Words in brackets are other forms of a term."
    yield ""
    for name, meaning in sorted(terms().items(), key=lambda pair: pair[0].lower()):
        yield from (f"## {name}", "", meaning, "")


def _of_task(words: str, task: str, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from (f"## {words[0].upper()}{words[1:]}", "", f'`task.kind = "{task}"`', "")
    rows = [[_named(one), *_marks(one)] for one in results]
    yield from _table(("family", *HEADS), rows)
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in results:
        for attack, found in one["attacks"].items():
            if "reason" in found:
                reasons.setdefault((attack, found["reason"]), []).append(one["family"])
    if reasons:
        cells = [
            [
                attack.replace("_", " "),
                "all" if len(families) == len(results) else ", ".join(families),
                reason,
            ]
            for (attack, reason), families in reasons.items()
        ]
        yield from _table(("attack", "families", "why it did not run"), cells)


def _named(result: Mapping[str, Any]) -> str:
    needs = " and ".join(result["needs"])
    return (
        f"{result['family']} (with {needs}: `docaudit[vision]`)" if needs else str(result["family"])
    )
