"""Sentences of the report on one attack: the macros of its template.

`templates/attacks/<attack>.html` is never rendered itself. It holds macros, all of them optional
but for those that a part names: `leak(n)`, the sentences of page one, `more(n)`, their comparisons,
`check(n)`, other causes ruled out, and `method(result)`. `n` is a `ResultIndex`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import jinja2
from markupsafe import Markup, escape

from audit.attacks import text_of
from audit.attacks.figure_text import ReportPart
from audit.attacks.text import CATEGORY_LABELS, sentence_case
from audit.errors import RenderError, printable
from audit.files import shipped_folder
from audit.measurements import Estimate, Unresolved
from audit.policy import Verdict
from audit.record import Result
from audit.report import numbers

LINK = r"arXiv:(\d{4}\.\d{4,5})|(https://[^\s<>)]*[^\s<>).,;])"
"""An arXiv id, or an address without the punctuation behind it."""


@cache
def environment() -> jinja2.Environment:
    """Return Jinja over `templates/`: everything is escaped, and an undefined name is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(shipped_folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {
        name: each
        for name, each in vars(numbers).items()
        if getattr(each, "__module__", "") == numbers.__name__
    }
    made.filters.update(own, capitalize_first=sentence_case, linked=linked)
    made.filters["category"] = lambda name: CATEGORY_LABELS.get(name, name)
    return made


def linked(text: str) -> Markup:
    """Turn a source into HTML with links for addresses and for papers named by their arXiv id."""
    return Markup(re.sub(LINK, _link, str(escape(text))))


def _link(found: re.Match[str]) -> str:
    paper, address = found.groups()
    return f'<a href="{address or f"https://arxiv.org/abs/{paper}"}">{found[0]}</a>'


@contextmanager
def template_errors() -> Iterator[None]:
    """Turn what is wrong with a template into an error that the command line shows.

    Raises:
        RenderError: a template is missing or broken, and where.
    """
    try:
        yield
    except jinja2.TemplateError as error:
        line = (
            f"{error.name}:{error.lineno}: "
            if isinstance(error, jinja2.TemplateSyntaxError)
            else ""
        )
        raise RenderError(
            f"the report's templates: {line}{error.message}", "install docaudit again"
        ) from None


def render_text(
    template: str, finalize: Callable[[object], object] | None = None, **values: object
) -> str:
    """Draw a template as plain text; `finalize` is applied to every value in it.

    Raises:
        RenderError: the template is missing or broken.
    """
    with template_errors():
        return (
            environment()
            .overlay(autoescape=False, finalize=finalize)
            .get_template(template)
            .render(**values)
        )


def render_lines(template: str, **values: object) -> list[str]:
    """Draw a template as lines for a terminal.

    Control characters in values are escaped, so that none adds a line.
    """
    return render_text(template, lambda value: printable(str(value)), **values).splitlines()


_SPECIAL = re.compile(r"[\\`*_\[\]#|~$]|(?<=\])\(")
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+"
)


def render_markdown(template: str, **values: object) -> str:
    """Draw a template; every value in it is escaped, so that no name in a record can add markup.

    Raises:
        RenderError: the template is missing or broken.
    """
    return re.sub(r"\n{3,}", "\n\n", render_text(template, escaped, **values)).strip() + "\n"


def escaped(value: object) -> str:
    """Return a value as Markdown text that is nothing but text: on one line, without markup, HTML or hidden signs.

    A sign of no width behind "@" keeps it from mentioning anybody.
    """
    text = _INVISIBLE.sub(" ", str(value).replace(numbers.NBSP, " "))
    text = (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("@", "@&#8203;")
    )
    return _SPECIAL.sub(r"\\\g<0>", text)


GENERIC = "attacks/_generic.html"
LARGE = 0.25
"""Share or area beyond its null from which "nothing was found" misleads, where the interval reaches
there."""
_SPACE = re.compile(r"[ \n]+")
_SENTENCE = re.compile(r"(?<=[a-z%)][.?])(?=(?:<strong>)?[A-Z0-9“])")
"""The end of a sentence that lacks the space behind it, as where a line of a template ends with a
tag."""


