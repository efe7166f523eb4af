"""Flower: real SuperLink and SuperNodes on this machine end where the same parties in one process do."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file
from toy_federation import SHAPES, Seeded, client, weights

from audit.corpus.manifest import load, write
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


def run_flower(folder, app, nodes, config):
    """Run an app with a SuperLink and a SuperNode for each of `nodes` (its configuration); gives their logs."""
    home, logs = folder / "home", folder / "logs"
    home.mkdir()
    logs.mkdir()
    link, *runtime = free_ports(1 + len(nodes))
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
        parties.enter_context(running(serving, logs / "link", environment))
        wait_for_port(link)
        for index, (settings, port) in enumerate(zip(nodes, runtime, strict=True)):
            node = ["flower-supernode", *bound, "--superlink", f"127.0.0.1:{link}", "--port", str(port)]
            parties.enter_context(running([*node, "--node-config", toml(settings)], logs / str(index), environment))
        submitted = ["flwr", "run", str(app), "here", "--run-config", toml(config), "--stream"]
        done = subprocess.run(submitted, env=environment, timeout=600, check=True, capture_output=True, text=True)
    return "".join(path.read_text(errors="replace") for path in logs.iterdir()) + done.stdout


def toml(values):
    return " ".join(f'{name}="{value}"' for name, value in values.items())


@pytest.mark.slow
def test_flower_ends_where_one_process_does(tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "toy_app.py").write_text(APP)
    logs = run_flower(tmp_path, app, [{"client": name} for name in GROUPS], {"out": tmp_path})
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


@pytest.mark.slow
def test_the_example_trains_a_model_that_neither_client_could_train_alone(tmp_path):
    pytest.importorskip("audit.training.dp.learners.opening", reason="private training is not there yet")
    start = tiny.checkpoint(tmp_path / "start", "bert", "token-classification", 0)
    whole = load(tiny.corpus(tmp_path / "whole", members=8))
    members, others = whole.of("member"), [*whole.of("heldout"), *whole.of("public")]
    held = {"north": members[:4], "south": members[4:], "server": [replace(others[-1], split="member")]}
    for name, own in held.items():
        named = [replace(document, provider=f"{name} {index % 2}") for index, document in enumerate(own)]
        write(tmp_path / name, whole.manifest, [*named, *others[:-1]])
    agreement = (ROOT / "examples" / "flower" / "agreement.toml").read_text()
    agreement = agreement.replace("providers = 40", "providers = 4").replace("rounds = 10", "rounds = 1")
    (tmp_path / "agreement.toml").write_text(agreement)
    common = {"agreement": tmp_path / "agreement.toml", "pretrained": start}
    nodes = [{"client": name, "data": tmp_path / name, **common} for name in GROUPS]
    out = tmp_path / "trained"
    logs = run_flower(
        tmp_path, ROOT / "examples" / "flower", nodes, {"data": tmp_path / "server", "out": out, **common}
    )
    assert (out / "config.json").exists(), logs[-5000:]
    kinds = [message["kind"] for message in json.loads((out / "received.json").read_text())]
    assert kinds == ["public key", "public key", "masked update", "masked update"]
    assert weights_of(out).keys() == weights_of(start).keys()
    assert any(not torch.equal(value, weights_of(start)[name]) for name, value in weights_of(out).items())


def weights_of(folder):
    return load_file(folder / "model.safetensors")


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
