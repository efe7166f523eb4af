"""The audit sheet: what an owner states about an audit, which is no part of the data."""

import hashlib
from pathlib import Path

import pytest
import tiny

from audit.cards import AuditSheet
from audit.corpus import manifest as manifests
from audit.corpus.validation import EMPTY_SHEET
from audit.errors import ManifestError

SHEET = """
[audit]
system = "Invoice intake"
data_categories = [
  "names",
  "bank details",
]
release = "api"
"""
LONG = f"purpose = '{'x' * 301}'"
MANY = f"data_categories = {['x'] * 31}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tiny.corpus(tmp_path / "data", images=False)


def write(data: Path, text: str) -> None:
    (data / manifests.FILE_NAME).write_text(text)


def test_the_sheet_is_read_from_the_manifest(data: Path) -> None:
    write(data, (data / manifests.FILE_NAME).read_text() + SHEET)
    sheet = manifests.load(data).manifest.audit
    assert sheet == AuditSheet(
        system="Invoice intake", data_categories=("names", "bank details"), release="api"
    )


def test_no_edit_of_the_sheet_changes_the_data_set(data: Path) -> None:
    plain = (data / manifests.FILE_NAME).read_text()
    before = manifests.load(data).sha256
    head, separator, tail = plain.partition("[task]")
    assert separator
    uncommented = EMPTY_SHEET.replace("# ", "", 1).replace("# system", "system")
    for text in (
        plain + SHEET,
        plain + SHEET.replace("intake", "archive"),
        plain + SHEET + "\n# to be completed\n",
        plain + "\n[audit]\n",
        plain + EMPTY_SHEET,
        plain + uncommented,
        head.rstrip() + "\n" + SHEET + "\n[task]" + tail,
    ):
        write(data, text)
        assert manifests.load(data).sha256 == before, text
    assert manifests.load(data).manifest.audit != AuditSheet()


def test_everything_else_in_the_manifest_still_does(data: Path) -> None:
    plain = (data / manifests.FILE_NAME).read_text()
    write(data, plain + SHEET)
    before = manifests.load(data).sha256
    for text in (
        (plain + SHEET).replace('name = "', 'name = "another-'),
        plain + SHEET + "\n[recipe]\nepochs = 3\n",
        "# a comment\n" + plain + SHEET,
    ):
        write(data, text)
        assert manifests.load(data).sha256 != before, text


def test_a_manifest_without_a_sheet_keeps_the_hash_it_always_had(data: Path) -> None:
    digests = [
        hashlib.sha256((data / name).read_bytes()).digest()
        for name in (manifests.FILE_NAME, "documents.jsonl")
    ]
    assert manifests.load(data).sha256 == hashlib.sha256(b"".join(digests)).hexdigest()


def test_no_text_of_the_manifest_hides_as_a_sheet(data: Path) -> None:
    plain = (data / manifests.FILE_NAME).read_text()
    hashes = set()
    for said in ("this", "that"):
        write(data, f'{plain}\n[recipe]\nsystem = """\n[audit]\n{said}\n"""\n')
        hashes.add(manifests.load(data).sha256)
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param("systm = 'x'", "manifest.toml audit systm: unknown key", id="a misspelt key"),
        pytest.param(
            "system = 3",
            "manifest.toml audit system: Input should be a valid string",
            id="a number for a text",
        ),
        pytest.param("system = ' '", "manifest.toml audit system: empty", id="a blank"),
        pytest.param(
            'system = "a\\u001b[2Jb"',
            "manifest.toml audit system: holds a control character or half a surrogate pair",
            id="an escape sequence",
        ),
        pytest.param(
            LONG, "manifest.toml audit purpose: longer than 160 characters", id="too long"
        ),
        pytest.param(
            "data_categories = 'names'",
            "manifest.toml audit data_categories: Input should be a valid tuple",
            id="a text for a list",
        ),
        pytest.param(MANY, "manifest.toml audit data_categories: more than 30", id="too many"),
        pytest.param(
            "data_categories = ['']",
            "manifest.toml audit data_categories: empty",
            id="an empty item",
        ),
        pytest.param(
            "release = 'public'",
            "manifest.toml audit release: Input should be 'open-weights', 'api' or 'internal'",
            id="no such release",
        ),
    ],
)
def test_a_sheet_that_page_one_cannot_show_is_refused(data: Path, line: str, problem: str) -> None:
    write(data, f"{(data / manifests.FILE_NAME).read_text()}\n[audit]\n{line}\n")
    with pytest.raises(ManifestError) as raised:
        manifests.load(data)
    assert raised.value.problems == (problem,)


@pytest.mark.parametrize("hidden", ["\u200b", "\u202e", "\u2028", "\u2066", "\u2800", "\u3164"])
def test_an_entry_that_hides_a_character_or_turns_the_text_is_refused(
    data: Path, hidden: str
) -> None:
    write(
        data,
        f'{(data / manifests.FILE_NAME).read_text()}\n[audit]\nsystem = "Invoice {hidden}intake"\n',
    )
    with pytest.raises(ManifestError, match="system: holds a character that cannot be seen"):
        manifests.load(data)