class ResultIndex:
    """The measurements, diagnostics and counts of one attack by name, for the macros of its template."""

    def __init__(
        self,
        result: Result,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        self._by_name = {item.name: item for item in result.measurements}
        self._diagnostics = {item.name: item.value for item in result.diagnostics}
        self.counts = result.counts
        self.parameters = result.parameters
        self.labels = labels or {}
        decisions = () if verdict is None else verdict.decisions
        self._decisive = {
            one.limit.metric: one.measured.name
            for one in decisions
            if one.limit.attack == result.attack
            and one.measured is not None
            and one.outcome in ("violated", "waived")
        }
        self.confounded = result.confounded is not None and not self._decisive

    def get(self, *names: str) -> Estimate | None:
        """Return the first of these that was measured."""
        items = (self._by_name.get(name) for name in names)
        return next((item for item in items if isinstance(item, Estimate)), None)

    def decisive(self, *metrics: str) -> Estimate | None:
        """Return the first of these metrics that was measured, by the method that showed a leak over its limit.

        Without such a leak by the method that was fixed before the scan: the strongest of several
        may be chance.
        """
        return self.get(
            *(name for metric in metrics for name in (self._decisive.get(metric, metric), metric))
        )

    def find(self, name: str) -> Estimate | Unresolved | None:
        """Return this measurement, resolved or not; None when the record lacks it."""
        return self._by_name.get(name)

    def missing(self, *names: str) -> Unresolved | None:
        """Return the first of these that could not be resolved."""
        items = (self._by_name.get(name) for name in names)
        return next((item for item in items if isinstance(item, Unresolved)), None)

    def diagnostic(self, name: str) -> float | None:
        """Return a property of the run's own computation; None when the record lacks it."""
        return self._diagnostics.get(name)

    def count(self, name: str) -> int | None:
        """Return a plain count of what was done or left out; None when the record lacks it."""
        return next((item.value for item in self.counts if item.name == name), None)

    def few(self, item: Estimate) -> bool:
        """Test whether so little was tried that a large leak is not excluded."""
        return item.high - max(item.null or 0.0, 0.0) > LARGE

    def all(self) -> tuple[Estimate | Unresolved, ...]:
        """Return every measurement, in the record's order."""
        return tuple(self._by_name.values())


class AttackMacros:
    """An attack's `AttackText` with the macros of its template."""

    def __init__(self, templates: jinja2.Environment, attack: str) -> None:
        self.attack = attack
        self.report = text_of(attack)
        self.title = self.report.title or attack
        self._templates = templates

    @cached_property
    def _own(self) -> Any:
        """The attack's own template; an attack that did not run shows nothing of it."""
        return self._templates.select_template([f"attacks/{self.attack}.html", GENERIC]).module

    def leak(self, index: ResultIndex) -> Markup:
        """Return the sentences of page one: what came out, with count and interval."""
        return in_one_line(self._macro("leak")(index))

    def more(self, index: ResultIndex) -> Markup:
        """Return what this is compared with, and what else came out.

        Empty where the template has nothing.
        """
        return self._render_optional("more", index)

    def check(self, index: ResultIndex) -> Markup:
        """Return what was done to rule out other causes than the training.

        Empty where the template has nothing.
        """
        return self._render_optional("check", index)

    def _render_optional(self, name: str, index: ResultIndex) -> Markup:
        own = getattr(self._own, name, None)
        return in_one_line(own(index)) if own else Markup()

    def method(self, result: Result) -> Markup:
        """Return how the attack works and how its numbers are made."""
        return Markup(self._macro("method")(result))

    def text(self, of: ReportPart, index: ResultIndex) -> Markup:
        """Return the sentences of a part."""
        own = self._templates.get_template(of.template).module if of.template else self._own
        return Markup(getattr(own, of.text)(index))

    def _macro(self, name: str) -> Any:
        return getattr(self._own, name, None) or getattr(
            self._templates.get_template(GENERIC).module, name
        )


def in_one_line(text: str) -> Markup:
    """Join the lines of a template, without a space at the end: that would break lines badly."""
    return Markup(_SENTENCE.sub(" ", _SPACE.sub(" ", text))).strip()
