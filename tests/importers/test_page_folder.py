"""Files beside plain pages: `init` names each that it does not use, and asks what it is."""

from pathlib import Path

import pytest
from commands import docaudit
from hostile_sources import write_files

PAGES = {"p$n.png": "200x400"}
INIT = ("init", "src", "--task", "mlm", "--yes")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("labels.json", '{"p0": "x"}', id="JSON of no page"),
        pytest.param("rows.jsonl", '{"a": 1}\n', id="JSON lines"),
        pytest.param("values.csv", "a,b\n1,2\n", id="a table"),
        pytest.param("p0.txt", "1 2 Total\n", id="a text of an image's name"),
    ],
)
def test_what_may_describe_pages_is_never_ignored(
    name: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files({**PAGES, name: content}, tmp_path / "src")
    monkeypatch.chdir(tmp_path)
    refused = docaudit(*INIT, terminal_width=1000)
    assert refused.exit_code == 2
    assert f"plain pages alone, which do not use {name}" in refused.output
    taken = docaudit(*INIT, "--format", "pages", terminal_width=1000)
    assert taken.exit_code == 0, taken.output
    assert f"Not used, as no page's words or keys: {name}" in taken.output


def test_words_beside_a_page_and_the_list_of_members_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**PAGES, "p0.json": "[]", "members.csv": "id\np0\n"}
    write_files(files, tmp_path / "src")
    monkeypatch.chdir(tmp_path)
    result = docaudit(*INIT, "--members", "src/members.csv", terminal_width=1000)
    assert result.exit_code == 0, result.output
    assert "Not used" not in result.output
