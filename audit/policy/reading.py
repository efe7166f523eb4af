"""Policies read from files: a shipped one by its name, or an owner's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from audit.errors import PolicyError
from audit.files import read_file, read_toml
from audit.policy.limits import Origin, Policy
from audit.policy.rules import HINT, contradictions
from audit.resources import folder

POLICY: TypeAdapter[Policy] = TypeAdapter(Policy)


def shipped_policies() -> dict[str, Path]:
    """The shipped policies, by name."""
    others = ("defenses", "frameworks")
    return {item.stem: item for item in folder("policies").glob("*.toml") if item.stem not in others}


def path_of(name_or_path: str) -> Path:
    """The file of a policy: of a shipped one by its name, else the path itself."""
    return shipped_policies().get(name_or_path, Path(name_or_path))


def load(name_or_path: str) -> Policy:
    """Read a policy: the name of a shipped one ("default", "strict") or the path of a TOML file.

    Raises:
        PolicyError: every problem of the file.
    """
    shipped, path = shipped_policies(), path_of(name_or_path)
    try:
        written = read_file(path)
        content = read_toml(written)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise PolicyError(f"policy {path}: {reason}", f"shipped policies: {', '.join(sorted(shipped))}") from None
    except ValueError as error:  # TOMLDecodeError, and a number of thousands of digits
        raise PolicyError(f"policy {path}: not TOML: {error}") from None
    try:
        policy = POLICY.validate_python(content)
    except ValidationError as error:
        raise PolicyError(
            [f"policy {path} {'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
        ) from None
    problems = contradictions(policy, shipped)
    if policy.origin is not None:
        problems.append("origin: is written by docaudit, not by a policy")
    original = shipped.get(policy.name)
    if original is not None and original.read_bytes() != written:
        waived = ", as by waivers," if policy.waivers else ""
        problems.append(
            f"name: docaudit ships a policy {policy.name!r}; one that differs from it{waived} needs another name"
        )
    if problems:
        own = original is not None or any(problem.startswith("name: ") for problem in problems)
        suggested = f"{policy.name}-own" if original is not None else "team-receipts"
        hint = f'say name = "{suggested}" in it, and give --policy FILE' if own else HINT
        raise PolicyError([f"policy {path} {problem}" for problem in problems], hint)
    return replace(policy, origin=Origin(written.decode(), shipped=original is not None))
