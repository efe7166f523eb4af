"""Policies as their owners write them."""

from pathlib import Path

import tomli_w


def policy_text(*limits: str, name: str = "mine", more: str = "") -> str:
    """Write a policy.

    A limit is its attack, its metric and the lines that bound it: "membership auc max = 1".
    """
    parts = [line.split(" ", 2) for line in limits]
    head = tomli_w.dumps({"schema": 1, "name": name})
    body = [
        f'\n[[limits]]\nattack = "{attack}"\nmetric = "{metric}"\n{bound}\nrationale = "because"\n'
        for attack, metric, bound in parts
    ]
    return head + more + "".join(body)


def write_policy(path: Path, *limits: str, **more: str) -> Path:
    """Write `policy_text` into a file; gives its path back."""
    path.write_text(policy_text(*limits, **more), encoding="utf-8")
    return path
