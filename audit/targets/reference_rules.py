"""Rules of which models may be compared with a target, as most kinds of targets have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from audit.cards import SERVED, TargetCard
from audit.targets import TABLE

if TYPE_CHECKING:
    from audit.targets.checkpoint.folder import CheckpointFolder
    from audit.targets.encoders.families import OpenImage, PageImageReader

PublicKind = Literal["masked", "text_model", "longformer", "denoiser"]
"""Kinds of public models: a masked language model of the target's family, that of the text model
with its vocabulary, one that reads long pages, or a model that puts back hidden spans."""


class ReferenceRules(Protocol):
    """What a target says of its references; a kind of target overrides where it differs.

    Attributes:
        starts_as_other_kind: whether what such a model was fine-tuned from is mostly of another
            kind, so that it must be loaded to tell whether it can be asked the same.
        takes_denoiser: whether a denoiser may be its public model. It is taken as it is, untrained.
    """

    starts_as_other_kind: ClassVar[bool] = False
    takes_denoiser: ClassVar[bool] = True
    card: TargetCard

    @property
    def batch_options(self) -> dict[str, Any]:
        """Return the rows of a batch as keyword arguments of `target_of`."""
        rows: int = self.batch_rows  # type: ignore[attr-defined]
        return {"batch_rows": rows}

    @property
    def public_kind(self) -> PublicKind:
        """Return the kind of public model to advise."""
        return "longformer" if self.card.family in TABLE["answering"]["robertas"] else "denoiser"

    @property
    def public_tokenizer(self) -> Any:
        """Return the tokenizer that a public model must share; None: no public model serves."""
        return None

    @property
    def longest_public_page(self) -> int:
        """Return the most tokens of a page that a public model must read.

        Beside a page's words the row of a model that answers holds an end and a question of two
        tokens at least, and to a masked language model the page comes with its own two tokens
        around it.
        """
        return self.card.max_tokens - 1

    @property
    def page_images(self) -> PageImageReader | None:
        """Return the reader of page images a public model must match; None without images."""
        return None

    @property
    def public_images(self) -> OpenImage | None:
        """Return the function that opens pages' images; None for targets that see none."""
        return None

    def accepts(self, reference: ReferenceRules) -> str | None:
        """Return why a loaded checkpoint is of another kind; None where it is of this kind."""
        if self.is_served_as(reference):
            return None
        ours = (self.card.family, self.card.task)
        if ours != (reference.card.family, reference.card.task):
            return f"is {reference.card.architecture}, the target {self.card.architecture}"
        return None

    def is_served_as(self, reference: ReferenceRules) -> bool:
        """Test whether one of both targets is behind a server, and their tasks are equal."""
        families = (self.card.family, reference.card.family)
        return SERVED in families and self.card.task == reference.card.task

    def accepts_start(
        self, start: CheckpointFolder, own_folder: CheckpointFolder, *, denoises: bool
    ) -> str | None:
        """Return why the target's pretrained start cannot be asked; None if it can.

        Args:
            start: the folder of what it was fine-tuned from; nothing is loaded.
            own_folder: its own folder.
            denoises: whether the start is a model that puts back hidden spans, as T5 is.
        """
        return f"it is no {self.card.task} model"


def same_type(start: CheckpointFolder, own_folder: CheckpointFolder) -> bool:
    """Test whether the configurations of two checkpoints name one `model_type`."""
    return bool(start.config.get("model_type") == own_folder.config.get("model_type"))
