"""Secrets of two clients whose only way to each other is the server (Bonawitz et al. 2016, round 0).

The server passes public keys on and learns no secret. A server that swaps keys would: it is taken to be honest but
curious, as in Tito et al. 2024.
"""

from __future__ import annotations

from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from audit.training.dp.federated.aggregation import SECRET_BYTES


def new_key() -> tuple[bytes, bytes]:
    """Draw a private key, for one round only, and its public key."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def agreed_secrets(client: str, private: bytes, keys: Mapping[str, bytes], round: int) -> dict[str, bytes]:
    """Derive the secrets that a client shares with every other one.

    Args:
        client: whose private key it is.
        private: as `new_key` gives it.
        keys: public keys of all clients of the round.
        round: from 0; part of what is derived, as the names of both are.

    Returns:
        By the other clients.

    Raises:
        ValueError: the client's own key is not among the keys, or one of them is no key.
    """
    own = X25519PrivateKey.from_private_bytes(private)
    if keys.get(client) != own.public_key().public_bytes_raw():
        raise ValueError("the server passed on another public key than this client's")
    return {
        other: _derived(own.exchange(X25519PublicKey.from_public_bytes(key)), sorted([client, other]), keys, round)
        for other, key in keys.items()
        if other != client
    }


def _derived(shared: bytes, pair: list[str], keys: Mapping[str, bytes], round: int) -> bytes:
    info = repr(("docaudit", round, *((name, keys[name]) for name in pair))).encode()
    return bytes(HKDF(SHA256(), SECRET_BYTES, salt=None, info=info).derive(shared))
