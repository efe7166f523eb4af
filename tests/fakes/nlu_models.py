"""Tiny utterances and NLU models, for every test that needs one; made from a seed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from audit.corpus.documents import Corpus, Document, Manifest, Membership, Split, Task, Word
from audit.extensions.papers.utterance_model import NluConfig, NluModel, Vocabulary

TAGS = ("O", "B-artist", "I-artist", "B-number", "I-number")
INTENTS = ("Play", "Rate", "Pin")
ARTISTS = ("anna berg", "tom okoro", "li wei", "sara lund", "abba")
DIGITS = tuple("0123456789")
WORDS = ("play", "by", "rate", "stars", "my", "pin", "is", *" ".join(ARTISTS).split(), *DIGITS)


def utterance(
    name: str, text: str, tags: Sequence[str], intent: str, split: Split = "member"
) -> Document:
    return Document(name, split, tuple(map(Word, text.split())), tags=tuple(tags), intent=intent)


def play(name: str, artist: str, split: Split = "member") -> Document:
    tags = ["O", "O", "B-artist", *["I-artist"] * (len(artist.split()) - 1)]
    return utterance(name, f"play by {artist}", tags, "Play", split)


def rate(name: str, digit: str, split: Split = "member") -> Document:
    return utterance(name, f"rate {digit} stars", ["O", "B-number", "O"], "Rate", split)


def pin(name: str, digits: Sequence[str], split: Split = "member") -> Document:
    tags = ["O", "O", "O", "B-number", *["I-number"] * (len(digits) - 1)]
    return utterance(name, " ".join(["my pin is", *digits]), tags, "Pin", split)


def documents() -> list[Document]:
    """Utterances of 3 to 7 words."""
    found = [play(f"p{index}", artist) for index, artist in enumerate(ARTISTS)]
    found += [rate(f"r{digit}", digit) for digit in DIGITS]
    return [*found, pin("s0", "4071"), pin("s1", "90"), pin("s2", "2255")]


def corpus(
    of: Sequence[Document], kind: str = "intent-slots", labels: tuple[str, ...] = TAGS
) -> Corpus:
    task = Task(kind, labels)  # type: ignore[arg-type]
    return Corpus(
        Path("nowhere"), Manifest(1, "utterances", task, Membership("random")), tuple(of), "0" * 64
    )


def model(
    *,
    characters: bool = False,
    seed: int = 0,
    tags: Sequence[str] = TAGS,
    words: Sequence[str] = WORDS,
    intents: Sequence[str] = INTENTS,
    embedding_size: int = 9,
    hidden_size: int = 7,
) -> tuple[NluModel, Vocabulary]:
    """A model with random weights, the CRF's too."""
    vocabulary = Vocabulary.of(words)
    torch.manual_seed(seed)
    made = NluModel(
        NluConfig(
            vocab_size=len(vocabulary.words),
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            n_characters=1 + len(vocabulary.characters) if characters else 0,
            input_dropout=0.2,
            state_dropout=0.1,
            intents=list(intents),
            id2label=dict(enumerate(tags)),
            label2id={tag: index for index, tag in enumerate(tags)},
        )
    )
    with torch.no_grad():
        for parameter in made.crf.parameters():
            parameter.normal_()
    if characters:
        made.spellings.copy_(torch.from_numpy(vocabulary.spellings(made.config.longest_word)))
    return made.eval(), vocabulary


def checkpoint(folder: Path, *, characters: bool = False, seed: int = 0, **sizes: int) -> Path:
    made, vocabulary = model(characters=characters, seed=seed, **sizes)
    made.save_pretrained(folder)
    vocabulary.save(folder)
    return folder


def spread(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random distributions along the last axis."""
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])
