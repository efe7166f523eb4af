"""The folders of the references that somebody names, on the command line or in the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from audit.corpus.documents import Corpus
from audit.errors import UsageError
from audit.references.load import SAME_KIND, GivenFolder, refuse_lost

REFERENCE_NAMES = ("auxiliary", *SAME_KIND, "embedder")


def locate(corpus: Corpus, given: Mapping[str, Sequence[Path]]) -> dict[str, list[GivenFolder]]:
    """The folders of each reference; the command line outranks the manifest.

    Raises:
        UsageError: a name that is no reference.
    """
    unknown = sorted(set(given) - set(REFERENCE_NAMES))
    if unknown:
        raise UsageError(f"--reference: no reference is called {unknown[0]!r}", f"one of {', '.join(REFERENCE_NAMES)}")
    folders: dict[str, list[GivenFolder]] = {}
    for name in REFERENCE_NAMES:
        named = getattr(corpus.manifest.references, name) or ()
        paths = (named,) if isinstance(named, str) else named
        folders[name] = [GivenFolder(corpus.root / path, "manifest") for path in paths]
        if name in given:
            folders[name] = [GivenFolder(path, "command line") for path in given[name]]
    for name, own in folders.items():
        refuse_lost(name, own)
        if len(own) > 1 and name in ("auxiliary", "pretrained", "embedder"):
            raise UsageError(f"--reference {name}: {len(own)} folders", "there is one of it")
    return {name: own for name, own in folders.items() if own}


def without_auxiliary(given: Mapping[str, list[GivenFolder]]) -> dict[str, list[GivenFolder]]:
    """The references when other public documents are to train the auxiliary.

    Raises:
        UsageError: they would train nothing.
    """
    if any(folder.source == "command line" for folder in given.get("auxiliary", ())):
        raise UsageError("--reference public and auxiliary=PATH: nothing would be trained", "give one of them")
    if "pretrained" not in given:
        raise UsageError("--reference public: nothing to train on these documents", "add --reference pretrained=PATH")
    return {name: folders for name, folders in given.items() if name != "auxiliary"}
