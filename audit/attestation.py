"""Sign and read a statement of the verdict on an audit.

An in-toto Statement v1 with a test result, in DSSE. Formats: https://github.com/in-toto/attestation
(spec/v1/statement.md, spec/predicates/test-result.md) and
https://github.com/secure-systems-lab/dsse. Signatures are ed25519; no network is used.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from audit.errors import RecordError, UsageError
from audit.files import read_file

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

FILE_NAME = "attestation.intoto.jsonl"
PAYLOAD = "application/vnd.in-toto+json"
DATA_SET = "docauditDataSet"
"""The name of the data set's digest: it is taken over several files' digests, so that it is no
file's sha256."""
INSTALL = "pip install 'docaudit[attest]'"
_BLOCK = b"-----BEGIN "
"""How each key in a file of PEM begins."""
_CONFIG = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)
Json = dict[str, Any]


class Subject(BaseModel):
    """A file or a data set that a statement is about: its name, and digests by algorithm."""

    model_config = _CONFIG
    name: str
    digest: dict[str, str]


class Statement(BaseModel):
    """An in-toto statement: a test result about these subjects, each of which has a name of its own."""

    model_config = _CONFIG
    type: Literal["https://in-toto.io/Statement/v1"] = Field(
        "https://in-toto.io/Statement/v1", alias="_type"
    )
    subject: list[Subject]
    predicateType: Literal["https://in-toto.io/attestation/test-result/v0.1"] = (  # noqa: N815
        "https://in-toto.io/attestation/test-result/v0.1"
    )
    predicate: Json

    @field_validator("subject")
    @classmethod
    def _named_once(cls, subjects: list[Subject]) -> list[Subject]:
        """Return the subjects unchanged; refuse two of one name."""
        if len({subject.name for subject in subjects}) < len(subjects):
            raise ValueError("two subjects have one name")
        return subjects

    @property
    def digests(self) -> dict[str, dict[str, str]]:
        """Return the digests of each subject, by its name."""
        return {subject.name: subject.digest for subject in self.subject}


@dataclass(frozen=True)
class Attestation:
    """A statement as a file holds it, and its signed envelope; None of a bare statement."""

    statement: Statement
    envelope: Envelope | None


def seal(statement: Statement, signer: CryptoSigner | None) -> str:
    """Write a line with the statement in a signed DSSE envelope, or bare without a signer."""
    payload = json.dumps(
        statement.model_dump(by_alias=True), separators=(",", ":"), allow_nan=False
    )
    if signer is None:
        return payload + "\n"
    from securesystemslib.dsse import Envelope

    envelope = Envelope(payload.encode(), PAYLOAD, {})
    envelope.sign(signer)
    return json.dumps(envelope.to_dict(), separators=(",", ":")) + "\n"


def unseal(text: bytes, source: str) -> Attestation:
    """Read what `seal` wrote; no signature is checked here.

    Raises:
        RecordError: it is neither an envelope nor a statement of a test result.
        UsageError: it is an envelope, and securesystemslib is not installed.
    """
    content = _parse_object(text, source)
    envelope = None
    if "payload" in content:
        envelope = _envelope(content, source)
        content = _parse_object(envelope.payload, source)
    try:
        return Attestation(Statement.model_validate(content), envelope)
    except ValidationError as error:
        problems = [
            f"{source}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise RecordError(
            problems, "give the in-toto statement that docaudit attest wrote"
        ) from None


def _parse_object(text: bytes, source: str) -> Json:
    """Read a JSON object whose names differ; `source` names the text in errors."""
    hint = "give the attestation that docaudit attest wrote"
    try:
        content = json.loads(text, object_pairs_hook=_object_without_repeats)
    except _NamedTwiceError:
        raise RecordError(f"{source}: a JSON object holds one name twice", hint) from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise RecordError(f"{source}: not a JSON object", hint)
    return content


class _NamedTwiceError(ValueError):
    """Raised for a JSON object with two values of one name, of which readers may take either."""


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    """Make a dict of a JSON object whose names differ."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise _NamedTwiceError
    return content


def _envelope(content: Json, source: str) -> Envelope:
    """Read an envelope, and refuse content that writing it again would change."""
    try:
        from securesystemslib.dsse import Envelope
        from securesystemslib.exceptions import FormatError
    except ImportError:
        raise UsageError("signatures need the package securesystemslib", INSTALL) from None
    try:
        envelope = Envelope.from_dict(copy.deepcopy(content))
        well = (
            envelope.payload_type == PAYLOAD
            and envelope.signatures
            and envelope.to_dict() == content
        )
        well = well and not any(
            signature.unrecognized_fields for signature in envelope.signatures.values()
        )
    except (KeyError, TypeError, ValueError, AttributeError, FormatError):
        well = False
    if not well:
        raise RecordError(f"{source}: no signed DSSE envelope of an in-toto statement")
    return envelope


def is_signed_by(attestation: Attestation, key: SSlibKey) -> bool:
    """Test whether this key made one of the signatures."""
    from securesystemslib.exceptions import UnverifiedSignatureError

    try:
        return attestation.envelope is not None and bool(attestation.envelope.verify([key], 1))
    except UnverifiedSignatureError:
        return False


def read_private_key(path: Path) -> CryptoSigner:
    """Read an ed25519 private key in PEM, without a password.

    Raises:
        UsageError: it is none, or securesystemslib is not installed.
    """
    key, public = _read_key(
        path, private=True, hint="make one with: openssl genpkey -algorithm ed25519 -out KEY"
    )
    from securesystemslib.signer import CryptoSigner

    return CryptoSigner(key, public)


def read_public_key(path: Path) -> SSlibKey:
    """Read an ed25519 public key in PEM.

    Raises:
        UsageError: it is none, or securesystemslib is not installed.
    """
    return _read_key(
        path, private=False, hint="write it with: openssl pkey -in KEY -pubout -out PUB"
    )[1]


def _read_pem(path: Path, hint: str) -> bytes:
    """Read a file that holds one block of PEM at most."""
    try:
        content = read_file(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint) from None
    if content.count(_BLOCK) > 1:
        raise UsageError(
            f"{path}: holds several keys, of which only the first would count",
            "give a file with one key",
        )
    return content


def _read_key(path: Path, *, private: bool, hint: str) -> tuple[Any, SSlibKey]:
    """Read a key, and name its public part by its sha256.

    It is that of `openssl pkey -pubin -outform DER | sha256sum`.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
        from securesystemslib.signer import SSlibKey
    except ImportError:
        raise UsageError("signatures need the package securesystemslib", INSTALL) from None
    content = _read_pem(path, hint)
    try:
        key = (
            serialization.load_pem_private_key(content, None)
            if private
            else serialization.load_pem_public_key(content)
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        what = "private" if private else "public"
        raise UsageError(f"{path}: no {what} key in PEM without a password", hint) from None
    if not isinstance(key, ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey):
        raise UsageError(f"{path}: no ed25519 key", hint)
    public = key.public_key() if private else key
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return key, SSlibKey.from_crypto(public, hashlib.sha256(der).hexdigest())
