"""The parties of a federated training: a client with its own documents, and a server without any."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from audit.corpus.documents import Corpus
from audit.corpus.manifest import load
from audit.training.dp.federated.client import Client
from audit.training.dp.federated.flower.client import Party, client_app
from audit.training.dp.federated.flower.server import Job, server_app
from audit.training.dp.federated.parties import RoundSettings, Transcript
from audit.training.dp.interface import Learner, Parameters, Unit
from audit.training.dp.learners.opening import open_learner
from audit.training.dp.local_steps import LocalSteps
from audit.training.dp.randomness import SystemRandom
from audit.training.dp.trained import choose_trained, merge_adapters
from audit.training.dp.units import draw_samples, units_of


def open_party(node: Mapping[str, Any], _: Mapping[str, Any]) -> Party:
    """The client that a SuperNode's configuration names: client, agreement, pretrained and data."""
    agreed = _read(node["agreement"])
    corpus = load(Path(node["data"]))
    learner, parameters = _open(node["pretrained"], corpus, agreed)
    units = units_of(corpus, corpus.of("member"), "provider")
    steps = LocalSteps(learner, parameters, agreed["local-steps"], agreed["learning-rate"])
    client = Client(node["client"], units, steps, partial(_draw, learner, agreed["seed"]), parameters)
    return Party(client, _settings(agreed), agreed["rounds"], parameters, lambda round: SystemRandom())


def open_job(run: Mapping[str, Any]) -> Job:
    """The server that the run's configuration names: agreement, pretrained, data (no private document) and out."""
    agreed = _read(run["agreement"])
    learner, parameters = _open(run["pretrained"], load(Path(run["data"])), agreed)
    return Job(
        clients=tuple(agreed["clients"]),
        settings=_settings(agreed),
        n_rounds=agreed["rounds"],
        parameters=parameters,
        apply=partial(_add, parameters),
        source=lambda round: SystemRandom(),
        finish=partial(_finish, learner, Path(run["out"])),
    )


def _read(path: str) -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def _settings(agreed: Mapping[str, Any]) -> RoundSettings:
    return RoundSettings(
        client_rate=agreed["client-rate"],
        provider_rate=agreed["provider-rate"],
        noise_multiplier=agreed["noise-multiplier"],
        max_norm=agreed["max-norm"],
        n_units=agreed["providers"],
        n_clients=len(agreed["clients"]),
    )


def _open(pretrained: str, corpus: Corpus, agreed: Mapping[str, Any]) -> tuple[Learner, Parameters]:
    learner = open_learner(Path(pretrained), corpus, agreed["seed"])
    trained = choose_trained(learner.model, agreed["train"], seed=agreed["seed"])
    learner.model.eval()
    return learner, trained.parameters


def _draw(learner: Learner, seed: int, unit: Unit, round: int) -> Any:
    return draw_samples(learner, unit, round, seed)


def _add(parameters: Parameters, change: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, value in change.items():
            parameters[name].add_(value)


def _finish(learner: Learner, out: Path, transcript: Transcript) -> None:
    merge_adapters(learner.model)
    learner.save(out)
    received = [asdict(message) for message in transcript.messages]
    (out / "received.json").write_text(json.dumps(received, indent=1), encoding="utf-8")


client = client_app(open_party)
server = server_app(open_job)
