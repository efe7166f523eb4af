"""References that attacks need, filled from the command line, from the manifest, or by training them."""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from audit import __version__
from audit.cards import ReferenceCard
from audit.case import References
from audit.corpus.documents import Corpus, Document
from audit.corpus.images import open_image
from audit.engine.interface import SILENT, Progress
from audit.errors import ManifestError, TargetError, UsageError
from audit.references import TEXTS, load, wording
from audit.references.provenance import refuse_the_target
from audit.references.recipes import Recipe, adapter_words, made_once, starting_model
from audit.targets.answering.denoiser import Denoiser, is_denoiser
from audit.targets.checkpoint.folder import AnyFolder, open_checkpoint
from audit.targets.checkpoint.loading import load_tokenizer
from audit.targets.encoders.encoding import Encoder
from audit.targets.encoders.families import OpenImage
from audit.targets.encoders.loading import config_of, max_tokens_of, page_images_of
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint


@dataclass(frozen=True)
class LoadedReferences:
    """The references that were given or trained, and what is missing.

    Attributes:
        loaded: the references, those of one kind in the order in which they are numbered.
        missing: for every reference that an attack needs and nobody gave, what to provide.
        uncounted: why references that were given and cannot be asked what the target is asked do
            not count.
    """

    loaded: tuple[load.Reference, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()

    @property
    def models(self) -> dict[str, Checkpoint | Denoiser]:
        """Return the models by role, see `References.of`."""
        return {one.role: one.target for one in self.loaded}

    @property
    def members(self) -> dict[str, frozenset[str]]:
        """Return for every split model the ids of the documents it was trained on."""
        return {one.role: one.members for one in self.loaded if one.members is not None}

    @property
    def cards(self) -> tuple[ReferenceCard, ...]:
        """Return their cards, for a record."""
        return tuple(one.card for one in self.loaded)

    @property
    def references(self) -> References:
        """Return the models as attacks take them."""
        return replace(References.of(self.models, self.members), uncounted=self.uncounted)


@dataclass(frozen=True)
class ReferencePlan:
    """What was given, loaded and checked, and what the auxiliary would be trained from.

    Nothing has been written yet.

    Attributes:
        same_kind: models of the target's own kind.
        auxiliary: the public model, when somebody gave one.
        train: trains it in a cache, when nobody did and there are a start and public documents.
        corpus: name and sha256 of the data set they come from, when it is not the audited one.
        adapter: the settings of the audited adapter, in words; None for a whole model.
        not_taken: why what the target was fine-tuned from makes no public model, where it was
            given.
        uncounted: see `LoadedReferences`.
    """

    same_kind: tuple[load.Reference, ...] = ()
    auxiliary: load.Reference | None = None
    train: Callable[..., Path] | None = None
    corpus: str | None = None
    adapter: str | None = None
    not_taken: str | None = None
    uncounted: tuple[str, ...] = ()

    def time_training(self, device: str, seconds: float) -> tuple[float, float]:
        """Estimate the seconds of training the auxiliary, at least and at most, from steps of so many seconds."""
        from audit.references.encoders import BestLoss

        assert self.train is not None
        began, watch = time.perf_counter(), BestLoss(lambda: None, seconds=seconds)
        self.train(Path(), recipe=Recipe(), device=device, watch=watch)
        return watch.time_since(began).of()


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
        target: the audited checkpoint; a reference must share its tokens and must not share its
            weights.
        target_dir: its folder.
        corpus: the data set, whose manifest may name references and whose `public` split may train
            one.
        given: references named on the command line; they outrank the manifest's.
        batch_tokens: see `EncoderTarget`.
        public: a data set whose public documents train the auxiliary instead of the audited one's;
            it outranks an auxiliary that the manifest names.

    Raises:
        TargetError: a reference cannot be loaded, cannot serve, or is the target itself.
        UsageError: `given` names something that is no reference, or leaves `public` without use.
        ManifestError: `public` has no public documents, or some of them are audited ones.
    """
    audited = load.AuditedModel(target, open_checkpoint(target_dir), corpus)
    folders = load.locate(audited, given)
    if public is not None:
        if "auxiliary" in given:
            raise UsageError(
                "--reference public and auxiliary=PATH: nothing would be trained",
                "give one of them",
            )
        if "pretrained" not in folders:
            problem = "--reference public: nothing to train on these documents"
            raise UsageError(problem, "add --reference pretrained=PATH")
        folders.pop("auxiliary", None)
        refuse_audited(public, corpus)
    same_kind, uncounted = load.load_same_kind(
        [name for name in load.SAME_KIND if name in needs], audited, folders
    )
    if public is not None and not isinstance(target, EncoderTarget):
        raise UsageError(
            f"--reference public: {target.card.architecture} is attacked without a public model that is trained here"
        )
    prepared = ReferencePlan()
    if "auxiliary" in needs and load.takes_public_model(target):
        prepared = _auxiliary(audited, folders, batch_tokens, public)
    return replace(
        prepared, same_kind=same_kind, adapter=adapter_words(audited.folder), uncounted=uncounted
    )


def _auxiliary(
    audited: load.AuditedModel,
    given: Mapping[str, Sequence[load.GivenFolder]],
    batch_tokens: int | None,
    public: Corpus | None,
) -> ReferencePlan:
    """Load the public model, or find what it would be trained from."""
    target = audited.target
    if "auxiliary" in given:
        (own,) = given["auxiliary"]
        refuse_the_target("auxiliary", own.checkpoint, audited.folder)
        loaded = load.load_public(own.checkpoint, target, batch_tokens)
        return ReferencePlan(
            auxiliary=load.Reference("auxiliary", own.checkpoint, own.source, loaded)
        )
    data = public or audited.corpus
    documents = data.of("public")
    if "pretrained" not in given:
        return ReferencePlan()
    (own,) = given["pretrained"]
    folder = own.checkpoint
    refuse_the_target("pretrained", folder, audited.folder)
    trains = isinstance(target, EncoderTarget) and load.has_masked_head(target)
    if not isinstance(target, EncoderTarget) or not trains or not documents:
        return _take_as_auxiliary(
            own, target, batch_tokens, TEXTS["no_public" if trains else "no_head"]
        )
    tokenizer = load_tokenizer(folder)
    load.check_tokens("pretrained", folder, tokenizer, target)
    images = partial(open_image, data)
    page_images = page_images_of(folder, config_of(folder), images)
    load.check_image_input("pretrained", folder, page_images, target)
    origin = None
    if public is not None:
        encoder = target.encoder
        reader = Encoder(
            tokenizer, encoder.max_tokens, needs_boxes=encoder.needs_boxes, page_images=page_images
        )
        reader.check_vocabulary(documents)
        origin = f"{public.manifest.name}, sha256 {public.sha256}"
    return ReferencePlan(
        train=partial(fit_public_mlm, own.path, documents, images=images), corpus=origin
    )


def _take_as_auxiliary(
    own: load.GivenFolder, target: Checkpoint, batch_tokens: int | None, lacking: str
) -> ReferencePlan:
    """Take what the target was fine-tuned from as its public model, untrained, where it can propose tokens to it."""
    if not load.is_masked(own.checkpoint) and (
        isinstance(target, EncoderTarget) or not is_denoiser(own.checkpoint)
    ):
        return ReferencePlan(not_taken=lacking)
    try:
        loaded = load.load_public(own.checkpoint, target, batch_tokens)
    except TargetError as error:
        return ReferencePlan(
            not_taken=f"{lacking}. As it is, it does not serve: {error.problems[0]}"
        )
    return ReferencePlan(auxiliary=load.Reference("auxiliary", own.checkpoint, own.source, loaded))


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
    loaded, missing = prepared.same_kind, {}
    if "baselines" in needs and not any(
        reference.role.startswith("baseline-") for reference in loaded
    ):
        missing["baselines"] = TEXTS["baselines"]
    if "auxiliary" in needs and load.takes_public_model(target):
        auxiliary = prepared.auxiliary
        if auxiliary is None and prepared.train is not None:
            recipe = Recipe(seed=seed)
            path = prepared.train(
                cache, recipe=recipe, device=target.card.device, progress=progress
            )
            own = open_checkpoint(path)
            public = load.load_public(own, target, batch_tokens)
            auxiliary = load.Reference(
                "auxiliary", own, "trained", public, recipe=recipe.as_json(), corpus=prepared.corpus
            )
        if auxiliary is None:
            missing["auxiliary"] = "; ".join(
                filter(None, (prepared.not_taken, load.advise_public_model(target)))
            )
        else:
            loaded = (*loaded, auxiliary)
    return LoadedReferences(loaded, missing, prepared.uncounted)


VALIDATION_SHARE = 0.1
"""Share of the public pages that choose the epoch (lowest loss) instead of training."""


def refuse_audited(public: Corpus, corpus: Corpus) -> None:
    """Refuse public documents that are audited ones: a model of them would hide what the target gives away.

    Raises:
        ManifestError: there are none, or some of them are.
    """
    if not public.of("public"):
        raise ManifestError(f"--reference public={public.root}: no document of split public")
    audited = {_texts(document) for document in corpus.of("member", "heldout") if document.words}
    shared = [document.id for document in public.of("public") if _texts(document) in audited]
    if shared:
        raise ManifestError(
            *wording(
                "public_audited",
                public=public.root,
                n=len(shared),
                audited=corpus.root,
                first=shared[0],
            )
        )


def _texts(document: Document) -> tuple[str, ...]:
    return tuple(word.text for word in document.words)


def fit_public_mlm(
    pretrained: Path,
    documents: Sequence[Document],
    cache: Path,
    *,
    recipe: Recipe,
    device: str = "cpu",
    progress: Progress = SILENT,
    images: OpenImage | None = None,
    watch: Any = None,
) -> Path:
    """Fine-tune `pretrained` on public documents as a masked language model, or find it in the cache.

    The cache is keyed by content: the pretrained checkpoint, the documents, the recipe and
    docaudit's version. A folder appears there whole or not at all. A pretrained encoder without a
    masked-language-model head gets a fresh one.

    Args:
        pretrained: a checkpoint of a known family, with or without a masked-language-model head.
        documents: the public ones.
        cache: the folder that keeps trained references; made when missing.
        recipe: how to train.
        device: "cpu", "cuda" or "mps".
        progress: told of every epoch.
        images: opens a document's page, for pretrained checkpoints that see it.
        watch: the `BestLoss` that times a few steps; nothing is kept then.

    Returns:
        The checkpoint's folder.

    Raises:
        TargetError: the pretrained checkpoint cannot be used, or no document has words (or the
            image that it sees).
        EngineError: the cache cannot be written.
    """
    start = open_checkpoint(pretrained)
    page_images = page_images_of(start, config_of(start), images)

    def train(folder: Path) -> None:
        # Imported here, as a scan that trains nothing starts sooner without.
        from audit.references.encoders import BestLoss, fit, save

        model = starting_model(start, "mlm", seed=recipe.seed)
        tokenizer = load_tokenizer(start)
        encoder = Encoder(
            tokenizer, max_tokens_of(model.config, tokenizer), page_images=page_images
        )
        pages = [page for page in map(encoder.encode, documents) if page is not None]
        n = int(VALIDATION_SHARE * len(pages))
        progress.stage("training the public model, epochs", recipe.epochs)
        kept, held = watch or BestLoss(progress.advance), () if watch else pages[:n]
        fitted = fit(
            model, tokenizer, pages[n:], recipe, validation=held, device=device, watch=kept
        )
        if fitted.loss is not None:
            fitted.model.load_state_dict(fitted.loss)
        if watch is None:
            save(fitted.model, tokenizer, folder, processor_of=start.path)

    if watch is not None:
        train(cache)
        return cache
    digest = hashlib.sha256(
        json.dumps([start.sha256, recipe.as_json(), __version__], sort_keys=True).encode()
    )
    for document in documents:
        digest.update(json.dumps(asdict(cast("Any", document)), sort_keys=True).encode() + b"\n")
        page_image = page_images(document) if page_images is not None else None
        if page_image is not None:
            # The document names a file; what was trained on is its content.
            digest.update(page_image.pixels.tobytes())

    return made_once(cache / f"public-mlm-{digest.hexdigest()[:16]}", train)
