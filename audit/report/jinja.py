"""The templates: where they lie, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jinja2

from audit.errors import RenderError
from audit.report import numbers
from audit.report.words import category_words
from audit.resources import folder


def environment() -> jinja2.Environment:
    """Jinja over `templates/`: everything is escaped, and a name that nobody defined is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        show=numbers.show,
        bare=numbers.bare,
        interval=numbers.interval,
        between=numbers.between,
        reached=numbers.reached,
        plain=numbers.plain,
        at_least=numbers.at_least,
        limit_text=numbers.limit_text,
        moment=numbers.moment,
        day=numbers.day,
        duration=numbers.duration,
        place=numbers.place,
        category=category_words,
        capitalize_first=lambda text: text[:1].upper() + text[1:],
    )
    return made


@contextmanager
def template_errors() -> Iterator[None]:
    """Turn what is wrong with a template into an error that the command line shows.

    Raises:
        RenderError: a template is missing or broken, and where.
    """
    try:
        yield
    except jinja2.TemplateError as error:
        place = f"{error.name}:{error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise RenderError(f"the report's templates: {place}{error.message}", "install docaudit again") from None
