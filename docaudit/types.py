"""Types of the Python API: a record, a verdict, and a data set and a policy with their loaders."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from audit import policy as policies
from audit import record as records
from audit.corpus import documents, manifest

__all__ = ["AuditRecord", "Corpus", "Policy", "Verdict"]


class AuditRecord(records.AuditRecord):
    """What a scan measured: `attacks`, `completed` attacks by name, `target`, `corpus`.

    A notebook shows it as a table. See `audit.record.AuditRecord` for its attributes.
    """

    @classmethod
    def of(cls, record: records.AuditRecord) -> Self:
        """Return a record as a notebook shows it."""
        return cls(**_attributes(record))

    def plain(self) -> records.AuditRecord:
        """Return the record as docaudit itself has it, which a verdict then holds."""
        return records.AuditRecord(**_attributes(self))

    def _repr_html_(self) -> str:
        """Show each attack with the number that sums it up."""
        from audit.report.notebook import record_html

        return record_html(self)


class Verdict(policies.Verdict):
    """What a policy says of a record: `word`, `exit_code`, and `decisions` for each limit.

    A notebook shows it as a table. See `audit.policy.Verdict` for its attributes.
    """

    @classmethod
    def of(cls, verdict: policies.Verdict) -> Self:
        """Return a verdict as a notebook shows it."""
        return cls(**_attributes(verdict))

    def _repr_html_(self) -> str:
        """Show the outcome, and what each attack reached."""
        from audit.report.notebook import verdict_html

        return verdict_html(self)


def _attributes(item: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with their values, as they are."""
    return {field.name: getattr(item, field.name) for field in fields(item)}


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
        return cls(**_attributes(read))
