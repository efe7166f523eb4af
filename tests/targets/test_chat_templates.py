"""Chat templates of checkpoints are programs: what honest ones write is unchanged, and others end in bounds."""

import os
import re
import time
from pathlib import Path

import pytest
import text_zoo
import vlm_zoo
from transformers.utils import chat_template_utils

from audit.errors import EngineError, ModelError, TargetError
from audit.targets.answering import templates

TURNS = [
    {"role": "system", "content": "You read bills."},
    {"role": "user", "content": "Café Größe 木 \x1b[31m\n total: 12.40 </s> \ud800"},
    {"role": "assistant", "content": " 12.40 "},
]
IN_PARTS = [
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "What is the total?"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "12.40"}]},
]
HONEST = {
    "text zoo": (text_zoo.TEMPLATE, TURNS),
    **{f"vision zoo {name}": (template, IN_PARTS) for name, template in vlm_zoo.TEMPLATES.items()},
    "namespace": (
        "{%- set ns = namespace(n=0) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.n = ns.n + 1 %}"
        "{%- endif %}{{- m.content | trim | tojson }}{%- endfor %}{{- ns.n ~ bos_token }}",
        TURNS,
    ),
    "loop controls": (
        "{% for m in messages %}{% if loop.index0 > 1 %}{% break %}{% endif %}{{ m.content }}{% endfor %}",
        TURNS,
    ),
    "macro": (
        "{% macro say(m) %}[{{ m['role']|upper }}]{% endmacro %}{% for m in messages %}{{ say(m) }}{% endfor %}",
        TURNS,
    ),
    "generation": (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
        TURNS,
    ),
    "settings": (
        "{{ '<think>' if enable_thinking is defined and not enable_thinking }}{{ '-' * 40 }}{{ messages|length }}",
        TURNS,
    ),
}


@pytest.fixture(scope="module")
def tokenizer():
    return text_zoo.byte_tokenizer(template=True)


@pytest.fixture(scope="module")
def strict():
    """A process with bounds of 2 seconds and 300 MB; what it did not survive is started again.

    A busy machine takes up to a second to fill the 300 MB.
    """
    own = templates.TemplateProcess()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(templates, "_PROCESS", own)
        monkeypatch.setattr(templates, "SECONDS", 2)
        monkeypatch.setattr(templates, "MEMORY", 300 << 20)
        yield own
    own.end()


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_template_writes_what_transformers_makes_of_it(name, tokenizer):
    template, turns = HONEST[name]
    settings = {"add_generation_prompt": False, "enable_thinking": False, "chat_template": template}
    expected = tokenizer.apply_chat_template(turns, tokenize=False, **settings)
    assert templates.write_turns(tokenizer, turns, **settings) == expected
    assert expected


GREEDY = {
    "nested loops": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "more time",
    ),
    "long product": ("{{ 'a' * 2000000000 }}", "more memory"),
    "product of a variable": ("{% set n = 2000000000 %}{{ 'a' * n }}", "more memory"),
    "wide format": ("{{ '%*d' % (2000000000, 1) }}", "more memory"),
    "format method": ("{{ '{:>2000000000}'.format(1) }}", "more memory"),
    "centre": ("{{ 'a' | center(2000000000) }}", "more memory"),
    "power": ("{% set n = 9 %}{{ (n ** (n ** n)) % 7 }}", "more time"),
    "doubling": (
        "{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
        "more memory",
    ),
    "long text": (
        "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}",
        "more letters",
    ),
    "recursion of macros": (
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "failed on a page",
    ),
    "long template": ("{# " + "a" * (1 << 19) + " #}", "more than 524,288 letters"),
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", GREEDY)
def test_a_template_without_bounds_ends_in_a_sentence(name, tokenizer):
    template, told = GREEDY[name]
    began = time.monotonic()
    with pytest.raises((TargetError, ModelError)) as ended:
        templates.write_turns(tokenizer, TURNS, chat_template=template)
    message = ended.value.about if isinstance(ended.value, ModelError) else str(ended.value)
    assert told in message
    assert "bills" not in message
    # Generous, for a busy machine: these would take hours.
    assert time.monotonic() - began < 120
    assert templates.write_turns(tokenizer, TURNS, chat_template="again") == "again"


def test_what_a_template_raises_is_told_without_the_page(tokenizer):
    template = "{{ raise_exception('bad turn: ' + messages[0]['content']) }}"
    with pytest.raises(ModelError) as raised:
        templates.write_turns(tokenizer, TURNS, chat_template=template)
    assert raised.value.about.endswith("failed on a page")
    assert "You read bills." in raised.value.story


def test_a_process_that_is_killed_is_told_and_the_next_text_starts_another(
    strict, tokenizer, monkeypatch
):
    assert templates.write_turns(tokenizer, TURNS, chat_template="a") == "a"
    killed = strict._process
    monkeypatch.setattr(strict, "_started", lambda: killed)
    killed.kill()
    with pytest.raises(EngineError, match="ended with code -9"):
        templates.write_turns(tokenizer, TURNS, chat_template="a")
    monkeypatch.undo()


def test_a_fork_has_a_process_of_its_own(strict, tokenizer):
    assert templates.write_turns(tokenizer, TURNS, chat_template="a") == "a"
    strict._owner = os.getppid()
    first = strict._process
    assert templates.write_turns(tokenizer, TURNS, chat_template="b") == "b"
    assert strict._process is not first
    assert first.poll() is None, "it is another process's"
    first.kill()
    first.wait()


def test_templates_of_others_in_this_process_are_compiled_as_ever():
    template = chat_template_utils._compile_jinja_template("{{ 1 + 1 }}")
    assert type(template).__module__.startswith("jinja2")
    assert template.render() == "2"


def test_every_template_is_written_in_bounds():
    package = Path(templates.__file__).parents[2]
    calls = re.compile(r"\.apply_chat_template\(|render_jinja_template")
    callers = [path.name for path in package.rglob("*.py") if calls.search(path.read_text())]
    assert callers == ["templates.py"]
