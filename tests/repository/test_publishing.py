"""What a package index shows: addresses, links that work there, one name for the owner, and no foreign modules."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from scripts import load

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = "https://github.com/OWNER/docaudit"
readme = load(ROOT / ".ci" / "readme.py")


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[page](docs/a.md#part)", f"[page]({ADDRESS}/blob/HEAD/docs/a.md#part)"),
        ("![picture](docs/a.png)", f"![picture]({ADDRESS}/raw/HEAD/docs/a.png)"),
        (
            "[![CI](../../actions/ci/badge.svg)](../../actions/ci)",
            f"[![CI]({ADDRESS}/actions/ci/badge.svg)]({ADDRESS}/actions/ci)",
        ),
        ('<img src="a.svg" alt="a">', f'<img src="{ADDRESS}/raw/HEAD/a.svg" alt="a">'),
        ('<a href="a.pdf">', f'<a href="{ADDRESS}/blob/HEAD/a.pdf">'),
        ("[site](https://example.com/a)", "[site](https://example.com/a)"),
        ("[part](#part)", "[part](#part)"),
    ],
)
def test_a_relative_link_leads_to_the_repository(link, shown):
    assert readme.make_absolute(link, ADDRESS) == shown


def test_no_link_of_the_published_readme_is_relative():
    text = readme.make_absolute((ROOT / "README.md").read_text(encoding="utf-8"), ADDRESS)
    assert len(re.findall(r'(?:\]\(|src="|href=")https://', text)) > 20
    assert re.findall(r'(?:\]\(|src="|href=")(?!https://).*', text) == []


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a work tree of git")
def test_the_owner_is_named_in_one_file():
    repository = PROJECT["urls"]["Repository"]
    for address in PROJECT["urls"].values():
        assert address.startswith(repository)
    naming = subprocess.run(
        ["git", "grep", "--cached", "--name-only", "--fixed-strings", repository],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # This test states what the published links look like.
    assert naming.stdout.split() == ["pyproject.toml", f"tests/repository/{Path(__file__).name}"]


def test_a_citation_names_the_authors_and_the_licence_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["authors"] == PROJECT["authors"]
    assert citation["title"] == PROJECT["name"]
    assert PROJECT["license"].startswith(citation["license"])
