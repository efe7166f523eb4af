"""What an owner asks of an import: checked against the format before anything is read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from audit.corpus.documents import TaskKind
from audit.errors import UsageError, command_line, listed
from audit.files import read_file
from audit.importers.arrow import SPLITS as DATASET_DICT
from audit.importers.divide import Rule, Shares
from audit.importers.pages import Part, part_named
from audit.importers.source import Options


@dataclass(frozen=True)
class ImportRequest:
    """A source, and the data set that is to be made of it.

    Attributes:
        src: the folder that holds the source.
        dst: a new folder; for plain pages also the source, which then gets a manifest.
        shares: shares by split of all documents, none: those of a draw that fit its size; with
            "official" member of the training part, heldout and public of the unseen one; by
            provider, of the providers (`divide.divide_by_provider`); with members that are given,
            heldout and public of the others. The rest is left out.
        seed: seed of the draw.
        division: "official" where the audited model was trained on the source's training part:
            held-out documents come from its other parts alone. "drawn" where it was trained on the
            members of this very draw. By provider: providers are drawn, and of each some documents.
            Or the members that are given. None: "official" where the source has a training part,
            else as `options.draws` permits.
        task: what the audited model was trained to do; None: as found, or token classification
            where the format fixes its tasks and that is one of them, else the first.
        options: what the owner says about a source that is recognised.
        heldout_from: a second folder of the format: all documents of `src` are then members, those
            of the second are not, and `shares` of heldout and public are of these; `division` is
            not heeded.
        without: names of members that go into no split.
    """

    src: Path
    dst: Path
    shares: Shares
    seed: int
    division: Rule | None = "drawn"
    task: TaskKind | None = None
    options: Options = field(default_factory=Options)
    heldout_from: Path | None = None
    without: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders to read: the source, and that of held-out documents if any."""
        if self.heldout_from is None:
            return (self.src,)
        return (self.src, self.heldout_from)

    @property
    def is_in_place(self) -> bool:
        """Test whether the source itself becomes the data set."""
        return self.dst.resolve() == self.src.resolve()

    def check_folders(self, name: str) -> None:
        """Refuse folders of which one holds the other, or several splits.

        All their documents would be of one side.

        Args:
            name: name of the format.

        Raises:
            UsageError: they do, with a command that takes one split each.
        """
        if self.heldout_from is None:
            return
        for folder in self.folders:
            splits = _list_splits(folder)
            if len(splits) > 1:
                seen = folder / _split_of_part(splits, "train")
                unseen = folder / _split_of_part(splits, "validation")
                reason = f"{folder} holds the splits {listed(splits, 'and')}; one is meant"
                command = command_line("import", name, seen, "DST", "--heldout-from", unseen)
                raise UsageError(reason, f"{command}, or {folder} --official")
        members = self.src.resolve()
        unseen = self.heldout_from.resolve()
        if unseen != members and unseen.is_relative_to(members):
            reason = (
                f"{self.heldout_from} is in {self.src}, "
                "so its documents would count as trained on too"
            )
            raise UsageError(reason, "give two folders, neither in the other; or --official")


def _list_splits(folder: Path) -> list[str]:
    """List the splits of a saved data set that are there; none where the folder is no such."""
    try:
        names = [str(split) for split in json.loads(read_file(folder / DATASET_DICT))["splits"]]
        return [name for name in names if (folder / name).is_dir()]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


def _split_of_part(splits: Sequence[str], part: Part) -> str:
    """Return the first split that names a part, for a command; "SPLIT" without one."""
    for split in splits:
        if part_named(split) == part:
            return split
    return "SPLIT"
