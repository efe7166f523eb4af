"""`docaudit attest`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console


def attest(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that a scan wrote.", show_default=False)],
    key: Annotated[
        Path | None,
        typer.Option(
            help="An ed25519 private key in PEM, as openssl genpkey -algorithm ed25519 makes one.",
            show_default="the statement is not signed",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it goes.", show_default="beside the record")
    ] = None,
) -> None:
    """Write a statement of the verdict that names model, data set, record, policy and reports by their sha256.

    An in-toto test result, in a DSSE envelope when it is signed. The policy is the one that the record declares.
    docaudit verify compares it with the files.
    """
    from audit.workflows import attest as workflow

    with console.Reporter():
        written = workflow.attest(folder, key, out)
    signed = "not signed" if written.key is None else f"signed by key {written.key[: console.SHOWN_DIGITS]}"
    console.say(f"{written.path}: {written.result}, about {written.subjects} files and digests, {signed}")
    if written.key is None:
        console.warn("without --key whoever can change these files can write the statement anew")
