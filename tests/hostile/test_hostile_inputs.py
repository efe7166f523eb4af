"""Every way in, edited at random: exit codes of the table, no traceback, nothing half written, bounded time and memory.

100 cases, always the same; `DOCAUDIT_FUZZ_CASES=10000 pytest tests/hostile --hypothesis-seed=SEED`
draws others.
"""

import os
import sys

import pytest
from hostile_surfaces import SURFACES, Surface, attempt, fresh
from hypothesis import HealthCheck, Phase, given, settings

CASES = int(os.environ.get("DOCAUDIT_FUZZ_CASES", "100"))
USUAL = CASES <= 250

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and pidfd are Linux's"),
]


def cases_of(surface: Surface) -> int:
    return -(-CASES * surface.share // sum(one.share for one in SURFACES))


@pytest.mark.parametrize("surface", SURFACES, ids=lambda one: one.name)
def test_what_somebody_else_has_made_is_read_or_refused(surface, server, tmp_path):
    folder = surface.folder(tmp_path)
    # What is imported now is not imported in every case again.
    for arguments in surface.commands:
        server.run(folder, arguments, fresh(tmp_path / "scratch"), warm=True, drawn=surface.drawn)

    @settings(
        max_examples=cases_of(surface),
        derandomize=USUAL,
        database=None,
        deadline=None,
        print_blob=True,
        # To make a failure smaller and to explain it takes longer than all cases do; the printed
        # one can be replayed.
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(surface.cases())
    def holds(case):
        assert attempt(server, surface, tmp_path, case) == []

    holds()
    print(f"{surface.name}: {cases_of(surface)} cases")
