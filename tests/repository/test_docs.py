"""README and docs/: generated pages are complete, links lead somewhere, commands are ones that docaudit knows."""

import hashlib
import json
import os
import re
import runpy
import shlex
import tomllib
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pypdfium2
import pytest
import typer
import yaml
from PIL import Image
from pydantic import TypeAdapter
from pypdf import PdfReader
from typer.testing import CliRunner

from audit import attacks
from audit.cli import app
from audit.corpus.documents import Document, Manifest
from audit.report.html import GENERAL, MANUAL
from audit.workflows.init import FIRST_COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
GENERATOR = runpy.run_path(str(DOCS / "generate.py"))
GENERATED = GENERATOR["pages"]() | {"gallery/index.md": ""}
GUIDES = sorted((DOCS / "guides").glob("*.md"))
PAGES = sorted({*DOCS.rglob("*.md"), *(DOCS / name for name in GENERATED)})
TEXTS = [
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "README.md",
    *PAGES,
]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'(?<!\\)\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"')


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def read(path):
    """The text of a page as the generator writes it, or as it is committed."""
    generated = (
        GENERATED.get(path.relative_to(DOCS).as_posix()) if path.is_relative_to(DOCS) else None
    )
    return path.read_text(encoding="utf-8") if generated is None else generated


def prose(path):
    """The text of a page without its fenced blocks and its comments."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", read(path)), flags=re.DOTALL)


def headings(path):
    found = re.findall(r"^#{1,6} (.+)$", prose(path), re.MULTILINE)
    return [
        re.sub(r"[`*]|\[([^\]]+)\]\([^)]*\)", lambda match: match.group(1) or "", text)
        for text in found
    ]


def github_slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def blocks(path, *languages):
    return [body for language, body in FENCE.findall(read(path)) if language in languages]


def commands(path):
    """The command lines of a page's `sh` and `console` blocks, as words.

    Of `console` those after a prompt.
    """
    lines = [
        line for block in blocks(path, "sh") for line in block.replace("\\\n", " ").splitlines()
    ]
    shown = [
        line
        for block in blocks(path, "console")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    lines += [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    return [shlex.split(part, comments=True) for line in lines for part in line.split(" && ")]


def docaudit_commands(path):
    return [words[1:] for words in commands(path) if words[:1] == ["docaudit"]]


def split_call(words):
    """The command that these words call, its names, and the words behind them."""
    command = typer.main.get_command(app)
    names = []
    while hasattr(command, "commands"):
        name, *words = words
        names.append(name)
        command = command.commands[name]
    return command, names, words


def parsed(words):
    """The command that these words call; raises what Typer raises for one that does not exist."""
    command, names, words = split_call(words)
    command.make_context(names[-1], words)
    return command


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_every_relative_link_and_its_anchor_exist(path):
    for link in (first or second for first, second in LINK.findall(prose(path))):
        # "../../actions" leads from the page of a file to another page of its repository.
        if re.match(r"[a-z]+:|\.\./\.\./actions/", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        # A page that the site builds links others; a committed page leads on in a clone too.
        if path.exists() or target not in PAGES:
            assert target.exists(), link
        if anchor:
            assert anchor in [github_slug(heading) for heading in headings(target)], link


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_commands_are_ones_that_docaudit_knows(path):
    with pytest.raises((KeyError, typer.TyperException)):
        parsed(["scan", "a", "b", "--polici", "x"])
    for words in docaudit_commands(path):
        assert parsed(words).callback is not None
        assert all((ROOT / word).exists() for word in words if word.startswith("sample_models/")), (
            words
        )


@pytest.mark.parametrize("path", [README, DOCS / "tutorial.md", *GUIDES], ids=name_of)
def test_the_short_help_of_a_command_has_each_option_that_a_reader_is_led_to(path):
    for call in docaudit_commands(path):
        _, names, words = split_call(call)
        short = CliRunner().invoke(app, [*names, "--help"]).output
        for word in words:
            option = word.partition("=")[0]
            assert not option.startswith("--") or f"{option} " in short, call


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_toml_and_json_can_be_read(path):
    for block in blocks(path, "toml"):
        tomllib.loads(block)
    for line in (line for block in blocks(path, "json") for line in block.splitlines()):
        json.loads(line)


@pytest.mark.parametrize("start", [README, DOCS / "index.md"], ids=name_of)
def test_the_first_pages_link_every_guide(start):
    linked = {(start.parent / first).resolve() for first, _ in LINK.findall(prose(start))}
    assert len(GUIDES) == 6
    assert {*GUIDES} <= linked


SECTIONS = (
    *("Your files", "Prompt", "References", "Commands"),
    *("The screen", "Typical mistakes", "Next"),
)
WITHOUT_PROMPT = ("tagger", "redacted-documents")


@pytest.mark.parametrize("path", GUIDES, ids=name_of)
def test_a_guide_leads_from_files_over_at_most_four_commands_to_a_verdict(path):
    _, *sections = headings(path)
    expected = [*SECTIONS]
    if path.stem in WITHOUT_PROMPT:
        expected.remove("Prompt")
    assert sections == expected
    assert 2 <= len(docaudit_commands(path)) <= 4


def names_after_init(path):
    """The commands of the block that shows `docaudit init`, behind it."""
    for block in blocks(path, "sh"):
        names = re.findall(r"^docaudit (\w+)", block, re.MULTILINE)
        if "init" in names:
            return names[names.index("init") + 1 :]
    return []


WITH_INIT = [README, DOCS / "first-audit.md", *GUIDES]
WITH_INIT.remove(DOCS / "guides" / "redacted-documents.md")


@pytest.mark.parametrize("path", WITH_INIT, ids=name_of)
def test_pages_show_the_first_commands_in_the_order_that_init_prints(path):
    assert tuple(names_after_init(path)) == FIRST_COMMANDS


def test_the_manifest_that_is_shown_is_a_valid_one():
    page = DOCS / "data-format.md"
    manifest = TypeAdapter(Manifest).validate_python(tomllib.loads(blocks(page, "toml")[0]))
    document = TypeAdapter(Document).validate_json(blocks(page, "json")[0])
    assert {entity.label for entity in document.entities} <= {
        label.removeprefix("B-") for label in manifest.task.labels
    }


def test_readme_is_short_and_its_first_two_commands_run_every_night():
    text = read(README)
    night = (ROOT / ".github/workflows/night.yml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    first, second = blocks(README, "sh")[0].splitlines()
    assert f"run: {first} || [ $? -eq 10 ]\n" in night
    assert f"run: {second}\n" in night


def numbers(text):
    """The numbers of page one in their order, without its date, its number and hashes."""
    text = re.sub(r"\bDA-\S+|\d+ [A-Za-z]+ 20\d\d|Fingerprints[^.]*", "", text)
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def shares_of(report):
    """What a scan took of each attack's trials, as the record in its report says."""
    record = json.loads(PdfReader(report).attachments["record.json"][0])
    return record["share"], record.get("shares", {})


