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
from audit.policy.decision import word_of
from audit.record import Result
from audit.report import numbers
from audit.report.facts.definitions import is_plain_difference

LINK = r"arXiv:(\d{4}\.\d{4,5})|(https://[^\s<>)]*[^\s<>).,;])"
"""An arXiv id, or an address without the punctuation behind it."""


@cache
def environment() -> jinja2.Environment:
    """Return Jinja over `templates/`: everything is escaped, and an undefined name is an error."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(shipped_folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(_number_filters())
    templates.filters["capitalize_first"] = sentence_case
    templates.filters["outcome_word"] = word_of
    templates.filters["linked"] = linked
    templates.filters["category"] = lambda name: CATEGORY_LABELS.get(name, name)
    return templates


def _number_filters() -> dict[str, Any]:
    """Return the functions of `numbers` by name."""
    return {
        name: item
        for name, item in vars(numbers).items()
        if getattr(item, "__module__", "") == numbers.__name__
    }


def linked(text: str) -> Markup:
    """Turn a source into HTML with links for addresses and for papers named by their arXiv id."""
    return Markup(re.sub(LINK, _link, str(escape(text))))


def _link(source: re.Match[str]) -> str:
    """Return the HTML link for a matched address or arXiv id."""
    paper, address = source.groups()
    target = address or f"https://arxiv.org/abs/{paper}"
    return f'<a href="{target}">{source[0]}</a>'


@contextmanager
def template_errors() -> Iterator[None]:
    """Turn what is wrong with a template into an error that the command line shows.

    Raises:
        RenderError: a template is missing or broken, and where.
    """
    try:
        yield
    except jinja2.TemplateError as error:
        place = ""
        if isinstance(error, jinja2.TemplateSyntaxError):
            place = f"{error.name}:{error.lineno}: "
        raise RenderError(
            f"the report's templates: {place}{error.message}", "install docaudit again"
        ) from None


def render_text(
    template: str, finalize: Callable[[object], object] | None = None, **values: object
) -> str:
    """Draw a template as plain text; `finalize` is applied to every value in it.

    Raises:
        RenderError: the template is missing or broken.
    """
    with template_errors():
        plain = environment().overlay(autoescape=False, finalize=finalize)
        return plain.get_template(template).render(**values)


def render_html(template: str, **values: object) -> str:
    """Draw a template as HTML; every value in it is escaped.

    Raises:
        RenderError: the template is missing or broken.
    """
    with template_errors():
        return environment().get_template(template).render(**values)


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
    text = render_text(template, escaped, **values)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escaped(value: object) -> str:
    """Return a value as Markdown that is nothing but text.

    It is on one line, without markup, HTML or hidden signs. A sign of no width behind "@" keeps it
    from mentioning anybody.
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
    """The numbers of one attack by name, for the macros of its template.

    These are its measurements, diagnostics and counts.
    """

    def __init__(
        self,
        result: Result,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """Index the measurements and diagnostics of an attack's result by name.

        `labels`: tables of labels for the template, by the table's name.
        `verdict`: verdict whose violated limits choose the deciding methods; None chooses none.
        """
        self._by_name = {item.name: item for item in result.measurements}
        self._diagnostics = {item.name: item.value for item in result.diagnostics}
        self.counts = result.counts
        self.parameters = result.parameters
        self.labels = labels or {}
        self._decisive: dict[str, str] = {}
        confounded = result.confounded
        shows_leak = False
        if verdict is not None:
            self._decisive = _deciding_methods(verdict, result.attack)
            confounded = verdict.settled.confounded(result.attack)
            shows_leak = _is_over_a_limit(verdict, result.attack)
        self.confounded = confounded is not None and not shows_leak
        # Confirmed beyond what another difference of both sides explains.
        self.leaks_beyond = confounded is not None and shows_leak

    def get(self, *names: str) -> Estimate | None:
        """Return the first named measurement that has a value; None where none has."""
        for name in names:
            item = self._by_name.get(name)
            if isinstance(item, Estimate):
                return item
        return None

    def decisive(self, *metrics: str) -> Estimate | None:
        """Return the first named metric with a value, by the method that decides its limit.

        Without a limit it is that of the method that was fixed before the scan.
        """
        names: list[str] = []
        for metric in metrics:
            names += [self._decisive.get(metric, metric), metric]
        return self.get(*names)

    def method_of(self, metric: str) -> str:
        """Return the end of the name by which the method that decides a metric is told apart.

        ".near" of `excess_pr.unique.near`; empty for the method that was fixed before the scan.
        """
        decisive = self.decisive(metric)
        if decisive is None:
            return ""
        return decisive.name.removeprefix(metric)

    def find(self, name: str) -> Estimate | Unresolved | None:
        """Return the measurement of this name, resolved or not; None when the record lacks it."""
        return self._by_name.get(name)

    def missing(self, *names: str) -> Unresolved | None:
        """Return the first named measurement that could not be resolved; None where all were."""
        for name in names:
            item = self._by_name.get(name)
            if isinstance(item, Unresolved):
                return item
        return None

    def diagnostic(self, name: str) -> float | None:
        """Return a diagnostic of the attack's computation; None when the record lacks it."""
        return self._diagnostics.get(name)

    def count(self, name: str) -> int | None:
        """Return a plain count of what was done or left out; None when the record lacks it."""
        for item in self.counts:
            if item.name == name:
                return item.value
        return None

    def is_plain(self, leak: Estimate, trained: Estimate, unseen: Estimate) -> bool:
        """Test whether a leak is the difference of both sides, and nothing was taken off either."""
        return is_plain_difference(leak, trained, unseen)

    def few(self, item: Estimate) -> bool:
        """Test whether so little was tried that a large leak is not excluded."""
        return item.high - max(item.null or 0.0, 0.0) > LARGE

    def all(self) -> tuple[Estimate | Unresolved, ...]:
        """Return every measurement, in the record's order."""
        return tuple(self._by_name.values())


def _deciding_methods(verdict: Verdict, attack: str) -> dict[str, str]:
    """Return by metric the measurement that decides the limit on it, as page one shows it."""
    names = {}
    for decision in verdict.decisions:
        if decision.limit.attack == attack and decision.measured is not None:
            names[decision.limit.metric] = decision.measured.name
    return names


def _is_over_a_limit(verdict: Verdict, attack: str) -> bool:
    """Tell whether an attack shows a leak over a limit, waived or not."""
    measured = [decision for decision in verdict.decisions if decision.measured is not None]
    of_attack = [decision for decision in measured if decision.limit.attack == attack]
    return any(decision.outcome in ("violated", "waived") for decision in of_attack)


class AttackMacros:
    """An attack's `AttackText` with the macros of its template."""

    def __init__(self, templates: jinja2.Environment, attack: str) -> None:
        """Take the Jinja environment and the texts of an attack; its template is loaded later."""
        self.attack = attack
        self.report = text_of(attack)
        self.title = self.report.title or attack
        self._templates = templates

    @cached_property
    def _template(self) -> Any:
        """Return the attack's own template; an attack that did not run shows nothing of it."""
        return self._templates.select_template([f"attacks/{self.attack}.html", GENERIC]).module

    def leak(self, index: ResultIndex) -> Markup:
        """Return the sentences of page one as HTML: what came out, with count and interval."""
        return in_one_line(self._macro("leak")(index))

    def more(self, index: ResultIndex) -> Markup:
        """Return what the leak is compared with, and what other leaks there are, as HTML.

        Empty where the template has nothing.
        """
        return self._render_optional("more", index)

    def check(self, index: ResultIndex) -> Markup:
        """Return what was done to rule out other causes than the training.

        Empty where the template has nothing.
        """
        return self._render_optional("check", index)

    def _render_optional(self, name: str, index: ResultIndex) -> Markup:
        """Render a macro of the attack's own template; empty where that lacks the macro."""
        macro = getattr(self._template, name, None)
        return in_one_line(macro(index)) if macro else Markup()

    def method(self, result: Result) -> Markup:
        """Return how the attack works and how its numbers are made."""
        return Markup(self._macro("method")(result))

    def text(self, of: ReportPart, index: ResultIndex) -> Markup:
        """Return the sentences of a part."""
        template = self._template
        if of.template:
            template = self._templates.get_template(of.template).module
        return Markup(getattr(template, of.text)(index))

    def _macro(self, name: str) -> Any:
        """Return a macro of the attack's template, else of the generic one."""
        macro = getattr(self._template, name, None)
        if macro:
            return macro
        return getattr(self._templates.get_template(GENERIC).module, name)


def in_one_line(text: str) -> Markup:
    """Join the lines of a template, without a space at the end: that would break lines badly."""
    return Markup(_SENTENCE.sub(" ", _SPACE.sub(" ", text))).strip()
