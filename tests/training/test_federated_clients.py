"""The file of clients: what it says, and what is refused."""

import pytest
from case_tables import table

from audit.corpus.folding import fold
from audit.errors import UsageError
from audit.extensions.private.train import read_clients


def written(tmp_path, text):
    path = tmp_path / "clients.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_file_says_which_client_holds_which_providers(tmp_path):
    clients = read_clients(
        written(tmp_path, '[clients]\nnorth = ["b", "a"]\nsouth = ["c"]\n'), ["a", "b", "c"]
    )
    assert [*clients.items()] == [("north", ("b", "a")), ("south", ("c",))]


def test_names_of_providers_are_folded_as_those_of_units_are(tmp_path):
    path = written(tmp_path, '[clients]\nnorth = ["ACME  Ltd", "b"]\n')
    assert read_clients(path, [fold("Acme Ltd"), "b"])["north"] == (fold("acme ltd"), "b")


@table("text, problem")
def test_a_file_that_cannot_be_meant_is_refused(tmp_path, text, problem):
    with pytest.raises(UsageError, match=problem) as raised:
        read_clients(written(tmp_path, text), ["a", "b"])
    assert raised.value.exit_code == 2
    assert raised.value.hint


def test_everything_wrong_is_said_at_once(tmp_path):
    path = written(tmp_path, '[clients]\nnorth = ["a", "a"]\nsouth = []\neast = ["x"]\n')
    with pytest.raises(UsageError) as raised:
        read_clients(path, ["a", "b"])
    assert len(raised.value.problems) == 4


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_clients(tmp_path / "none.toml", ["a"])
