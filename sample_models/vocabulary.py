"""A WordPiece vocabulary for receipts, small and without a single unknown token."""

from __future__ import annotations

import string
from collections.abc import Iterable
from itertools import product

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(texts: Iterable[str], n_pieces: int, max_tokens: int) -> BertTokenizerFast:
    """BERT's tokenizer with pieces of words learned from `texts`, and numbers written as pairs of digits.

    Every printable ASCII character is an entry, so nothing is unknown. Numbers are not learned:
    their pieces are the single digits and all pairs, so that each pair of digits is one of 100 (the
    attack looks at 128 candidates for a token) and no number of the texts becomes an entry.

    Args:
        texts: what to learn from; never the audited documents.
        n_pieces: how many learned entries there may be, beside those that every vocabulary holds.
        max_tokens: the longest page the model reads.
    """
    fixed = [*SPECIAL, *_characters(), *_digits()]
    # The trainer numbers characters in the order of a hash table and breaks ties by these numbers,
    # so that it learns something else each time. Entries called special are numbered beforehand, in
    # our order.
    trainer = trainers.WordPieceTrainer(
        vocab_size=3 * n_pieces + len(fixed),
        min_frequency=2,
        special_tokens=fixed,
        show_progress=False,
    )
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(texts, trainer)
    learned = sorted(learner.get_vocab(), key=learner.token_to_id)
    known = set(fixed)
    entries = (
        fixed
        + [entry for entry in learned if entry not in known and not _has_digit(entry)][:n_pieces]
    )
    return BertTokenizerFast(
        vocab={entry: number for number, entry in enumerate(entries)},
        do_lower_case=True,
        model_max_length=max_tokens,
    )


def _characters() -> list[str]:
    letters = list(string.ascii_lowercase)
    return [*string.punctuation, *letters, *(f"##{letter}" for letter in letters)]


def _digits() -> list[str]:
    numbers = [*string.digits, *("".join(pair) for pair in product(string.digits, repeat=2))]
    return [*numbers, *(f"##{number}" for number in numbers)]


def _has_digit(entry: str) -> bool:
    return any(character.isdigit() for character in entry)
