"""References that attacks need, filled from the command line, from the manifest, or by training them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from audit.cards import ReferenceCard
from audit.case import References
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import open_image
from audit.engine.interface import Progress
from audit.errors import UsageError
from audit.references.load import (
    PROVIDE_BASELINES,
    PROVIDE_BASELINES_OF_ADAPTER,
    SAME_KIND,
    AuditedModel,
    GivenFolder,
    SameKindReference,
    Source,
    in_format_of,
    load_same_kind,
    locate,
    with_base,
    without_auxiliary,
)
from audit.references.provenance import refuse_the_target
from audit.references.public_model import (
    PublicModel,
    check_image_input,
    check_tokens,
    fit_public_mlm,
    has_masked_head,
    load_public,
    pretrained_denoiser,
    proposed_to,
    provide,
    refuse_audited,
)
from audit.references.recipes import Recipe
from audit.references.starting import adapter_words
from audit.targets.answering.denoiser import Denoiser
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.loading import config_of, page_images_of
from audit.targets.encoders.page_images import OpenImage
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint


@dataclass(frozen=True)
class LoadedReferences:
    """The references that were given or trained, and what is missing.

    Attributes:
        models: by role, see `References.of`.
        cards: what they are.
        missing: for every reference that an attack needs and nobody gave, what to provide.
        folders: by role, where they were loaded from.
        members: for every split model, the ids of the documents it was trained on.
        uncounted: references that were given and cannot be asked what the target is asked, by role and name.
    """

    models: Mapping[str, Checkpoint | Denoiser] = field(default_factory=dict)
    cards: tuple[ReferenceCard, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()

    @property
    def references(self) -> References:
        """The models as attacks take them."""
        return self.completed(References.of(self.models, self.members))

    def completed(self, references: References) -> References:
        """These references with those that do not count."""
        return replace(references, uncounted=self.uncounted)


NO_PUBLIC = (
    "pretrained was given, but no documents of split public to train the public model on (a masked language model that "
    "needs no training is given as auxiliary)"
)
NO_HEAD = "pretrained was given, but models of its family have no masked language model"


@dataclass(frozen=True)
class ReferencePlan:
    """What was given, loaded and checked, and what the auxiliary would be trained from; nothing has been written yet.

    Attributes:
        auxiliary: the public model, when somebody gave one.
        source: who gave it.
        folder: its folder.
        pretrained: what to train it from, when nobody did and there are public documents.
        documents: the public documents to train it on.
        images: opens their pages.
        corpus: name and sha256 of the data set they come from, when it is not the audited one.
        same_kind: models of the target's own kind.
        adapter: the settings of the audited adapter, in words; None for a whole model.
        not_taken: why what the target was fine-tuned from makes no public model, where it was given.
        uncounted: see `LoadedReferences`.
    """

    auxiliary: PublicModel | None = None
    source: Source = "manifest"
    pretrained: Path | None = None
    documents: tuple[Document, ...] = ()
    corpus: str | None = None
    folder: Path | None = None
    images: OpenImage | None = None
    same_kind: tuple[SameKindReference, ...] = ()
    adapter: str | None = None
    not_taken: str | None = None
    uncounted: tuple[str, ...] = ()


def prepare(
    needs: Collection[str],
    target: Checkpoint,
    target_dir: AnyFolder,
    corpus: Corpus,
    given: Mapping[str, Sequence[Path]],
    batch_tokens: int | None = None,
    public: Corpus | None = None,
) -> ReferencePlan:
    """Load and check the references that attacks need or can use, as far as that writes nothing.

    Args:
        needs: names of references.
        target: the audited checkpoint; a reference must share its tokens and must not share its weights.
        target_dir: its folder.
        corpus: the data set, whose manifest may name references and whose `public` split may train one.
        given: references named on the command line; they outrank the manifest's.
        batch_tokens: see `EncoderTarget`.
        public: a data set whose public documents train the auxiliary instead of the audited one's; it outranks an
            auxiliary that the manifest names.

    Raises:
        TargetError: a reference cannot be loaded, cannot serve, or is the target itself.
        UsageError: `given` names something that is no reference, or leaves `public` without use.
        ManifestError: `public` has no public documents, or some of them are audited ones.
    """
    audited = AuditedModel(target, open_checkpoint(target_dir), corpus)
    folders = in_format_of(with_base(locate(corpus, given), audited.folder), target, audited.folder)
    if public is not None:
        folders = without_auxiliary(folders)
        refuse_audited(public, corpus)
    same_kind = load_same_kind([name for name in SAME_KIND if name in needs], audited, folders)
    if public is not None and not isinstance(target, EncoderTarget):
        raise UsageError(
            f"--reference public: {target.card.architecture} is attacked without a public model that is trained here"
        )
    if "auxiliary" not in needs or not proposed_to(target):
        prepared = ReferencePlan()
    else:
        prepared = _auxiliary(audited, folders, batch_tokens, public)
    started = "pretrained" in needs and not any(reference.role == "pretrained" for reference in same_kind)
    uncounted = [f"pretrained ({own.path.name})" for own in folders.get("pretrained", ())] if started else []
    return replace(
        prepared,
        same_kind=same_kind,
        adapter=adapter_words(audited.folder),
        uncounted=tuple(uncounted),
    )


def _auxiliary(
    audited: AuditedModel,
    given: Mapping[str, Sequence[GivenFolder]],
    batch_tokens: int | None,
    public: Corpus | None,
) -> ReferencePlan:
    """The public model, or what it would be trained from."""
    target = audited.target
    if "auxiliary" in given:
        (own,) = given["auxiliary"]
        refuse_the_target("auxiliary", own.checkpoint, audited.folder)
        return ReferencePlan(load_public(own.checkpoint, target, batch_tokens), own.source, folder=own.path)
    data = public or audited.corpus
    documents = data.of("public")
    if "pretrained" in given and (documents or not isinstance(target, EncoderTarget)):
        (own,) = given["pretrained"]
        folder = own.checkpoint
        refuse_the_target("pretrained", folder, audited.folder)
        if not isinstance(target, EncoderTarget):
            return ReferencePlan(pretrained_denoiser(folder, target), own.source, folder=own.path)
        if not has_masked_head(target):
            return ReferencePlan(not_taken=NO_HEAD)
        tokenizer = load_tokenizer(folder)
        check_tokens("pretrained", folder, tokenizer, target)
        images = partial(open_image, data)
        page_images = page_images_of(folder, config_of(folder), images)
        check_image_input("pretrained", folder, page_images, target)
        prepared = ReferencePlan(pretrained=own.path, documents=documents, images=images)
        if public is None:
            return prepared
        encoder = target.encoder
        Encoder(
            tokenizer, encoder.max_tokens, needs_boxes=encoder.needs_boxes, page_images=page_images
        ).check_vocabulary(documents)
        return replace(prepared, corpus=f"{public.manifest.name}, sha256 {public.sha256}")
    return ReferencePlan(not_taken=NO_PUBLIC if "pretrained" in given else None)


def complete(
    prepared: ReferencePlan,
    needs: Collection[str],
    target: Checkpoint,
    cache: Path,
    seed: int,
    progress: Progress,
    batch_tokens: int | None = None,
) -> LoadedReferences:
    """Train what is missing and can be trained; everything else is as `prepare` loaded it.

    Args:
        prepared: see `prepare`.
        needs: names of references.
        target: the audited checkpoint.
        cache: where trained references are kept, by content.
        seed: of the training.
        progress: told of every epoch.
        batch_tokens: see `EncoderTarget`.

    Raises:
        TargetError: the pretrained checkpoint cannot be trained.
        EngineError: the cache cannot be written.
    """
    given = _given_references(prepared, needs)
    if "auxiliary" not in needs or not proposed_to(target):
        return given
    auxiliary, path, recipe = prepared.auxiliary, prepared.folder, None
    source: Source | Literal["trained"] = prepared.source
    if auxiliary is None:
        if prepared.pretrained is None:
            advice = "; ".join(filter(None, (prepared.not_taken, provide(target))))
            return replace(given, missing={**given.missing, "auxiliary": advice})
        public = Recipe(seed=seed)
        device = target.card.device
        path = fit_public_mlm(
            prepared.pretrained,
            prepared.documents,
            cache,
            recipe=public,
            device=device,
            progress=progress,
            images=prepared.images,
        )
        auxiliary = load_public(path, target, batch_tokens)
        source, recipe = "trained", public.as_json()
    card = ReferenceCard("auxiliary", source, auxiliary.card, recipe, prepared.corpus)
    assert path is not None  # where there is an auxiliary, it was loaded from somewhere
    return replace(
        given,
        models={**given.models, "auxiliary": auxiliary},
        cards=(*given.cards, card),
        folders={**given.folders, "auxiliary": path},
    )


def _given_references(prepared: ReferencePlan, needs: Collection[str]) -> LoadedReferences:
    """The models of the target's own kind, which are given or missing, never trained here."""
    same_kind = prepared.same_kind
    missing = {}
    if "baselines" in needs and not any(reference.role.startswith("baseline-") for reference in same_kind):
        missing["baselines"] = PROVIDE_BASELINES if prepared.adapter is None else PROVIDE_BASELINES_OF_ADAPTER
    return LoadedReferences(
        models={reference.role: reference.target for reference in same_kind},
        cards=tuple(reference.card for reference in same_kind),
        missing=missing,
        folders={reference.role: reference.folder for reference in same_kind},
        members={reference.role: reference.members for reference in same_kind if reference.members is not None},
        uncounted=prepared.uncounted,
    )
