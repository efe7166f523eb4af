"""Check the prose that people read against `.ci/prose.toml`: `python .ci/prose.py [--lower | [--lengths] FILE...]`.

Sentences are split by sentencex, Markdown is read by markdown-it-py, and proselint gives its
checks. Code, URLs and references to literature are skipped. Ends with 1 where a file has more
findings than the allowance of `.ci/prose.toml`. `--lower` lowers the allowances to today's counts.
With files, the script prints all their findings. With `--lengths`, it prints the lengths of their
sentences.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from statistics import mean
from typing import Any

import sentencex
from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.token import Token
from proselint.checks import __register__
from proselint.config import Config
from proselint.registry import CheckRegistry
from proselint.tools import LintFile

ROOT = Path(__file__).parent.parent
RULES = Path(__file__).with_name("prose.toml")
FILLER = "Thing"
"""The word that takes the place of a Jinja expression."""
INLINE = re.compile(r"a|abbr|b|br|cite|dfn|em|i|kbd|mark|q|small|span|strong|su[bp]|time|u|var|wbr")
SKIPPED = {"pre", "script", "style", "svg"}
SPOKEN = ("alt", "aria-label", "placeholder", "title")
FEWEST_WORDS = 4
"""A string inside an expression is prose from this many words on (ours)."""


@dataclass(frozen=True)
class Passage:
    """Text of one paragraph, heading, cell or string, with the line where it begins."""

    line: int
    text: str


@dataclass(frozen=True)
class Finding:
    """A rule that a sentence breaks."""

    line: int
    rule: str
    sentence: str


@dataclass
class Rules:
    """The content of `.ci/prose.toml`."""

    longest: int
    files: list[str]
    checks: list[str]
    openers: dict[str, str]
    words: dict[str, str]
    references: str
    skipped_keys: list[str] = field(default_factory=list)
    allowed: dict[str, int] = field(default_factory=dict)


# Passages of each kind of file.


def passages(path: Path, rules: Rules) -> list[Passage]:
    """Read the passages of a file by its suffix, without references to literature."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        found = list(toml_passages(source, rules.skipped_keys))
    elif path.suffix == ".py":
        found = list(python_passages(ast.parse(source)))
    else:
        read = {".html": html_passages, ".md": markdown_passages}.get(path.suffix, text_passages)
        pieces, strings = (
            split_jinja(source) if "templates" in path.parts else ([Passage(1, source)], [])
        )
        found = strings + [passage for piece in pieces for passage in read(piece)]
    kept = [
        one
        for one in found
        if re.search(r"[A-Za-z]{2}", one.text) and not re.search(rules.references, one.text)
    ]
    return sorted(kept, key=lambda passage: passage.line)


def split_jinja(source: str) -> tuple[list[Passage], list[Passage]]:
    """Split a template into its flow of text, its other branches and macros, and the strings of its expressions."""
    current: list[Any] = [1, ""]
    pieces, strings, outer, opened = [current], [], [], False
    for line, kind, value in Environment().lex(source):
        if opened and kind == "name":
            opened = False
            if value in ("if", "for", "macro"):
                outer.append(current)
            if value in ("else", "elif", "macro"):
                pieces.append(current := [line, ""])
            if value in ("endif", "endfor", "endmacro"):
                current = outer.pop()
        opened = kind == "block_begin" or (opened and kind == "whitespace")
        if kind in ("data", "variable_begin"):
            current[1] += "\n" * (line - current[0] - current[1].count("\n"))
            current[1] += value if kind == "data" else FILLER
        elif kind == "string" and len(value.split()) >= FEWEST_WORDS:
            strings.append(Passage(line, re.sub(r"<[^>]+>", "", value[1:-1])))
    return [Passage(*piece) for piece in pieces], strings


def text_passages(piece: Passage) -> Iterator[Passage]:
    """Split plain text at its blank lines."""
    for block in re.finditer(r"\S.*?(?=\n\s*\n|\f|\Z)", piece.text, re.DOTALL):
        yield Passage(piece.line + piece.text.count("\n", 0, block.start()), block[0])


def markdown_passages(piece: Passage) -> Iterator[Passage]:
    """Read headings, paragraphs, items and cells of Markdown."""
    for token in MarkdownIt("commonmark").enable("table").parse(piece.text):
        line = piece.line + (token.map[0] if token.map else 0)
        if token.type == "html_block":
            yield from html_passages(Passage(line, token.content))
        elif token.type == "inline":
            text = "".join(map(inline_text, token.children or []))
            yield Passage(line, re.sub(r"(^|[.?!]\s+)code\b", r"\1Code", text))
            yield from (
                Passage(line, child.content)
                for child in token.children or []
                if child.type == "image"
            )


