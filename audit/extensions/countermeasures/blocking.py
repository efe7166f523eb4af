"""Extraction blocking (EB; Pinto et al. 2024, section 4): the model is taught to say that an answer is not there.

For each training sample (I, Q, a) the training set gains (I^-a, Q, "ANSWER NOT PRESENT"). It is a heuristic, and the
answer it teaches may tell a member from others: `audit.extensions.countermeasures.effects.side_channel` measures that.

It is trained on the recipe's epochs over both, samples and blocked samples, so that there are up to twice as many
steps; that is how the paper augments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from audit.corpus.documents import Corpus, Document, Question
from audit.corpus.images import page_view
from audit.corpus.removal import Removal, remove
from audit.engine.interface import Progress
from audit.errors import EngineError, ManifestError
from audit.extensions.countermeasures.changed_data import train_on, write_changed
from audit.extensions.countermeasures.interface import RetrainedModel, TrainingDefense

NOT_PRESENT = "ANSWER NOT PRESENT"
"""What the model is taught to say; the paper's words."""
SUFFIX = "-blocked"
FOLDER = "blocked"
"""Where the images of pages without their answers go."""


@dataclass(frozen=True, eq=False)
class Blocked:
    """A question on a page from which its answers were removed.

    Attributes:
        document: the page's document, as it was.
        question: the question, as it was.
        removal: the page without the answers.
    """

    document: Document
    question: Question
    removal: Removal


class Blocking(TrainingDefense):
    """Train on every question once more, on its page without the answer."""

    name = "blocking"
    title = "Extraction blocking"
    description = "taught to say when an answer is not on the page"
    teaches_refusal = True

    def train(self, corpus: Corpus, start: Path, out: Path, *, device: str, progress: Progress) -> RetrainedModel:
        """See `TrainingDefense.train`."""

        def write_data(folder: Path) -> None:
            write_blocked_corpus(corpus, folder)

        settings = [NOT_PRESENT]
        return train_on(write_data, corpus, start, out, self.name, settings, device=device, progress=progress)

    def refuses(self, answer: str) -> bool:
        """Return whether a reply is `NOT_PRESENT`, whatever its case and spacing."""
        return " ".join(answer.split()).casefold() == NOT_PRESENT.casefold()


def block_answers(corpus: Corpus, documents: Sequence[Document]) -> list[Blocked]:
    """Remove the answers of each question of these documents; images are opened when they are asked for.

    Returns:
        The questions whose answers could be removed. To teach the refusal on a page that shows the answer would teach
        not to read: left out are answers that are not found, that stand on an image without a box, or that are all
        that is on the page.
    """
    blocked: list[Blocked] = []
    for document in documents:
        view = page_view(corpus, document)
        for question in filter(attrgetter("answers"), document.questions):
            removal = remove(view, question.answers)
            shown = len(removal.boxes) < len(removal.words) if view.open_page is not None else not removal.view.words
            if removal.words and not shown:
                blocked.append(Blocked(document, question, removal))
    return blocked


def write_blocked_corpus(corpus: Corpus, out: Path) -> None:
    """Write the data set with its blocked copies: what a model with extraction blocking is trained on.

    Every question of a member or public document whose answer can be removed becomes a document of its own: the page
    without the answer, in the split of its document, with that one question, answered `NOT_PRESENT`. Public documents
    get such copies too, so that `train_baseline` on the written data set gives the baselines of a model with extraction
    blocking. All other documents are copied as they are. To audit the model, use the data set as it was.

    Args:
        corpus: the data set; references and canaries that its manifest names are left out.
        out: the folder for the new one, empty or missing.

    Raises:
        EngineError: `out` holds something, or cannot be written.
        ManifestError: no answer can be removed; an image cannot be opened; or its images lie in a folder that is ours,
            as in a data set that has blocked copies already.
    """
    if any((document.image or "").startswith(f"{FOLDER}/") for document in corpus.documents):
        raise ManifestError(f"{corpus.root} has images in {FOLDER}/ already", "give the data set as it was")
    blocked = block_answers(corpus, corpus.of("member", "public"))
    if not blocked:
        raise ManifestError(
            "no answer could be removed from its page: there is nothing to block",
            "give the pages' words, and their boxes where pages have images",
        )
    try:
        if out.exists() and any(out.iterdir()):
            raise EngineError(f"{out} is not empty", "choose another folder")
    except OSError as error:
        raise EngineError(f"{out}: {error.strerror or error}", "free some space or choose another folder") from None
    copies = [_copy_of(one, number) for number, one in enumerate(blocked)]
    redrawn = {
        copy.image: one.removal.view.open_page  # not `view.image`, which would be kept until all are written
        for copy, one in zip(copies, blocked, strict=True)
        if copy.image is not None and one.removal.view.open_page is not None
    }
    write_changed(corpus, [*corpus.documents, *copies], out, suffix=SUFFIX, redrawn=redrawn)


def _copy_of(one: Blocked, number: int) -> Document:
    """Make the blocked copy a document of its own, with the path of its image."""
    view = one.removal.view
    name = None if view.open_page is None else f"{FOLDER}/{number:06}.png"
    question = Question(one.question.id, one.question.question, (NOT_PRESENT,), paraphrases=one.question.paraphrases)
    return Document(
        f"{one.document.id}-{number:06}{SUFFIX}",
        one.document.split,
        view.words,
        name,
        view.size,
        one.document.provider,
        questions=(question,),
    )
