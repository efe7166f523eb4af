"""Canaries put into a data set (methods/canaries.md): a new data set, and what was drawn for it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from audit.corpus import manifest as manifests
from audit.corpus.canaries import schema
from audit.corpus.canaries.pages import WordCell, cells_of, find_blank_box, image_of, page_of
from audit.corpus.canaries.validation import tokens_of
from audit.corpus.documents import Box, CanaryPath, Corpus, Document, Manifest, ReferencePaths
from audit.corpus.images import image_path, open_image
from audit.corpus.manifest import check_destination, copy_image, draft_of
from audit.corpus.problems import inside
from audit.corpus.replacing import settle
from audit.corpus.tagging import scheme_of
from audit.errors import ManifestError, UsageError
from audit.files import write_atomically

FILE_NAME = "canaries.json"
FOLDER = "canaries"
"""Folder of the images of pages with canaries go."""
SUFFIX = "-canaries"
MIN_COUNT = 2
MAX_COUNT = 10_000
"""Names do not run out, and no bound on epsilon gains by more."""
_CONSONANTS = "bdfgklnprstvz"
_VOWELS = "aeiou"
_SYLLABLES = 3


@dataclass(frozen=True)
class InsertReport:
    """What was put in.

    Attributes:
        canaries: canaries as the new data set's canary file has them.
        counts: of them and of the documents that were added, all of split member.
        labels: labels that were added to `task.labels`.
        references: named by the old manifest and left out of the new one.
        cap: what epsilon these coins can show at most, at delta 0 and 95 % confidence, half of them
            choosing the threshold; of `repeat` records together. None: there are too few to show
            any.
    """

    canaries: schema.CanarySet
    counts: schema.CanaryCounts
    labels: tuple[str, ...]
    references: tuple[str, ...]
    cap: float | None


def insert(
    corpus: Corpus,
    out: Path,
    *,
    pattern: str | Sequence[str],
    count: int,
    repeat: int | Sequence[int],
    length: int,
    seed: int,
) -> InsertReport:
    """Write a copy of the data set with canaries in it.

    Each canary has a nonsense word of its own, a completion drawn uniformly from the pattern's
    candidates, and a fair coin; all are independent of each other, and each kind of draw has its
    own stream of the seed, so that a coin shows in nothing but in whether the canary is there. An
    included canary becomes `repeat` documents of split member: an utterance; on pages with boxes,
    one more line in a blank box of a copied member page, in its words and its image; in text
    without boxes, a document of one line. Where a question asks for it, no page prints the
    completion, so that it can only be remembered. References are left out: their outputs lack the
    new tags, they may be large, and `--reference` names them.

    Args:
        corpus: without canaries.
        out: a new folder.
        pattern: one of `schema.PATTERNS`, or several that take turns.
        count: canaries, both kinds together, 2 to `MAX_COUNT`.
        repeat: copies of each that is included, 1 to `schema.MAX_REPEAT`; or several that take
            turns.
        length: words of a completion, 1 to `schema.MAX_LENGTH`.
        seed: every random choice follows from it.

    Raises:
        UsageError: an option is out of range, or `out` holds something.
        ManifestError: the task has no canaries, the data set has some already, or has no document
            to carry one.
        EngineError: `out` cannot be written.
    """
    patterns = (pattern,) if isinstance(pattern, str) else tuple(pattern)
    tiers = (repeat,) if isinstance(repeat, int) else tuple(repeat)
    _check_options(patterns, count, tiers, length, seed)
    _check_corpus(corpus)
    settle([out.resolve()], out.resolve() / manifests.FILE_NAME)
    check_destination(out)
    drawn = tuple(_draw_canaries(corpus, patterns, count, tiers, length, seed))
    canaries = schema.CanarySet(
        "audit", seed, max(tiers), length, drawn, tiers if len(tiers) > 1 else ()
    )
    labels = _new_labels(corpus.manifest)
    task = replace(corpus.manifest.task, labels=(*corpus.manifest.task.labels, *labels))
    manifest = replace(
        corpus.manifest,
        name=corpus.manifest.name + SUFFIX,
        task=task,
        references=ReferencePaths(),
        canaries=CanaryPath(FILE_NAME),
    )
    _publish(out, corpus, manifest, canaries)
    references = tuple(name for name, value in vars(corpus.manifest.references).items() if value)
    return InsertReport(
        canaries, schema.count_canaries(canaries), labels, references, _largest_epsilon(count)
    )


def _check_options(
    patterns: Sequence[str], count: int, tiers: Sequence[int], length: int, seed: int
) -> None:
    """Refuse patterns, numbers of canaries and copies, or lengths that are out of range."""
    if not patterns or not {*patterns} <= {*schema.PATTERNS} or len({*patterns}) < len(patterns):
        known = ", ".join(schema.PATTERNS)
        raise UsageError(
            "no such pattern of canaries", f"--pattern is one of {known}, or several once"
        )
    if not tiers or len({*tiers}) < len(tiers):
        raise UsageError("no such numbers of copies", "--repeat is one number, or several once")
    ranges = [("count", count, MIN_COUNT, MAX_COUNT), ("length", length, 1, schema.MAX_LENGTH)]
    ranges += [("repeat", tier, 1, schema.MAX_REPEAT) for tier in tiers]
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise UsageError(f"{name} {value} is out of range: {low} to {high}")
    if seed < 0:
        raise UsageError("the seed must not be negative")


def _check_corpus(corpus: Corpus) -> None:
    """Refuse a data set that canaries cannot be put into, or that has some.

    Raises:
        ManifestError: it is one.
    """
    kind = corpus.manifest.task.kind
    if kind not in schema.TASKS:
        reason = f"task.kind: the loss of {kind} is not defined for a canary's completion"
        raise ManifestError(reason, f"canaries are for {', '.join(schema.TASKS)}")
    if not corpus.of("member"):
        raise ManifestError("no document of split member: canaries belong among training documents")
    if _has_canaries(corpus):
        raise ManifestError(
            "the data set has canaries already", "give the data set as it was before"
        )
    for document in corpus.documents:
        if _is_of_canary(document):
            raise ManifestError(
                f"the data set has canaries already: document {document.id}",
                "give the first data set",
            )


def _has_canaries(corpus: Corpus) -> bool:
    """Test whether a manifest, its labels, or the names of its files speak of canaries."""
    manifest = corpus.manifest
    if manifest.canaries is not None:
        return True
    if not {*schema.TAGS, schema.LABEL}.isdisjoint(manifest.task.labels):
        return True
    files = {manifest.documents}
    files.update(document.image for document in corpus.documents if document.image)
    return any(name == FILE_NAME or name.startswith(f"{FOLDER}/") for name in files)


def _is_of_canary(document: Document) -> bool:
    """Test whether an id, label or tag in a document is one that canaries have."""
    names = {*(document.tags or ())}
    names.update(question.id for question in document.questions)
    for entity in document.entities:
        names |= {entity.id, entity.label}
    return not names.isdisjoint((schema.LABEL, *schema.TAGS))


def _draw_canaries(
    corpus: Corpus,
    patterns: Sequence[str],
    count: int,
    tiers: Sequence[int],
    length: int,
    seed: int,
) -> Iterator[schema.Canary]:
    """Draw the canaries; all draws for one are made whether or not its coin puts it in.

    Patterns take turns, and tiers of copies for each pattern: neither depends on a coin.
    """
    coins = _stream(seed, "coins").integers(0, 2, count)
    draws = _stream(seed, "completions")
    kinds = [patterns[number % len(patterns)] for number in range(count)]
    completions = [
        draws.integers(0, len(schema.PATTERNS[kind].candidates), length) for kind in kinds
    ]
    names = _names(corpus, count, _stream(seed, "names"))
    prefixes = [schema.PATTERNS[kind].prefix(name) for kind, name in zip(kinds, names, strict=True)]
    carriers = _carriers(corpus, kinds, prefixes, length, seed)
    printed = corpus.manifest.task.kind != "question-answering"
    for number, (prefix, (carrier, box)) in enumerate(zip(prefixes, carriers, strict=True)):
        name = f"c{number:05}"
        included = bool(coins[number])
        family = schema.PATTERNS[kinds[number]]
        repeat = tiers[number // len(patterns) % len(tiers)]
        documents = tuple(f"canary-{name}-{copy:05}" for copy in range(repeat)) if included else ()
        completion = tuple(family.candidates[index] for index in completions[number])
        copies = len(documents)
        yield schema.Canary(
            name,
            kinds[number],
            prefix,
            completion,
            included,
            copies,
            carrier,
            box,
            documents,
            printed,
        )


def _stream(seed: int, purpose: str) -> np.random.Generator:
    """Make the random generator of one purpose: that of another reveals nothing about it."""
    return np.random.default_rng([seed, *f"canaries/{purpose}".encode()])


def _names(corpus: Corpus, count: int, rng: np.random.Generator) -> list[str]:
    """Make distinct nonsense words that occur nowhere in the data set."""
    taken = set[str]().union(*map(tokens_of, corpus.documents))
    names: list[str] = []
    while len(names) < count:
        letters = zip(
            rng.choice([*_CONSONANTS], _SYLLABLES), rng.choice([*_VOWELS], _SYLLABLES), strict=True
        )
        name = "".join(consonant + vowel for consonant, vowel in letters)
        if name not in taken:
            taken.add(name)
            names.append(name)
    return names


def _carriers(
    corpus: Corpus,
    kinds: Sequence[str],
    prefixes: Sequence[tuple[str, ...]],
    length: int,
    seed: int,
) -> Iterator[tuple[str | None, Box | None]]:
    """Yield for each canary a member page and a blank box on it.

    No page twice as long as there are enough.
    """
    carriers = _possible_carriers(corpus)
    if not carriers:
        for _ in prefixes:
            yield None, None
        return
    rng = _stream(seed, "places")
    waiting = [carriers[index] for index in rng.permutation(len(carriers))]
    for kind, prefix in zip(kinds, prefixes, strict=True):
        cells = cells_of(kind, prefix, (None,) * length)
        carrier, box = _next_place(corpus, waiting, cells, rng)
        yield carrier.id, box
        waiting.append(carrier)


def _possible_carriers(corpus: Corpus) -> list[Document]:
    """List the member pages that can carry a canary's line.

    None, where a canary is its own document.

    Raises:
        ManifestError: no member document can carry one, nor has words alone.
    """
    if corpus.manifest.task.kind == "intent-slots":
        return []
    members = corpus.of("member")
    carriers = [member for member in members if member.words and member.words[0].box is not None]
    if carriers or any(member.words and member.image is None for member in members):
        return carriers
    hint = "give pages words with boxes; without an image, words are enough"
    raise ManifestError("no member document can carry a canary", hint)


def _next_place(
    corpus: Corpus, waiting: list[Document], cells: Sequence[WordCell], rng: np.random.Generator
) -> tuple[Document, Box]:
    """Take the first waiting page with a blank box wide enough, and those before it, off the list.

    Raises:
        ManifestError: no page has one.
    """
    while waiting:
        carrier = waiting.pop(0)
        page = None if carrier.image is None else open_image(corpus, carrier)
        box = find_blank_box(carrier, page, cells, rng)
        if box is not None:
            return carrier, box
    reason = "no blank place on any member page is wide enough for a canary's line"
    raise ManifestError(reason, "choose a smaller --length")


def _new_labels(manifest: Manifest) -> tuple[str, ...]:
    """Return the tags that the task's labels lack; none where the manifest names no labels."""
    task = manifest.task
    if not task.labels or task.kind not in ("token-classification", "intent-slots"):
        return ()
    if task.kind == "intent-slots":
        return schema.TAGS
    scheme = scheme_of(task.labels, task.outside)
    own = {"BIO": schema.TAGS, "IO": scheme.tags_of(schema.LABEL, 1)}
    return own.get(
        scheme.name,
        tuple(f"{prefix}-{schema.LABEL}" for prefix in ("B", "I", scheme.end, scheme.single)),
    )