def inline_text(token: Token) -> str:
    """Give the words of an inline token; code and addresses count as one word."""
    if token.type in ("softbreak", "hardbreak"):
        return "\n"
    if token.type == "code_inline":
        return "code"
    return re.sub(r"\w+://\S+[\w/]", "address", token.content) if token.type == "text" else ""


class Page(HTMLParser):
    """Collect the text between the tags of a page."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.first, self.found, self.text, self.begins, self.skipping = (
            line,
            list[Passage](),
            "",
            line,
            0,
        )

    def close_passage(self) -> None:
        """End the passage that is being read."""
        if self.text.strip():
            self.found.append(Passage(self.begins, self.text))
        self.text = ""

    def add(self, text: str) -> None:
        """Go on with the passage."""
        if not self.text.strip():
            blank = len(text) - len(text.lstrip())
            self.begins = self.first + self.getpos()[0] - 1 + text.count("\n", 0, blank)
            self.text, text = "", text[blank:]
        self.text += text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a passage at each tag of a block, and keep what attributes say aloud."""
        line = self.first + self.getpos()[0] - 1
        self.found += [Passage(line, value) for name, value in attrs if name in SPOKEN and value]
        if tag in SKIPPED:
            self.skipping += 1
        elif tag == "code":
            self.add("code")
            self.skipping += 1
        elif not INLINE.fullmatch(tag):
            self.close_passage()

    def handle_endtag(self, tag: str) -> None:
        """End a passage at the end of a block."""
        if tag in SKIPPED or tag == "code":
            self.skipping = max(0, self.skipping - 1)
        elif not INLINE.fullmatch(tag):
            self.close_passage()

    def handle_data(self, data: str) -> None:
        """Keep text outside code."""
        if not self.skipping:
            self.add(data)


def html_passages(piece: Passage) -> Iterator[Passage]:
    """Read the text between tags, block by block."""
    page = Page(piece.line)
    page.feed(piece.text)
    page.close()
    page.close_passage()
    yield from page.found


def toml_passages(source: str, skipped_keys: list[str]) -> Iterator[Passage]:
    """Read the strings of a TOML file that hold more than a word."""
    begin = 0
    for key, value in toml_strings(tomllib.loads(source), ""):
        if " " not in value or key in skipped_keys:
            continue
        start = source.find(value[:12].split("\n")[0], begin)
        begin = max(start, begin)
        pieces, strings = split_jinja(re.sub(r"`[^`]+`", "code", value))
        line = source.count("\n", 0, begin) + 1
        for piece in [*pieces, *strings]:
            yield from html_passages(Passage(line, piece.text))


def toml_strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """List all strings of parsed TOML, each with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from toml_strings(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from toml_strings(one, key)


def python_passages(tree: ast.Module) -> Iterator[Passage]:
    """Read the strings of Python code that hold some words, such as errors.

    Docstrings are for developers.
    """
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [
                str(one.value) if isinstance(one, ast.Constant) else FILLER for one in node.values
            ]
            text = "".join(pieces)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not {id(node)} & (parts | documented)
        ):
            text = node.value
        else:
            continue
        if len(text.split()) >= FEWEST_WORDS:
            yield Passage(node.lineno, text)


# Sentences and rules.


def sentences(passage: Passage) -> Iterator[Passage]:
    """Split a passage into its sentences, each with its line."""
    flat = re.sub(r"\s", " ", passage.text)
    at = 0
    for sentence in sentencex.segment("en", flat):
        at = flat.index(sentence, at)
        start = at + len(sentence) - len(sentence.lstrip())
        at += len(sentence)
        if words := " ".join(sentence.split()):
            yield Passage(passage.line + passage.text.count("\n", 0, start), words)


def length(sentence: str) -> int:
    """Count the words that hold a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())


def is_whole(sentence: str) -> bool:
    """Whether a sentence ends as one; headings and cells do not."""
    return re.search(r"[.?!:][)\"”’']*$", sentence) is not None


def check(path: Path, rules: Rules) -> list[Finding]:
    """List what a file breaks."""
    found = passages(path, rules)
    return sorted(
        [*own_findings(found, rules), *proselint_findings(found, rules)], key=lambda one: one.line
    )


