"""A signed statement of the verdict on an audit: an in-toto Statement v1 with a test-result predicate, in DSSE.

Formats: https://github.com/in-toto/attestation (spec/v1/statement.md, spec/predicates/test-result.md) and
https://github.com/secure-systems-lab/dsse. Signatures are ed25519; no network is used.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.errors import RecordError, UsageError
from audit.files import read_file
from audit.record import names_given_twice

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FILE_NAME = "attestation.intoto.jsonl"
STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD = "application/vnd.in-toto+json"
DATA_SET = "docauditDataSet"
"""The name of the data set's digest: it is taken over several files' digests, so that it is no file's sha256."""
INSTALL = "pip install 'docaudit[attest]'"
_ENVELOPE = {"payload", "payloadType", "signatures"}
Json = dict[str, Any]


@dataclass(frozen=True)
class Attestation:
    """A statement as a file holds it.

    Attributes:
        statement: the in-toto statement.
        payload: its very bytes, which are signed.
        signatures: (key id, signature) of each signer; none of a bare statement.
    """

    statement: Json
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def make_statement(subjects: Sequence[tuple[str, Mapping[str, str]]], predicate: Mapping[str, Any]) -> Json:
    """The statement that a test result is about these subjects.

    Args:
        subjects: name and digests, by algorithm, of each.
        predicate: the test result.
    """
    listed = [{"name": name, "digest": dict(digests)} for name, digests in subjects]
    return {"_type": STATEMENT, "subject": listed, "predicateType": TEST_RESULT, "predicate": dict(predicate)}


def seal(statement: Json, key: Ed25519PrivateKey | None) -> str:
    """A line with the statement in a signed DSSE envelope, or bare without a key."""
    payload = json.dumps(statement, separators=(",", ":"), allow_nan=False).encode()
    if key is None:
        return payload.decode() + "\n"
    signature = {"keyid": key_id(key.public_key()), "sig": _base64(key.sign(_signed_bytes(payload)))}
    envelope = {"payloadType": PAYLOAD, "payload": _base64(payload), "signatures": [signature]}
    return json.dumps(envelope, separators=(",", ":")) + "\n"


def unseal(text: bytes, source: str) -> Attestation:
    """Read what `seal` wrote; no signature is checked here.

    Raises:
        RecordError: it is neither an envelope nor a statement of a test result.
    """
    content = _object(text, source)
    if "payload" not in content:
        return Attestation(_checked(content, source), text.strip(), ())
    signatures = content.get("signatures")
    if set(content) != _ENVELOPE or content["payloadType"] != PAYLOAD or not isinstance(signatures, list):
        raise RecordError(f"{source}: no DSSE envelope of an in-toto statement")
    payload = _bytes_of(content["payload"], source)
    found = []
    for one in signatures:
        if not isinstance(one, dict) or set(one) != {"keyid", "sig"} or not isinstance(one["keyid"], str):
            raise RecordError(f"{source}: a signature without key id, or with more than that")
        found.append((one["keyid"], _bytes_of(one["sig"], source)))
    if not found:
        raise RecordError(f"{source}: an envelope without any signature")
    return Attestation(_checked(_object(payload, source), source), payload, tuple(found))


def _object(text: bytes, source: str) -> Json:
    try:
        content = json.loads(text)
        twice = names_given_twice(text)
    except (ValueError, RecursionError):
        raise RecordError(f"{source}: not JSON", "give the attestation that docaudit attest wrote") from None
    if twice or not isinstance(content, dict):
        raise RecordError(f"{source}: no JSON object with each name once")
    return content


def _checked(statement: Json, source: str) -> Json:
    kinds = {"_type": STATEMENT, "predicateType": TEST_RESULT}
    well = all(statement.get(key) == value for key, value in kinds.items())
    subjects, predicate = statement.get("subject"), statement.get("predicate")
    if not well or not isinstance(subjects, list) or not isinstance(predicate, dict):
        raise RecordError(f"{source}: no in-toto statement of a test result")
    named = [one.get("name") for one in subjects if isinstance(one, dict) and isinstance(one.get("digest"), dict)]
    if len(named) != len(subjects) or not all(isinstance(name, str) for name in named) or len({*named}) < len(named):
        raise RecordError(f"{source}: its subjects do not each have a name of their own and a digest")
    return statement


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes_of(text: object, source: str) -> bytes:
    try:
        content = base64.b64decode(str(text), validate=True)
    except (ValueError, binascii.Error):
        content = None
    # Several texts decode to the same bytes; only the one that encodes them is taken.
    if content is None or _base64(content) != text:
        raise RecordError(f"{source}: not base64")
    return content


def _signed_bytes(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def is_signed_by(attestation: Attestation, key: Ed25519PublicKey) -> bool:
    """True when one of the signatures is this key's, under its own id."""
    from cryptography.exceptions import InvalidSignature

    for own, signature in attestation.signatures:
        if own != key_id(key):
            continue
        try:
            key.verify(signature, _signed_bytes(attestation.payload))
        except InvalidSignature:
            return False
        return True
    return False


def key_id(key: Ed25519PublicKey) -> str:
    """The sha256 of a public key (SubjectPublicKeyInfo, DER), as `openssl pkey -pubin -outform DER | sha256sum`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read an ed25519 private key in PEM, without a password.

    Raises:
        UsageError: it is none, or cryptography is not installed.
    """
    made = "openssl genpkey -algorithm ed25519 -out KEY"
    return _key(path, private=True, hint=f"make one with: {made}")


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read an ed25519 public key in PEM.

    Raises:
        UsageError: it is none, or cryptography is not installed.
    """
    return _key(path, private=False, hint="write it with: openssl pkey -in KEY -pubout -out PUB")


def _key(path: Path, *, private: bool, hint: str) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ed25519
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    except ImportError:
        raise UsageError("signatures need the package cryptography", INSTALL) from None
    what = "private" if private else "public"
    try:
        content = read_file(path)
        key: Any = load_pem_private_key(content, None) if private else load_pem_public_key(content)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError(f"{path}: no {what} key in PEM without a password", hint) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey):
        raise UsageError(f"{path}: no ed25519 key", hint)
    return key
