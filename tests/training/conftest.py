"""What many tests of training begin with."""

import asked_pages
import pytest


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return asked_pages.donut(tmp_path_factory.mktemp("start") / "donut")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return asked_pages.corpus(tmp_path_factory.mktemp("pages") / "data")
