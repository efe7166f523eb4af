"""The server as a Flower ServerApp: it draws clients, passes public keys on, and opens the sum of masked updates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from audit.errors import TrainingError
from audit.training.dp.federated.flower.client import terms
from audit.training.dp.federated.parties import Invitation, MaskedUpdate, RoundSettings, Transcript
from audit.training.dp.federated.server import invite, server_round
from audit.training.dp.interface import RandomSource

_POLL_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Job:
    """What the server does; it has no document.

    Attributes:
        clients: names of all, `settings.n_clients` of them.
        settings: agreed upon by all parties.
        n_rounds: T.
        parameters: the model's, sent to the clients of a round; `apply` changes them.
        apply: adds a noisy mean change, or steps an optimizer along a noisy mean gradient.
        source: the server's coins and noise of a round.
        finish: called once after the last round.
        patience_seconds: for all clients to connect, and for every answer.
    """

    clients: tuple[str, ...]
    settings: RoundSettings
    n_rounds: int
    parameters: Mapping[str, torch.Tensor]
    apply: Callable[[Mapping[str, torch.Tensor]], None]
    source: Callable[[int], RandomSource]
    finish: Callable[[Transcript], None]
    patience_seconds: float = 3600.0


def server_app(open_job: Callable[[Mapping[str, Any]], Job]) -> ServerApp:
    """Make the ServerApp.

    Args:
        open_job: opens the job from the configuration of the run.
    """
    app = ServerApp()
    app.main()(lambda grid, context: serve(grid, open_job(context.run_config)))
    return app


def serve(grid: Grid, job: Job) -> None:
    """Take all rounds; each has the two exchanges of keys and of updates.

    Raises:
        TrainingError: a client did not connect, did not answer, or answered with an error.
    """
    transcript, nodes = Transcript(), _nodes(grid, job)
    for round in range(job.n_rounds):
        source = job.source(round)
        invitation = invite(job.clients, job.settings, round, source)
        invited = {client: nodes[client] for client in invitation.clients}
        keys = _keys(grid, job, invited, round, transcript) if len(invited) > 1 else {}
        updates = _updates(grid, job, invited, invitation, keys)
        job.apply(server_round(updates, invitation, job.settings, job.parameters, source, transcript))
    job.finish(transcript)


def _nodes(grid: Grid, job: Job) -> dict[str, int]:
    """The node of every client, once all are there."""
    deadline = time.monotonic() + job.patience_seconds
    while len(connected := list(grid.get_node_ids())) < len(job.clients):
        if time.monotonic() > deadline:
            raise TrainingError(f"{len(connected)} of {len(job.clients)} clients connected")
        time.sleep(_POLL_SECONDS)
    replies = _answers(grid, job, [Message(RecordDict(), node, "query.name") for node in connected])
    nodes = {str(reply.content["reply"]["client"]): reply.metadata.src_node_id for reply in replies}
    if sorted(nodes) != sorted(job.clients) or len(replies) != len(nodes):
        raise TrainingError("the clients that connected are not those of the file of clients, one each")
    return nodes


def _keys(grid: Grid, job: Job, invited: Mapping[str, int], round: int, transcript: Transcript) -> dict[str, bytes]:
    ask = ConfigRecord({"round": round})
    replies = _answers(grid, job, [Message(RecordDict({"ask": ask}), node, "query.key") for node in invited.values()])
    by_node = {reply.metadata.src_node_id: bytes(reply.content["reply"]["key"]) for reply in replies}
    keys = {client: by_node[node] for client, node in invited.items()}
    for client, key in keys.items():
        transcript.note_key(round, client, key)
    return keys


def _updates(
    grid: Grid, job: Job, invited: Mapping[str, int], invitation: Invitation, keys: Mapping[str, bytes]
) -> list[MaskedUpdate]:
    ask = ConfigRecord(
        {
            "round": invitation.round,
            "clients": list(invitation.clients),
            "keys": [keys[client] for client in invitation.clients if keys],
            "terms": terms(job.settings, job.n_rounds),
        }
    )
    weights = ArrayRecord({name: value.detach().cpu() for name, value in job.parameters.items()})
    asked = [Message(RecordDict({"ask": ask, "weights": weights}), node, "train") for node in invited.values()]
    return [_opened(reply) for reply in _answers(grid, job, asked)]


def _answers(grid: Grid, job: Job, asked: Sequence[Message]) -> list[Message]:
    if not asked:
        return []
    replies: Iterable[Message] = grid.send_and_receive(asked, timeout=job.patience_seconds)
    good = [reply for reply in replies if not reply.has_error()]
    if len(good) < len(asked):
        raise TrainingError(
            f"{len(asked) - len(good)} of {len(asked)} clients did not answer, or stopped with an error",
            "a round that began counts as spent; see the logs of the clients",
        )
    return good


def _opened(reply: Message) -> MaskedUpdate:
    sender = reply.content["reply"]
    elements = tuple(reply.content["update"].to_numpy_ndarrays())
    return MaskedUpdate(int(sender["round"]), str(sender["client"]), elements)
