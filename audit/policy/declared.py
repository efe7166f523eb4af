"""The policy that a record holds, to be judged by again."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pydantic import ValidationError

from audit.cards import DeclaredPolicy
from audit.errors import PolicyError
from audit.files import read_toml
from audit.policy.limits import Origin, Policy
from audit.policy.reading import POLICY, shipped_policies
from audit.policy.rules import HINT, contradictions


def read_declared(declared: DeclaredPolicy) -> Policy:
    """Read the policy that a record declares, whatever this version ships under its name.

    Raises:
        PolicyError: the text is no policy, or not the one that the record names.
    """
    where = "the record's policy"
    try:
        policy = POLICY.validate_python(read_toml(declared.toml.encode()))
    except ValueError as error:
        if isinstance(error, ValidationError):
            problems = [f"{where} {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            raise PolicyError(problems) from None
        raise PolicyError(f"{where}: not TOML: {error}") from None
    problems = contradictions(policy, shipped_policies())
    if policy.origin is not None:
        problems.append("origin: is written by docaudit, not by a policy")
    if policy.name != declared.name:
        problems.append("has another name than the record says")
    if hashlib.sha256(declared.toml.encode()).hexdigest() != declared.sha256:
        problems.append("has another sha256 than the record says")
    if problems:
        raise PolicyError([f"{where} {problem}" for problem in problems], HINT)
    return replace(policy, origin=Origin(declared.toml, declared.shipped))
