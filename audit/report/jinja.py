"""The Jinja environment of the templates, with filters for numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jinja2
from markupsafe import Markup, escape

from audit.attacks.text import CATEGORY_LABELS, sentence_case
from audit.errors import RenderError
from audit.report import numbers
from audit.resources import folder

LINK = r"arXiv:(\d{4}\.\d{4,5})|(https://[^\s<>)]*[^\s<>).,;])"
"""An arXiv id, or an address without the punctuation behind it."""


@cache
def environment() -> jinja2.Environment:
    """Return Jinja over `templates/`: everything is escaped, and an undefined name is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {name: each for name, each in vars(numbers).items() if getattr(each, "__module__", "") == numbers.__name__}
    made.filters.update(own)
    made.filters.update(
        category=lambda name: CATEGORY_LABELS.get(name, name), capitalize_first=sentence_case, linked=linked
    )
    return made


def linked(text: str) -> Markup:
    """A source as HTML: addresses, and the papers that it names by their arXiv id, are links."""
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
        line = f"{error.name}:{error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise RenderError(f"the report's templates: {line}{error.message}", "install docaudit again") from None
