"""What the report says about an attack: read from `templates/attacks/<attack>.html`, generic where that is silent.

Such a template is never rendered itself: it is a list of names, all of them optional.

    title, question    text
    metrics            first part of a metric's name -> {"label", "short" (where there is little room),
                        "form" (audit.report.numbers.Form), "meaning", "listed" (false: left out of the table of
                        every measurement, a part shows it), "counted" (false: a share that is no count of units)}
    qualifiers         any later part of a name -> words
    contexts           later parts of names that say in which context something was measured -> words
    unlisted           later parts of names that the table of every measurement leaves out, a part shows them
    figures            [{"histogram": name, "words": {...}, "caption", "height": of the figure in inches, or none}
                        or {"panels": [{"title", "complement", "series": [{"label", "metric"}]}], "caption"}
                        or {"curves": [{"curve": name, "title", "axis", "quantity", "form", "x_scale", "diagonal"}],
                            "series": {name: words}, "caption", "height": of a row of panels in inches, or none}
                        or {"overlaps": [{"label", "first", "second", "only_first", "only_second", "net"}],
                            "words": {...}, "caption"}, names of metrics, see audit.report.diagram
                        or {"pages": {"kept", "removed"}, "caption"}, see audit.report.drawn_pages]
    parts              [{"title", "text": macro of `ResultIndex`, "figures": as above,
                        "tables": [{"caption", "columns", "rows"}], see audit.report.compact,
                        "mark": {"diagnostic", "under", "word", "reason"}}], the mark for a lower diagnostic
    trend              {"panels": [{"title", "series": [{"label", "metric"}]}], "columns": [{"label", "metric"}]}, for
                       several checkpoints
    glossary, sources  pairs of term and meaning; citations
    risk(numbers)      macro: the sentences on page one, from `ResultIndex`
    method(result)     macro: how it works, from the `Completed` result
"""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from audit.measurements import Estimate, Unresolved
from audit.record import Completed
from audit.report.numbers import Form

GENERIC = "attacks/_generic.html"
_SPACE = re.compile(r"[ \n]+")
CATEGORY_WORDS = {
    "person": "people",
    "organization": "organisations",
    "location": "addresses and places",
    "datetime": "dates and times",
    "amount": "amounts of money",
    "code": "numbers and codes",
    "contact": "contact details",
    "url": "web addresses",
    "demographic": "personal traits",
    "quantity": "quantities",
    "misc": "other values",
}
"""The manifest's field categories, as a reader who knows no schema would call them."""


class ResultIndex:
    """The measurements, diagnostics and counts of one attack by name, for the macros of its template."""

    def __init__(self, result: Completed) -> None:
        self._by_name = {item.name: item for item in result.measurements}
        self._diagnostics = {item.name: item.value for item in result.diagnostics}
        self.counts = result.counts
        self.parameters = result.parameters
        self.confounded = result.confounded is not None

    def get(self, *names: str) -> Estimate | None:
        """The first of these that was measured."""
        found = (self._by_name.get(name) for name in names)
        return next((item for item in found if isinstance(item, Estimate)), None)

    def find(self, name: str) -> Estimate | Unresolved | None:
        """This measurement, resolved or not; None when the record lacks it."""
        return self._by_name.get(name)

    def missing(self, *names: str) -> Unresolved | None:
        """The first of these that could not be resolved."""
        found = (self._by_name.get(name) for name in names)
        return next((item for item in found if isinstance(item, Unresolved)), None)

    def diagnostic(self, name: str) -> float | None:
        """A property of the run's own computation; None when the record lacks it."""
        return self._diagnostics.get(name)

    def count(self, name: str) -> int | None:
        """A plain count of what was done or left out; None when the record lacks it."""
        return next((item.value for item in self.counts if item.name == name), None)

    def all(self) -> tuple[Estimate | Unresolved, ...]:
        """Every measurement, in the record's order."""
        return tuple(self._by_name.values())


