"""What options of `docaudit init` and `import` say about members and the shares of splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from audit.corpus.documents import Split
from audit.errors import UsageError, listed
from audit.importers.divide import DRAWN, Rule
from audit.importers.named import NamedMembers

BY_PROVIDER: dict[Split, float] = {"member": 0.4, "heldout": 0.4, "public": 0.2}
"""Shares of the splits where docaudit draws providers."""


@dataclass(frozen=True)
class StatedMembers:
    """What options say about which documents the model was trained on.

    Attributes:
        members: file that names the documents that the model was trained on.
        heldout: file that names documents that it never saw.
        heldout_from: second folder, of documents that it never saw.
        official: whether the source's own division is meant.
        by_provider: whether providers are drawn.
        has_share: whether a share of members is given.
    """

    members: Path | None = None
    heldout: Path | None = None
    heldout_from: Path | None = None
    official: bool = False
    by_provider: bool = False
    has_share: bool = False

    @property
    def names_members(self) -> bool:
        """Tell whether a file or a second folder says which documents are members."""
        return self.members is not None or self.heldout_from is not None

    def read_rule(self) -> Rule | None:
        """Return the division that the options state; None where they state none.

        Raises:
            UsageError: they state several, or name held-out documents alone.
        """
        self._refuse_several()
        if self.heldout is not None and self.members is None:
            reason = (
                f"--heldout {self.heldout} names held-out documents, but nothing names the members"
            )
            raise UsageError(reason, "name those that were trained on: --members FILE")
        if self.members is not None:
            return NamedMembers.read(self.members, self.heldout)
        if self.heldout_from is not None:
            return NamedMembers(())
        if self.official:
            return "official"
        if self.by_provider:
            return "by-provider"
        return None

    def _refuse_several(self) -> None:
        """Refuse options of which each says which documents are members."""
        is_stated = {
            "--members": self.members is not None,
            "--heldout-from": self.heldout_from is not None,
            "--official": self.official,
            "--by-provider": self.by_provider,
            "--member": self.has_share and self.names_members,
        }
        options = [option for option, stated in is_stated.items() if stated]
        if len(options) > 1:
            raise UsageError(
                f"{listed(options, 'and')} say in several ways which documents are members",
                "keep one of them",
            )


def choose_shares(
    rule: Rule,
    member: float | None = None,
    heldout: float | None = None,
    public: float | None = None,
    *,
    has_heldout_file: bool,
) -> dict[Split, float]:
    """Return the shares of the splits: those of options, and the usual ones for the others.

    None of a draw without such options: they depend on the number of documents.

    Args:
        rule: division of the source.
        member: share of an option.
        heldout: share of an option.
        public: share of an option.
        has_heldout_file: whether a file names the held-out documents; the others are then public.
    """
    options: dict[Split, float | None] = {"member": member, "heldout": heldout, "public": public}
    stated = {split: share for split, share in options.items() if share is not None}
    if rule == "drawn":
        return {**DRAWN, **stated} if stated else {}
    if rule == "by-provider":
        return {**BY_PROVIDER, **stated}
    usual_public = float(has_heldout_file) if public is None else public
    usual_heldout = (1 - has_heldout_file) * (1 - usual_public)
    return {"member": 1.0, "heldout": usual_heldout, "public": usual_public, **stated}


def read_share_or_file(text: str | None) -> tuple[float | None, Path | None]:
    """Read what `--heldout` gives: a share, or a file.

    Raises:
        UsageError: it is a number, and no share.
    """
    if text is None:
        return None, None
    try:
        share = float(text)
    except ValueError:
        return None, Path(text)
    if not 0 <= share <= 1:
        raise UsageError(f"--heldout {text}: a share is between 0 and 1")
    return share, None