def test_the_pictures_and_readme_show_the_numbers_of_the_samples_report():
    """Other processors round other last bits, which may move a count by one.

    Slow ones have time for fewer trials.
    """
    report = DOCS / "pictures" / "sample-report.pdf"
    drawn_from = Image.open(report.with_name("page-one.png")).text["drawn-from"]
    assert drawn_from == hashlib.sha256(report.read_bytes()).hexdigest(), (
        "run `python docs/draw.py SCAN`"
    )
    scans = Path(os.environ.get("DOCAUDIT_SAMPLE_SCANS", "/nonexistent"))
    now = (
        [scans / "receipts-model" / "report.pdf"] if scans.is_dir() else []
    )  # what the gate has scanned
    now = [pdf for pdf in now if shares_of(pdf) == shares_of(report)]
    shown, *found = (
        numbers(pypdfium2.PdfDocument(pdf)[0].get_textpage().get_text_range())
        for pdf in [report, *now]
    )
    assert all(shown == pytest.approx(one, rel=0.03, abs=1) for one in found), (
        "run `python docs/draw.py SCAN`"
    )
    assert {
        *numbers(re.search(r"^- An attacker.*?^$", read(README), re.MULTILINE | re.DOTALL)[0])
    } <= {*shown}


CITED = re.compile(r"\bmethods(?:\.md|/[\w-]+\.md)(?:#([\w-]+\w))?")
SEARCHED = (".json", ".py", ".toml")


def citations():
    """The citations of methods in the code: file, page and section ("" for a whole page)."""
    for folder in ("audit", "benchmarks", "docs", "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in SEARCHED or path == Path(__file__):
                continue
            for match in CITED.finditer(path.read_text(encoding="utf-8")):
                page = match[0].partition("#")[0]
                yield path, page, match[1] or ""


def test_every_section_that_the_code_cites_exists():
    cited = list(citations())
    assert len(cited) > 100
    for path, page, section in cited:
        assert (DOCS / page).is_file(), f"{path}: {page}"
        slugs = [github_slug(heading) for heading in headings(DOCS / page)]
        assert section in ["", *slugs], f"{path}: {page}#{section}"


FIRST_WORDS = (
    *("reference", "public", "baseline", "blind check", "excess", "stage", "power", "auc"),
    *("held-out", "unseen", "canary", "provider"),
    *("exceeded", "undecided", "met", "not tested"),
)


def test_the_glossary_is_made_of_one_source_and_has_the_words_that_a_reader_meets_first():
    of_attacks = chain.from_iterable(text.glossary for text in attacks.TEXTS.values())
    of_reports = {name.lower() for name in chain(GENERAL, of_attacks)}
    assert of_reports.isdisjoint(name.lower() for name in MANUAL)
    terms = " ".join(headings(DOCS / "glossary.md")).lower()
    assert [word for word in FIRST_WORDS if word not in terms] == []


def test_the_site_links_the_page_that_it_builds_from_a_file_of_the_repository(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(DOCS))
    link = runpy.run_path(str(DOCS / "build.py"))["site_link"]
    glossary = "../audit/report/glossary.toml"
    assert link("reading-the-report.md", glossary) == "glossary.md"
    assert link("methods/index.md", f"../{glossary}") == "../glossary.md"
    assert link("reading-the-report.md", "../audit/attacks") == "reference/metrics.md"
    assert link("reading-the-report.md", "trust.md") == "trust.md"
    assert link("policies.md", "../policies/default.toml") == "policies/default.toml"
    assert link("policies.md", "https://example.org/") == "https://example.org/"


@pytest.mark.parametrize("source", GENERATOR["SOURCES"])
def test_each_page_that_the_site_builds_has_its_source_in_the_repository(source):
    assert (ROOT / source).exists()
    assert GENERATOR["SOURCES"][source] in GENERATOR["pages"]()


def test_the_search_ranks_guides_over_reference_pages_and_benchmarks_last(monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(str(DOCS))
    build = runpy.run_path(str(DOCS / "build.py"))
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]

    def rank(*sections):
        ancestors = [SimpleNamespace(title=title) for title in sections]
        return build["boost"](SimpleNamespace(ancestors=ancestors))

    assert [next(iter(tab)) for tab in nav] == list(build["BOOSTS"])
    assert rank("How-to") > rank("Reference") > rank("Contribute") > rank()