def own_findings(found: list[Passage], rules: Rules) -> Iterator[Finding]:
    """Apply the rules of `.ci/prose.toml`."""
    for one in (sentence for passage in found for sentence in sentences(passage)):
        if (words := length(one.text)) > rules.longest:
            yield Finding(one.line, f"{words} words", one.text)
        for pattern, better in rules.openers.items():
            if re.match(pattern, one.text) and not one.text.endswith("?"):
                yield Finding(one.line, f"opener, {better}", one.text)
        for pattern, better in rules.words.items():
            for match in re.finditer(pattern, one.text, re.IGNORECASE):
                yield Finding(one.line, f"“{match[0]}”, {better}", one.text)


def proselint_findings(found: list[Passage], rules: Rules) -> Iterator[Finding]:
    """Apply the checks of proselint that `.ci/prose.toml` names."""
    if not found:
        return
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(__register__)
    flat = [" ".join(passage.text.split()) for passage in found]
    config = Config(max_errors=1000, checks=dict.fromkeys(rules.checks, True))
    for result in LintFile("prose", "\n".join(flat)).lint(config):
        row = result.pos[0] - 1
        yield Finding(found[row].line, result.check_result.check_path, flat[row])


# The gate.


def read_rules() -> Rules:
    """Read `.ci/prose.toml`."""
    return Rules(**tomllib.loads(RULES.read_text(encoding="utf-8")))


def tracked(root: Path, patterns: list[str]) -> list[str]:
    """List the files of these patterns that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    command += [f":(glob){pattern}" for pattern in patterns]
    names = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return sorted(name for name in {*names} if (root / name).exists())


def lower(text: str, counts: dict[str, int]) -> str:
    """Write the allowances anew: none is raised, and none is kept for a file without findings."""
    head, _, table = text.partition("[allowed]\n")
    allowed = tomllib.loads(table)
    kept = {name: min(n, counts.get(name, 0)) for name, n in sorted(allowed.items())}
    return f"{head}[allowed]\n" + "".join(f'"{name}" = {n}\n' for name, n in kept.items() if n)


def show_lengths(path: Path, rules: Rules) -> None:
    """Print the longest sentence of a file and the mean length of its sentences."""
    found = [
        one for passage in passages(path, rules) for one in sentences(passage) if is_whole(one.text)
    ]
    counted = {one: length(one.text) for one in found}
    if not counted:
        sys.exit(f"{path}: no sentence")
    longest = max(counted, key=counted.__getitem__)
    average, above = mean(counted.values()), sum(n > rules.longest for n in counted.values())
    print(
        f"{path}: {len(counted)} sentences, mean {average:.1f} words, {above} above {rules.longest} words"
    )
    print(f"{path}:{longest.line}: longest, {counted[longest]} words: {longest.text}")


def main(arguments: list[str]) -> None:
    """Compare the findings with the allowances, or print what was asked for."""
    rules = read_rules()
    options = {one for one in arguments if one.startswith("--")}
    paths = [Path(one) for one in arguments if one not in options]
    if "--lengths" in options:
        for path in paths:
            show_lengths(path, rules)
        return
    for path in paths:
        print(
            *(f"{path}:{one.line}: {one.rule}: {one.sentence}" for one in check(path, rules)),
            sep="\n",
        )
    if not paths:
        gate(rules, lowering="--lower" in options)


def gate(rules: Rules, *, lowering: bool) -> None:
    """Print the findings of the files that have too many, and end with 1 if there are any."""
    found = {name: check(ROOT / name, rules) for name in tracked(ROOT, rules.files)}
    counts = Counter({name: len(findings) for name, findings in found.items()})
    if lowering:
        RULES.write_text(lower(RULES.read_text(encoding="utf-8"), counts), encoding="utf-8")
        rules = read_rules()
    above = [name for name in found if counts[name] > rules.allowed.get(name, 0)]
    for name in above:
        print(*(f"{name}:{one.line}: {one.rule}: {one.sentence}" for one in found[name]), sep="\n")
    print(f"{counts.total()} findings in {len(found)} files, {sum(rules.allowed.values())} allowed")
    if above:
        listed = ", ".join(
            f"{name} ({counts[name]} of {rules.allowed.get(name, 0)})" for name in above
        )
        sys.exit(f"more findings than .ci/prose.toml allows: {listed}; reword the new sentences")


if __name__ == "__main__":
    main(sys.argv[1:])
