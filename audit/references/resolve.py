"""References that attacks need, from the command line, from the manifest, or trained."""

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
from audit.targets.encoders.families import OpenImage, PageImageReader
from audit.targets.encoders.loading import config_of, max_tokens_of, page_images_of
from audit.targets.encoders.target import EncoderTarget
from audit.targets.opening import Checkpoint


@dataclass(frozen=True)
class LoadedReferences:
    """The references that were given or trained, and what is missing.

    Attributes:
        loaded: the references, those of one kind in the order in which they are numbered.
        missing: what to provide for every reference that an attack needs and nobody gave.
        uncounted: why references that were given and cannot be asked what the target is asked do
            not count.
    """

    loaded: tuple[load.Reference, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()

    @property
    def models(self) -> dict[str, Checkpoint | Denoiser]:
        """Return the loaded models by role, such as "baseline-0"."""
        return {reference.role: reference.target for reference in self.loaded}

    @property
    def members(self) -> dict[str, frozenset[str]]:
        """Return for each split model the ids of the documents that it was trained on."""
        return {
            reference.role: reference.members
            for reference in self.loaded
            if reference.members is not None
        }

    @property
    def cards(self) -> tuple[ReferenceCard, ...]:
        """Return the references' cards, for the record."""
        return tuple(reference.card for reference in self.loaded)

    @property
    def references(self) -> References:
        """Return the loaded models and their documents, as attacks take them."""
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
        """Return the least and the most seconds of training the public model.

        Args:
            device: "cpu", "cuda" or "mps".
            seconds: time for the steps from which that is told.
        """
        from audit.references.encoders import BestLoss

        assert self.train is not None
        began = time.perf_counter()
        watch = BestLoss(lambda: None, seconds=seconds)
        self.train(Path(), recipe=Recipe(), device=device, watch=watch)
        return watch.time_since(began).of()

    def lacks(self, need: str, target: Checkpoint) -> bool:
        """Tell whether a reference that an attack needs is neither given nor trained by the scan.

        Args:
            need: name of the reference.
            target: the audited checkpoint.
        """
        if need == "baselines":
            return not _has_baselines(self.same_kind)
        if need == "auxiliary" and load.takes_public_model(target):
            return self.auxiliary is None and self.train is None
        return False


def prepare(
    needs: Collection[str],
    target: Checkpoint,
    target_dir: AnyFolder,
    corpus: Corpus,
    given: Mapping[str, Sequence[Path]],
    batch_tokens: int | None = None,
    public: Corpus | None = None,
) -> ReferencePlan:
    """Return the references that attacks need, loaded, and a plan for one to be trained.

    Args:
        needs: names of references.
        target: the audited checkpoint; a reference must share its tokens and must not share its
            weights.
        target_dir: its folder.
        corpus: the data set, whose manifest may name references and whose `public` split may train
            one.
        given: references named on the command line; they outrank the manifest's.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.
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
        _check_public(public, corpus, given, folders)
        folders.pop("auxiliary", None)
    same_kind, uncounted = load.load_same_kind(
        [name for name in load.SAME_KIND if name in needs], audited, folders
    )
    if public is not None and target.takes_denoiser:
        raise UsageError(
            f"--reference public: {target.card.architecture} is attacked without a public model that is trained here"
        )
    prepared = ReferencePlan()
    if "auxiliary" in needs and load.takes_public_model(target):
        prepared = _auxiliary(audited, folders, batch_tokens, public)
    return replace(
        prepared, same_kind=same_kind, adapter=adapter_words(audited.folder), uncounted=uncounted
    )


def _check_public(
    public: Corpus,
    corpus: Corpus,
    given: Mapping[str, Sequence[Path]],
    folders: Mapping[str, Sequence[load.GivenFolder]],
) -> None:
    """Refuse a data set of public documents that trains nothing, or that has audited documents.

    Raises:
        UsageError: an auxiliary was given too, or nothing to train.
        ManifestError: see `refuse_audited`.
    """
    if "auxiliary" in given:
        raise UsageError(
            "--reference public and auxiliary=PATH: nothing would be trained",
            "give one of them",
        )
    if "pretrained" not in folders:
        problem = "--reference public: nothing to train on these documents"
        raise UsageError(problem, "add --reference pretrained=PATH")
    refuse_audited(public, corpus)


def _auxiliary(
    audited: load.AuditedModel,
    given: Mapping[str, Sequence[load.GivenFolder]],
    batch_tokens: int | None,
    public: Corpus | None,
) -> ReferencePlan:
    """Return a plan with the public model loaded, or with what it can be trained from."""
    target = audited.target
    if "auxiliary" in given:
        (auxiliary,) = given["auxiliary"]
        refuse_the_target("auxiliary", auxiliary.checkpoint, audited.folder)
        return _with_auxiliary(auxiliary, target, batch_tokens)
    if "pretrained" not in given:
        return ReferencePlan()
    (pretrained,) = given["pretrained"]
    refuse_the_target("pretrained", pretrained.checkpoint, audited.folder)
    if not load.has_masked_head(target):
        return _take_as_auxiliary(pretrained, target, batch_tokens, TEXTS["no_head"])
    if not (public or audited.corpus).of("public"):
        return _take_as_auxiliary(pretrained, target, batch_tokens, TEXTS["no_public"])
    return _plan_training(pretrained, audited, public)


def _plan_training(
    pretrained: load.GivenFolder, audited: load.AuditedModel, public: Corpus | None
) -> ReferencePlan:
    """Return the plan of training a public model, after checking that it can be trained.

    Args:
        pretrained: what the target was fine-tuned from.
        audited: the target, an encoder with a masked language model, and its data set.
        public: another data set, whose public documents are learnt from.

    Raises:
        TargetError: it reads other tokens or images than the target.
    """
    target = audited.target
    folder = pretrained.checkpoint
    tokenizer = load_tokenizer(folder)
    load.check_tokens("pretrained", folder, tokenizer, target)
    data = public or audited.corpus
    documents = data.of("public")
    images = partial(open_image, data)
    page_images = page_images_of(folder, config_of(folder), images)
    load.check_image_input("pretrained", folder, page_images, target)
    origin = None
    if public is not None:
        encoder = cast("EncoderTarget", target).encoder
        reader = Encoder(
            tokenizer, encoder.max_tokens, needs_boxes=encoder.needs_boxes, page_images=page_images
        )
        reader.check_vocabulary(documents)
        origin = f"{public.manifest.name}, sha256 {public.sha256}"
    train = partial(fit_public_mlm, pretrained.path, documents, images=images)
    return ReferencePlan(train=train, corpus=origin)


def _take_as_auxiliary(
    pretrained: load.GivenFolder, target: Checkpoint, batch_tokens: int | None, lacking: str
) -> ReferencePlan:
    """Return a plan with the pretrained start as public model, or why it cannot serve.

    Args:
        pretrained: its folder. It serves where it can propose tokens to the target.
        target: the audited model.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.
        lacking: why none is trained from it.
    """
    folder = pretrained.checkpoint
    denoises = target.takes_denoiser and is_denoiser(folder)
    if not denoises and not load.is_masked(folder):
        return ReferencePlan(not_taken=lacking)
    try:
        return _with_auxiliary(pretrained, target, batch_tokens)
    except TargetError as error:
        return ReferencePlan(
            not_taken=f"{lacking}. As it is, it does not serve: {error.problems[0]}"
        )


def _with_auxiliary(
    folder: load.GivenFolder, target: Checkpoint, batch_tokens: int | None
) -> ReferencePlan:
    """Return a plan with the public model in a folder loaded.

    Raises:
        TargetError: see `load.load_public`.
    """
    loaded = load.load_public(folder.checkpoint, target, batch_tokens)
    reference = load.Reference("auxiliary", folder.checkpoint, folder.source, loaded)
    return ReferencePlan(auxiliary=reference)


def complete(
    prepared: ReferencePlan,
    needs: Collection[str],
    target: Checkpoint,
    cache: Path,
    seed: int,
    progress: Progress,
    batch_tokens: int | None = None,
) -> LoadedReferences:
    """Return all references, after training the planned one.

    Args:
        prepared: references that were prepared, see `prepare`.
        needs: names of references.
        target: the audited checkpoint.
        cache: folder that trained references are kept in, by content.
        seed: seed of the training.
        progress: receiver of the progress, told of every epoch.
        batch_tokens: number of tokens of a batch, see `EncoderTarget`.

    Raises:
        TargetError: the pretrained checkpoint cannot be trained.
        EngineError: the cache cannot be written.
    """
    loaded = prepared.same_kind
    missing: dict[str, str] = {}
    if "baselines" in needs and not _has_baselines(loaded):
        missing["baselines"] = TEXTS["baselines"]
    if "auxiliary" in needs and load.takes_public_model(target):
        auxiliary = prepared.auxiliary
        if auxiliary is None and prepared.train is not None:
            recipe = Recipe(seed=seed)
            path = prepared.train(
                cache, recipe=recipe, device=target.card.device, progress=progress
            )
            folder = open_checkpoint(path)
            auxiliary = load.Reference(
                "auxiliary",
                folder,
                "trained",
                load.load_public(folder, target, batch_tokens),
                recipe=recipe.as_json(),
                corpus=prepared.corpus,
            )
        if auxiliary is not None:
            loaded = (*loaded, auxiliary)
        else:
            reasons = (prepared.not_taken, load.advise_public_model(target))
            missing["auxiliary"] = "; ".join(reason for reason in reasons if reason)
    return LoadedReferences(loaded, missing, prepared.uncounted)


def _has_baselines(references: Sequence[load.Reference]) -> bool:
    """Test whether one of the references is a baseline."""
    return any(reference.role.startswith("baseline-") for reference in references)


VALIDATION_SHARE = 0.1
"""Share of the public pages that choose the epoch (lowest loss) instead of training."""


def refuse_audited(public: Corpus, corpus: Corpus) -> None:
    """Refuse public documents that are copies of audited ones.

    A model of them would hide what the target gives away.

    Raises:
        ManifestError: there are none, or some of them are.
    """
    if not public.of("public"):
        raise ManifestError(f"--reference public={public.root}: no document of split public")
    audited = {
        _word_texts(document) for document in corpus.of("member", "heldout") if document.words
    }
    shared = [document.id for document in public.of("public") if _word_texts(document) in audited]
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


def _word_texts(document: Document) -> tuple[str, ...]:
    """Return the texts of a document's words; equal texts mark copies."""
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
    """Return the folder of a public model, trained on public documents or found in the cache.

    The cache is keyed by content: the pretrained checkpoint, the documents, the recipe and
    docaudit's version. A folder appears there whole or not at all. A pretrained encoder without a
    masked-language-model head gets a fresh one.

    Args:
        pretrained: a checkpoint of a known family, with or without a masked-language-model head.
        documents: the public ones.
        cache: the folder that keeps trained references; made when missing.
        recipe: recipe of the training.
        device: "cpu", "cuda" or "mps".
        progress: receiver of the progress, told of every epoch.
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
        """Train the public model and write it to `folder`, with its lowest validation loss."""
        # Imported here, as a scan that trains nothing starts sooner without.
        from audit.references.encoders import BestLoss, fit, save

        model = starting_model(start, "mlm", seed=recipe.seed)
        tokenizer = load_tokenizer(start)
        encoder = Encoder(
            tokenizer, max_tokens_of(model.config, tokenizer), page_images=page_images
        )
        pages = [page for page in map(encoder.encode, documents) if page is not None]
        n_validation = int(VALIDATION_SHARE * len(pages))
        progress.stage("training the public model, epochs", recipe.epochs)
        fitted = fit(
            model,
            tokenizer,
            pages[n_validation:],
            recipe,
            validation=() if watch else pages[:n_validation],
            device=device,
            watch=watch or BestLoss(progress.advance),
        )
        if fitted.loss is not None:
            fitted.model.load_state_dict(fitted.loss)
        if watch is None:
            save(fitted.model, tokenizer, folder, processor_of=start.path)

    if watch is not None:
        train(cache)
        return cache
    origin = json.dumps([start.sha256, recipe.as_json(), __version__], sort_keys=True)
    key = _digest_of_training(origin, documents, page_images)
    return made_once(cache / f"public-mlm-{key[:16]}", train)


def _digest_of_training(
    origin: str, documents: Sequence[Document], page_images: PageImageReader | None
) -> str:
    """Return the hex sha256 of all that a public model is trained from.

    Args:
        origin: the start, the recipe and docaudit's version, as JSON.
        documents: documents that are learnt from.
        page_images: gives their images; None for a model that sees none.
    """
    digest = hashlib.sha256(origin.encode())
    for document in documents:
        digest.update(json.dumps(asdict(cast("Any", document)), sort_keys=True).encode() + b"\n")
        if page_images is None:
            continue
        page_image = page_images(document)
        if page_image is not None:
            # The document names a file; what was trained on is its content.
            digest.update(page_image.pixels.tobytes())
    return digest.hexdigest()
