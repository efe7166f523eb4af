"""Types of the Python API: a record, a verdict, and a data set and a policy with their loaders."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Self

from audit import policy as policies
from audit.corpus import documents, manifest
from audit.policy import Verdict
from audit.record import AuditRecord

__all__ = ["AuditRecord", "Corpus", "Policy", "Verdict"]


class Corpus(documents.Corpus):
    """A data set: `manifest`, `documents`, and `of("member")` for the documents of a split.

        corpus = Corpus.load("my-data")
        print(len(corpus.of("member")), "documents of training")

    See `audit.corpus.documents.Corpus` for its attributes.
    """

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read and check a data set.

        Args:
            path: the folder with manifest.toml.

        Raises:
            ManifestError: with every problem and its place.
        """
        read = manifest.load(Path(path))
        return cls(read.root, read.manifest, read.documents, read.sha256)


class Policy(policies.Policy):
    """What an owner accepts: `limits` on the metrics of attacks, with waivers and demands.

        policy = Policy.load("strict")
        print(policy.limits[0].attack, policy.limits[0].max)

    See `audit.policy.Policy` for its attributes. `scan` and `evaluate` check the names of attacks
    and metrics.
    """

    @classmethod
    def load(cls, name_or_path: str | Path) -> Self:
        """Read a policy.

        Args:
            name_or_path: a shipped policy ("default", "strict") or a TOML file.

        Raises:
            PolicyError: with every problem of the file.
        """
        read = policies.load(str(name_or_path))
        return cls(**{field.name: getattr(read, field.name) for field in fields(read)})
