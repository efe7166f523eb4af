"""A client as a Flower ClientApp: its documents, its raw update and its private keys stay on its machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from audit.errors import TrainingError
from audit.training.dp.federated.client import Client, client_message
from audit.training.dp.federated.flower.keys import agreed_secrets, new_key
from audit.training.dp.federated.parties import Invitation, RoundSettings
from audit.training.dp.interface import RandomSource

_KEY = "docaudit.key"
_SPENT = "docaudit.spent"


@dataclass(frozen=True, eq=False)
class Party:
    """A client on its own machine.

    Attributes:
        client: its name, documents and contributions.
        settings: that it agreed to; a round with others is refused.
        n_rounds: that it agreed to; it answers no more of a run.
        parameters: that contributions start from; the server's weights are written into them in every round.
        source: the client's coins and noise of a round.
    """

    client: Client
    settings: RoundSettings
    n_rounds: int
    parameters: Mapping[str, torch.Tensor]
    source: Callable[[int], RandomSource]


OpenParty = Callable[[Mapping[str, Any], Mapping[str, Any]], Party]
"""Opens a party from the configuration of its SuperNode and of the run."""


def client_app(open_party: OpenParty) -> ClientApp:
    """Make the ClientApp that every client's SuperNode runs.

    Args:
        open_party: called for every message, as Flower answers each in a new process.
    """
    app = ClientApp()

    app.query("name")(lambda message, context: _name(message, open_party(context.node_config, context.run_config)))
    app.query("key")(_key)
    app.train()(lambda message, context: _update(message, context, open_party(context.node_config, context.run_config)))
    return app


def terms(settings: RoundSettings, n_rounds: int) -> str:
    """All that parties agree upon, as a text that is equal where they do."""
    return json.dumps(asdict(settings) | {"n_rounds": n_rounds}, sort_keys=True)


def _name(message: Message, party: Party) -> Message:
    return _reply(message, {"client": party.client.name})


def _key(message: Message, context: Context) -> Message:
    """A new key pair, whose private key waits for the round's update in the SuperNode's own state."""
    private, public = new_key()
    context.state[_KEY] = ConfigRecord({"private": private, "round": message.content["ask"]["round"]})
    return _reply(message, {"key": public})


def _update(message: Message, context: Context, party: Party) -> Message:
    ask = message.content["ask"]
    if ask["terms"] != terms(party.settings, party.n_rounds):
        raise TrainingError("the server asks for a round with settings that this client did not agree to")
    invitation = Invitation(int(ask["round"]), tuple(ask["clients"]))
    _spend(context, invitation.round, party.n_rounds)
    secrets = _secrets(context, party.client.name, invitation, dict(zip(ask["clients"], ask["keys"], strict=False)))
    _load(party.parameters, message.content["weights"].to_torch_state_dict())
    sent = client_message(party.client, party.settings, invitation, secrets, party.source(invitation.round))
    return _reply(message, {"client": sent.client, "round": sent.round}, ArrayRecord(list(sent.elements)))


def _spend(context: Context, round: int, n_rounds: int) -> None:
    """Count the round as spent before it is taken; no round is answered twice, and none beyond those agreed upon."""
    last = context.state[_SPENT]["round"] if _SPENT in context.state else -1
    if not last < round < n_rounds:
        raise TrainingError(f"round {round} was answered already, or is beyond the {n_rounds} agreed upon")
    context.state[_SPENT] = ConfigRecord({"round": round})


def _secrets(context: Context, client: str, invitation: Invitation, keys: Mapping[str, bytes]) -> dict[str, bytes]:
    """The secrets of the round; the private key is thrown away."""
    if len(invitation.clients) == 1:
        return {}
    own = context.state.pop(_KEY)
    if own["round"] != invitation.round:
        raise TrainingError("the key is of another round")
    return agreed_secrets(client, own["private"], keys, invitation.round)


def _load(parameters: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]) -> None:
    if weights.keys() != parameters.keys():
        raise TrainingError("the server trains other parameters than this client")
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(weights[name])


def _reply(message: Message, values: dict[str, Any], update: ArrayRecord | None = None) -> Message:
    content = RecordDict({"reply": ConfigRecord(values)})
    if update is not None:
        content["update"] = update
    return Message(content, reply_to=message)
