"""The file of clients: what it says, and what is refused."""

import pytest

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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '[clients]\nnorth = ["a", "b"]\nsouth = []\n',
            "client 'south' has no provider",
            id="a client without a provider",
        ),
        pytest.param(
            '[clients]\nnorth = ["a"]\n',
            "provider 'b' has no client",
            id="a provider without a client",
        ),
        pytest.param(
            '[clients]\nnorth = ["a", "b"]\nsouth = ["a"]\n',
            "provider 'a' is named 2 times",
            id="a provider of two clients",
        ),
        pytest.param(
            '[clients]\nnorth = ["a", "b", "a"]\n',
            "provider 'a' is named 2 times",
            id="a provider twice in one client",
        ),
        pytest.param(
            '[clients]\nnorth = ["a", "b", "x"]\n',
            "provider 'x' has no document that is trained on",
            id="a provider without documents",
        ),
        pytest.param(
            '[clients]\nnorth = "a"\n',
            "clients.north: Input should be a valid list",
            id="a text for a list",
        ),
        pytest.param(
            "[clients]\n", "clients: Dictionary should have at least 1 item", id="no clients"
        ),
        pytest.param('north = ["a"]\n', "clients: Field required", id="clients at the top"),
        pytest.param("not toml", "not TOML", id="not TOML"),
    ],
)
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
