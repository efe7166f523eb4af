"""Flower: real SuperLink and SuperNodes on this machine end where the same parties in one process do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from toy_federation import SHAPES, Seeded, client, weights

from audit.training.dp.federated import Federation, RoundSettings, run_federated, seeded_sources

pytest.importorskip(
    "flwr", reason="flwr is not installed: it needs an environment of its own (docs/federated.md#flower)"
)

ROOT = Path(__file__).parents[2]
GROUPS = {"north": (1, 2, 3), "south": (4, 5)}
SETTINGS = RoundSettings(0.7, 0.6, 0.8, 1.5, n_units=5, n_clients=2)
ROUNDS = 4

PROJECT = """
[project]
name = "toy-federation"
version = "1.0.0"
description = "A toy"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "docaudit"

[tool.flwr.app.components]
serverapp = "toy_app:server"
clientapp = "toy_app:client"

[tool.flwr.app.config]
out = ""
"""

APP = """
import json
from pathlib import Path

import torch
from test_flower import GROUPS, ROUNDS, SETTINGS
from toy_federation import Seeded, client as toy_client, weights

from audit.training.dp.federated import seeded_sources
from audit.training.dp.federated.flower.client import Party, client_app
from audit.training.dp.federated.flower.server import Job, server_app

SOURCES = seeded_sources(Seeded, 3)


def open_party(node, run):
    name, parameters = node["client"], weights()
    party = toy_client(name, GROUPS[name], parameters)
    return Party(party, SETTINGS, ROUNDS, parameters, lambda round: SOURCES(name, round))


def open_job(run):
    parameters, out = weights(), Path(run["out"])

    def apply(change):
        for name, value in change.items():
            parameters[name] += value

    def finish(transcript):
        seen = [[m.round, m.client, m.kind, m.shapes] for m in transcript.messages]
        (out / "transcript.json").write_text(json.dumps(seen))
        torch.save(parameters, out / "weights.pt")

    return Job(tuple(GROUPS), SETTINGS, ROUNDS, parameters, apply, lambda round: SOURCES("", round), finish, 60.0)


client = client_app(open_party)
server = server_app(open_job)
"""


def in_process():
    parameters = weights()

    def apply(change):
        for name, value in change.items():
            parameters[name] += value

    clients = [client(name, seeds, parameters) for name, seeds in GROUPS.items()]
    transcript = run_federated(Federation(clients, SETTINGS, parameters, seeded_sources(Seeded, 3)), ROUNDS, apply)
    return parameters, transcript


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running(command, log, environment):
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for_port(port, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise TimeoutError(port)


@pytest.mark.slow
def test_flower_ends_where_one_process_does(tmp_path):
    app, home = tmp_path / "app", tmp_path / "home"
    app.mkdir()
    home.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "toy_app.py").write_text(APP)
    link, *runtime = free_ports(3)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{link}"\ninsecure = true\n'
    )
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "fakes", ROOT / "tests" / "training")))
    environment = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PYTHONPATH": paths,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    bound = ["--insecure", "--host", "127.0.0.1"]
    with contextlib.ExitStack() as parties:
        serving = ["flower-superlink", *bound, "--port", str(link), "--disable-runtime-dependency-installation"]
        parties.enter_context(running(serving, tmp_path / "link.log", environment))
        wait_for_port(link)
        for name, port in zip(GROUPS, runtime, strict=True):
            node = ["flower-supernode", *bound, "--superlink", f"127.0.0.1:{link}", "--port", str(port)]
            node += ["--node-config", f'client="{name}"']
            parties.enter_context(running(node, tmp_path / f"{name}.log", environment))
        submitted = ["flwr", "run", str(app), "here", "--run-config", f'out="{tmp_path}"', "--stream"]
        subprocess.run(submitted, env=environment, timeout=180, check=True, capture_output=True)
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
    assert (tmp_path / "weights.pt").exists(), logs[-5000:]
    expected, transcript = in_process()
    senders = [[m.client for m in transcript.messages if m.round == round] for round in range(ROUNDS)]
    assert {len(names) for names in senders} == {0, 1, 2}
    found = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert all(torch.equal(found[name], expected[name]) for name in SHAPES)
    seen = json.loads((tmp_path / "transcript.json").read_text())
    updates = [[m.round, m.client, m.kind] for m in transcript.messages]
    assert sorted(row[:3] for row in seen if row[2] == "masked update") == sorted(updates)
    assert {row[2] for row in seen} <= {"masked update", "public key"}


def test_two_clients_derive_the_same_secret_and_a_new_one_every_round():
    from audit.training.dp.federated.flower.keys import agreed_secrets, new_key

    names = ("north", "south", "east")
    private, public = {}, {}
    for name in names:
        private[name], public[name] = new_key()
    first, second = ({name: agreed_secrets(name, private[name], public, round) for name in names} for round in (0, 1))
    assert all(first[a][b] == first[b][a] for a in names for b in names if a != b)
    secrets = [secret for secrets in (first, second) for row in secrets.values() for secret in row.values()]
    assert len(set(secrets)) == 6
    assert {len(secret) for secret in secrets} == {32}


def test_a_server_that_passes_on_another_key_for_a_client_is_noticed_by_it():
    from audit.training.dp.federated.flower.keys import agreed_secrets, new_key

    private, _ = new_key()
    _, swapped = new_key()
    with pytest.raises(ValueError, match="another public key"):
        agreed_secrets("north", private, {"north": swapped, "south": swapped}, 0)