def _publish(out: Path, corpus: Corpus, manifest: Manifest, canaries: schema.CanarySet) -> None:
    """Write the new data set, and load it as a scan would before it gets its name."""
    with draft_of(out, "canaries") as draft:
        for document in corpus.documents:
            if document.image is not None:
                inside(draft, document.image)
                copy_image(image_path(corpus, document), draft, document.image)
        inserted: list[Document] = []
        for canary in canaries.canaries:
            inserted += _write_documents(corpus, canary, draft)
        text = json.dumps(schema.CANARY_SET.dump_python(canaries, mode="json"), indent=1)
        write_atomically(draft / FILE_NAME, f"{text}\n".encode(), mode=0o600)
        manifests.write(draft, manifest, [*corpus.documents, *inserted])
        manifests.load(draft)


def _write_documents(corpus: Corpus, canary: schema.Canary, folder: Path) -> Iterator[Document]:
    """Yield the canary's documents; they share one image, which is written."""
    if not canary.included:
        return
    page = page_of(corpus, canary, canary.completion)
    if page.image is not None:
        page = replace(page, image=f"{FOLDER}/{canary.id}.png")
        assert page.image is not None
        (folder / FOLDER).mkdir(exist_ok=True)
        completion = canary.completion if canary.printed else None
        image_of(corpus, canary, completion).save(folder / page.image)
    yield from (replace(page, id=name) for name in canary.documents)


def _largest_epsilon(count: int) -> float | None:
    """Compute the largest epsilon that `count` canaries can show; None for too few."""
    from audit.stats.epsilon import lower_bound, needed_canaries

    evaluated = count - count // 2
    return lower_bound(evaluated, evaluated, evaluated) if count >= needed_canaries() else None
