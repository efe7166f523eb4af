"""`docaudit attest` and `docaudit verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import console
from audit.cli.options import DataOfRecord, ModelOfRecord

EPILOGS = {
    "verify": (
        "Exit codes: 0 everything that was compared agrees; 10 something differs; 2 wrong usage or input, or a record "
        "that contradicts itself; 1 docaudit failed."
    )
}
DIFFERS = 10


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


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that a scan wrote.", show_default=False)],
    pub: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="The signer's ed25519 public key in PEM.", show_default="not checked"),
    ] = None,
    model: ModelOfRecord = None,
    data: DataOfRecord = None,
    attestation: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The statement.", show_default="that in DIR")
    ] = None,
) -> None:
    """Compare a report folder with its attestation, and say what differs, one line each.

    Every file is hashed again, the verdict follows anew from the record under the policy that it declares, and what
    the PDF file embeds is compared.
    """
    from audit.workflows import verify as workflow

    with console.Reporter():
        record, found = workflow.verify(folder, pub, model, data, attestation)
    console.show_subject(record)
    console.say(*(f"same: {line}" for line in found.agreed), *(f"note: {line}" for line in found.notes))
    console.say(*(f"DIFFERS: {line}" for line in found.differences))
    if not found.differences:
        console.say("Everything that was compared agrees.")
    raise typer.Exit(DIFFERS if found.differences else 0)
