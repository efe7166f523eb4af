"""Templates of attacks: every macro that a text names is there, and asks for what the attack measures."""

from collections.abc import Iterator

import pytest
from jinja2 import nodes

from audit.attacks import TEXTS
from audit.attacks.text import name_parts
from audit.report.templates import AttackMacros, environment

ASKING = ("get", "decisive", "find", "missing", "diagnostic")
"""Methods of `n`, the index of measurements, that take names."""


def asked(template: str) -> Iterator[tuple[str, str, bool]]:
    """Yield the method of `n`, the name or its beginning, and whether it is whole, of every call in a template."""
    templates = environment()
    assert templates.loader is not None
    source, *_ = templates.loader.get_source(templates, template)
    for call in templates.parse(source).find_all(nodes.Call):
        of = call.node
        if (
            isinstance(of, nodes.Getattr)
            and isinstance(of.node, nodes.Name)
            and of.node.name == "n"
        ):
            for argument in call.args if of.attr in ASKING else ():
                first = argument.nodes[0] if isinstance(argument, nodes.Concat) else argument
                if isinstance(first, nodes.Const):
                    yield of.attr, str(first.value), first is argument


@pytest.mark.parametrize("name", TEXTS)
def test_its_template_has_every_macro_and_asks_for_what_it_measures(name: str) -> None:
    text = TEXTS[name]
    macros = AttackMacros(environment(), name)
    assert macros.title == text.title
    own = f"attacks/{name}.html"
    named = [(part.template or own, part.text) for part in text.parts]
    for template, macro in named:
        assert callable(getattr(environment().get_template(template).module, macro, None)), macro
    found = [
        one for template in {own, *(template for template, _ in named)} for one in asked(template)
    ]
    assert found
    for method, wanted, whole in found:
        if method == "diagnostic":
            assert {wanted.rstrip("."), name_parts(wanted)[0]} & {*text.diagnostics}, wanted
        else:
            assert wanted in text.known or (
                not whole and any(one.startswith(wanted) for one in text.known)
            ), wanted