class AttackText:
    """The words for one attack."""

    def __init__(self, environment: Environment, attack: str) -> None:
        self.attack = attack
        self._generic = environment.get_template(GENERIC).module
        chosen = environment.select_template([f"attacks/{attack}.html", GENERIC])
        self.specific = chosen.name != GENERIC
        self._own = chosen.module

    def _get(self, name: str) -> Any:
        return getattr(self._own, name, getattr(self._generic, name))

    @property
    def title(self) -> str:
        """What the attack is called in a heading."""
        return str(self._get("title")) if self.specific else self.attack

    @property
    def question(self) -> str:
        """The question the attack answers, one sentence."""
        return str(self._get("question"))

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Specifications of figures, in order."""
        return list(self._get("figures"))

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Specifications of parts with figures and tables of their own, in order."""
        return list(self._get("parts"))

    @property
    def trend(self) -> dict[str, Any]:
        """What to draw and to tabulate for several checkpoints."""
        return dict(self._get("trend"))

    @property
    def contexts(self) -> dict[str, str]:
        """The contexts in which the attack is tried, in the order of its tables, in words."""
        return {str(name): str(words) for name, words in self._get("contexts").items()}

    @property
    def glossary(self) -> list[tuple[str, str]]:
        """Terms and their meaning."""
        return [(str(term), str(meaning)) for term, meaning in self._get("glossary")]

    @property
    def sources(self) -> list[str]:
        """The papers the attack comes from."""
        return [str(source) for source in self._get("sources")]

    def form(self, metric: str) -> Form:
        """How a metric's values are printed."""
        form: Form = self._metric(metric).get("form", "number")
        return form

    def listed(self, metric: str) -> bool:
        """Whether a metric stands in the table of every measurement."""
        apart = set(self._get("unlisted")) & set(_parts(metric)[1:])
        return bool(self._metric(metric).get("listed", True)) and not apart

    def counted(self, metric: str) -> bool:
        """Whether a metric that is a share stands for so many of its units."""
        return self.form(metric) == "share" and bool(self._metric(metric).get("counted", True))

    def family(self, metric: str) -> str:
        """The words for the first part of a metric's name."""
        head = _parts(metric)[0]
        return str(self._metric(metric).get("label", head))

    def meaning(self, metric: str) -> str:
        """One sentence on what the metric is; empty when the template gives none."""
        return str(self._metric(metric).get("meaning", ""))

    def qualifiers(self, metric: str) -> str:
        """The words for the rest of a metric's name: which documents, which attacker, which kind of value."""
        known = {**CATEGORY_WORDS, **self._get("qualifiers")}
        return ", ".join(str(known.get(part, part)) for part in _parts(metric)[1:])

    def label(self, metric: str) -> str:
        """The whole name in words."""
        rest = self.qualifiers(metric)
        return f"{self.family(metric)}: {rest}" if rest else self.family(metric)

    def short(self, metric: str) -> str:
        """The whole name in words, as short as it can be said."""
        rest = self.qualifiers(metric)
        head = str(self._metric(metric).get("short", self.family(metric)))
        return f"{head}, {rest}" if rest else head

    def risk(self, numbers: ResultIndex) -> Markup:
        """The sentence on page one."""
        return in_one_line(self._get("risk")(numbers))

    def method(self, result: Completed) -> Markup:
        """How the attack works and how its numbers are made."""
        return Markup(self._get("method")(result))

    def _metric(self, metric: str) -> dict[str, Any]:
        known: dict[str, dict[str, Any]] = self._get("metrics")
        return known.get(_parts(metric)[0], {})


def in_one_line(text: str) -> Markup:
    """Words of a template without its line breaks, and without a space at their end: that would break lines badly."""
    return Markup(_SPACE.sub(" ", text)).strip()


def category_words(category: str) -> str:
    """A field category in words; one that is not of the manifest's list as it stands."""
    return CATEGORY_WORDS.get(category, category)


def _parts(metric: str) -> list[str]:
    """The parts of a dotted name; a dot before a digit belongs to a number ("ipf.member.e0.001")."""
    return re.split(r"\.(?!\d)", metric)
