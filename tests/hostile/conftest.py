"""The server of commands that hostile inputs are run on."""

from collections.abc import Iterator

import pytest
from hostile_server import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A process with docaudit imported, which forks one for each command."""
    with Server() as running:
        yield running
