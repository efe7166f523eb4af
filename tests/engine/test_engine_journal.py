"""The journal: what was kept is there again, a killed scan loses at most its last line, and a lock is a lock."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.engine.journal import Journal, exclusive
from audit.errors import EngineError

OUTCOMES: dict[str, Any] = {
    "d1/e1": {"truth": [1, 2], "reached": True},
    "d2/é\n\r\u2028": [0.1, None, "\U0001f600 \x85"],
    "": 3,
}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def filled(path: Path) -> Journal:
    journal = Journal(path)
    for trial, outcome in OUTCOMES.items():
        journal.append(trial, outcome)
    return journal


def test_what_was_appended_is_read_again(path):
    assert filled(path).outcomes == OUTCOMES
    assert Journal(path).outcomes == OUTCOMES
    assert list(Journal(path).outcomes) == list(OUTCOMES)


@given(st.lists(st.tuples(st.text(max_size=4), json_values), max_size=6))
def test_any_outcome_survives(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    journal = Journal(path)
    for trial, outcome in entries:
        journal.append(trial, outcome)
    first = dict(reversed(entries))
    assert journal.outcomes == Journal(path).outcomes == first


def test_a_resumed_scan_sees_what_an_uninterrupted_one_does(path):
    journal = Journal(path)
    journal.append("a", {"tokens": (1, 2), 3: "key"})
    assert journal.outcomes == Journal(path).outcomes == {"a": {"tokens": [1, 2], "3": "key"}}


def test_nothing_is_written_before_there_is_an_outcome(path):
    assert Journal(path).outcomes == {}
    assert not path.exists()


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_cut_off_and_the_trial_run_again(path, cut):
    journal = Journal(path)
    journal.append("a", 1)
    size = path.stat().st_size
    journal.append("b", "x" * 30)
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - cut)
    again = Journal(path)
    assert again.outcomes == {"a": 1}
    assert path.stat().st_size == size
    again.append("b", 2)
    assert Journal(path).outcomes == {"a": 1, "b": 2}


def test_an_id_that_is_known_is_ignored(path):
    journal = Journal(path)
    journal.append("a", 1)
    size = path.stat().st_size
    journal.append("a", 2)
    assert path.stat().st_size == size
    other = path.with_name("other.jsonl")
    Journal(other).append("a", 2)
    path.write_bytes(path.read_bytes() + other.read_bytes())
    assert Journal(path).outcomes == {"a": 1}


@pytest.mark.parametrize(
    "edited", ["null", "{}", "[]", '"d1"', "0", '{"truth": [1, 3], "reached": true}']
)
def test_an_outcome_that_is_not_what_was_written_is_tried_again(path, edited):
    filled(path)
    lines = path.read_text().split("\n")
    lines[0] = lines[0].replace('{"truth": [1, 2], "reached": true}', edited)
    path.write_text("\n".join(lines))
    journal = Journal(path)
    assert list(journal.outcomes) == [trial for trial in OUTCOMES if trial != "d1/e1"]
    journal.append("d1/e1", OUTCOMES["d1/e1"])
    assert Journal(path).outcomes == OUTCOMES


def test_an_outcome_without_a_check_sum_or_under_another_id_is_tried_again(path):
    filled(path)
    first, second, *_ = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    path.write_text(
        json.dumps({**first, "id": "other"}) + "\n" + json.dumps({**second, "check": None}) + "\n"
    )
    assert Journal(path).outcomes == {}


def test_a_journal_under_another_name_is_another_models_and_every_trial_is_tried_again(path):
    filled(path)
    renamed = path.rename(path.with_name("journal-membership-0123456789abcdef.jsonl"))
    assert Journal(renamed).outcomes == {}
    copy = path.parent / "copy" / path.name
    copy.parent.mkdir()
    renamed.replace(copy)
    assert Journal(copy).outcomes == OUTCOMES


@pytest.mark.parametrize(
    "damaged",
    [
        b"\x00" * 20,
        b"{",
        b"[]",
        b"3",
        b'{"id": "a"}',
        b'{"outcome": 1}',
        b'{"id": [1], "outcome": 1}',
        b"\xff",
    ],
)
def test_a_damaged_line_in_the_middle_is_an_error_with_its_place(path, damaged):
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], damaged + b"\n", *lines[1:]]))
    before = path.read_bytes()
    with pytest.raises(EngineError, match=r"journal\.jsonl:2: damaged journal") as raised:
        Journal(path)
    assert "--fresh" in raised.value.hint
    assert raised.value.exit_code == 1
    assert path.read_bytes() == before


def test_fresh_starts_anew(path):
    filled(path)
    assert Journal(path, fresh=True).outcomes == {}
    path.write_text("not a journal\n")
    assert Journal(path, fresh=True).outcomes == {}


def test_each_outcome_is_a_whole_line_of_the_file_before_append_returns(path):
    journal = Journal(path)
    for number, (trial, outcome) in enumerate(OUTCOMES.items(), start=1):
        journal.append(trial, outcome)
        lines = path.read_text().split("\n")  # what `kill -9` leaves
        assert lines[-1] == ""
        assert len(lines) == number + 1
        assert {"id": trial, "outcome": outcome}.items() <= json.loads(lines[-2]).items()


def test_outcomes_go_to_the_disk_together_once_a_second_and_when_asked(path, monkeypatch):
    synced: list[int] = []
    clock = [1000.0]
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(path.read_text().count("\n")))
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    journal = Journal(path)
    journal.sync()
    assert not path.exists()  # nothing to keep
    for number in range(30):
        journal.append(f"t{number}", number)
        clock[0] += 0.125
    assert synced == [1, 9, 17, 25]
    journal.sync()
    assert synced == [1, 9, 17, 25, 30]
    assert len(Journal(path).outcomes) == 30


def test_a_full_disk_is_an_error_and_the_outcome_not_known(path, monkeypatch):
    journal = filled(path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EngineError, match="No space left on device"):
        journal.sync()
    monkeypatch.setattr("audit.engine.journal.SYNC_SECONDS", 0.0)
    with pytest.raises(EngineError, match="No space left on device") as raised:
        journal.append("new", 1)
    assert "free some space" in raised.value.hint
    assert "new" not in journal.outcomes


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_device_is_an_error():
    journal = Journal.__new__(Journal)
    journal.path = Path("/dev/full")
    journal.outcomes = {}
    with pytest.raises(EngineError, match="No space left on device"):
        journal.append("a", 1)
    assert journal.outcomes == {}


def test_a_file_that_cannot_be_read_or_written_is_an_error(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(EngineError, match="folder"):
        Journal(tmp_path / "folder")
    with pytest.raises(EngineError, match="No such file"):
        Journal(tmp_path / "missing" / "j.jsonl").append("a", 1)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_lacks_is_refused(path, number):
    journal = Journal(path)
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append("a", {"loss": [number]})
    assert not path.exists()
    assert journal.outcomes == {}


def test_a_folder_has_one_holder_at_a_time(tmp_path):
    with (
        exclusive(tmp_path),
        pytest.raises(EngineError, match="another scan is writing here"),
        exclusive(tmp_path),
    ):
        pytest.fail("held twice")
    with exclusive(tmp_path):
        pass


def test_another_process_is_refused_until_the_holder_is_gone(tmp_path):
    program = (
        "import pathlib, sys\n"
        "from audit.engine.journal import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(EngineError, match="another scan"), exclusive(tmp_path):
            pytest.fail("held twice")
    finally:
        holder.kill()  # the lock must not outlive its holder
        holder.communicate()
    with exclusive(tmp_path):
        pass


def test_an_error_inside_goes_through_and_frees_the_folder(tmp_path):
    with pytest.raises(KeyError), exclusive(tmp_path):
        raise KeyError("x")
    with exclusive(tmp_path):
        pass
