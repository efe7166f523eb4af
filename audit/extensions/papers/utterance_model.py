"""The NLU model of Parikh et al. 2022 (section 4.1), as a `PreTrainedModel`.

Saved and loaded like transformers' own.

A word's vector, and where there is a character layer what a convolution makes of its characters (Ma
& Hovy 2016), go into two BiLSTM layers. A dense layer and a linear-chain CRF give the tags, another
dense layer and a softmax the intent from the sentence's vector. The loss of a sentence is the sum
of the CRF's negative log-likelihood and the intent's cross-entropy.

Where the papers are silent: the sentence's vector is the last state of either direction of the last
layer; dropout stands before the first BiLSTM and after the last one; words that the vocabulary
lacks show no characters.

There is no padding: the utterances of a batch have the same number of words.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks
settings against them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, initialization
from transformers.modeling_outputs import ModelOutput

from audit.arrays import Ints
from audit.errors import TargetError
from audit.targets.batching import STEP

FILE = "vocabulary.json"
UNKNOWN = "[UNK]"
UNKNOWN_ID = 0
_MAX_BYTES = 64 * 2**20
"""A larger file is not read: a million words take some 10 MB."""


@dataclass(frozen=True)
class Vocabulary:
    """Words in the order of their ids; the first one is [UNK], which stands for all others.

    Attributes:
        words: spelled exactly as in the documents.
    """

    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Self:
        """Return the vocabulary of these words, sorted, each once."""
        return cls((UNKNOWN, *sorted({*words} - {UNKNOWN})))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `vocabulary.json` of a checkpoint.

        Raises:
            TargetError: it is missing, too large, or no list of different words that begins with
                [UNK].
        """
        path = folder / FILE
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                raise TargetError(
                    f"{folder}: no {FILE}", "save the model's words beside its weights"
                )
            words = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            raise TargetError(f"{path}: not readable as JSON") from None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise TargetError(f"{path}: not a list of words")
        if words[:1] != [UNKNOWN] or len(set(words)) != len(words):
            raise TargetError(f"{path}: the words must be different and begin with {UNKNOWN}")
        return cls(tuple(words))

    def save(self, folder: Path) -> None:
        """Write `vocabulary.json`."""
        content = json.dumps(self.words, ensure_ascii=False, indent=0)
        (folder / FILE).write_text(content + "\n", encoding="utf-8")

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Return the id of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def ids_of(self, words: Iterable[str]) -> Ints:
        """Return the id of each word, that of [UNK] for those that are not here: (n_words,)."""
        return np.array([self._ids.get(word, UNKNOWN_ID) for word in words], np.int64)

    @cached_property
    def characters(self) -> tuple[str, ...]:
        """List the characters of all words but [UNK], sorted.

        Character number i + 1 stands here at place i.
        """
        return tuple(sorted({character for word in self.words[1:] for character in word}))

    def spellings(self, longest: int) -> Ints:
        """Return the characters of each word by number, 0 after its end.

        Shape (n_words, longest); [UNK] has none.

        Args:
            longest: characters kept of a word.
        """
        numbers = {character: number for number, character in enumerate(self.characters, start=1)}
        table = np.zeros((len(self.words), longest), np.int64)
        for row, word in enumerate(self.words[1:], start=1):
            own = [numbers[character] for character in word[:longest]]
            table[row, : len(own)] = own
        return table

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the words of these ids, joined by single spaces."""
        return " ".join(self.words[index] for index in ids)


@strict
class NluConfig(PretrainedConfig):  # type: ignore[misc]
    """What an `NluModel` is made of. The tags are `id2label`, in the order of its outputs.

    Sizes that Ma & Hovy (2016) give are theirs: 30 filters of window 3 over 30-dimensional
    characters.

    Attributes:
        vocab_size: words, the unknown one included.
        embedding_size: size of a word's vector.
        hidden_size: size of one direction of a BiLSTM layer.
        n_layers: BiLSTM layers; 2 in Parikh et al. 2022.
        n_characters: known characters and the blank; 0: no character layer.
        longest_word: characters of a word that the character layer reads; the rest is cut.
        character_size: size of a character's vector.
        character_filters: outputs of the convolution over a word's characters.
        character_window: characters that a filter sees; odd.
        input_dropout: dropout on what goes into the first BiLSTM: word vector and character vector.
        state_dropout: dropout on the last BiLSTM's states and on the sentence's vector, before the
            dense layers.
        intents: their names, in the order of the model's outputs.
        max_tokens: the longest utterance; longer ones are cut to a window.
    """

    model_type = "docaudit-nlu"
    vocab_size: int = 1
    embedding_size: int = 50
    hidden_size: int = 48
    n_layers: int = 2
    n_characters: int = 0
    longest_word: int = 20
    character_size: int = 30
    character_filters: int = 30
    character_window: int = 3
    input_dropout: float = 0.0
    state_dropout: float = 0.0
    intents: list[str] | tuple[str, ...] = ()
    max_tokens: int = 256

    @property
    def input_size(self) -> int:
        """Return the size of what goes into the first BiLSTM for one token."""
        return self.embedding_size + (self.character_filters if self.n_characters else 0)


AutoConfig.register(NluConfig.model_type, NluConfig)


def steady_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply (..., k) by (k, m), with k and m filled up to multiples of `STEP`.

    Rows are the caller's.
    """
    k, m = right.shape
    if k % STEP or m % STEP:
        left = nn.functional.pad(left, (0, -k % STEP))
        right = nn.functional.pad(right, (0, -m % STEP, 0, -k % STEP))
    return (left @ right)[..., :m]


class SteadyLinear(nn.Linear):
    """A dense layer that computes as `steady_product` does, once it is trained."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply the layer with the same bits for a row whatever rows are beside it."""
        if self.training:
            return super().forward(input)
        return steady_product(input, self.weight.T) + self.bias


class LinearChainCrf(nn.Module):
    """Scores sequences of tags.

    What each token says of its tag, and how well each tag follows the one before.

    Sums of exponentials over tags are matrix products of exponentials, each row taken relative to
    its largest entry: what underflows there is below a sum's last bit, as long as no transition
    falls under -80 or so.

    Args:
        n_tags: L.
    """

    def __init__(self, n_tags: int) -> None:
        """Build a CRF of `n_tags` tags, whose scores of transitions start at 0."""
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        """Score of the second tag (column) after the first (row)."""
        self.starts = nn.Parameter(torch.zeros(n_tags))
        self.ends = nn.Parameter(torch.zeros(n_tags))

    def score(self, emissions: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Return the score of one sequence of tags for each sentence: (n,).

        Args:
            emissions: (n, n_tokens, L) what each token says of its tag.
            tags: (n, n_tokens) the sequences.
        """
        emitted = emissions.gather(-1, tags[..., None])[..., 0].sum(dim=1)
        followed = self.transitions[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        return emitted + followed + self.starts[tags[:, 0]] + self.ends[tags[:, -1]]

    def log_partition(self, emissions: torch.Tensor) -> torch.Tensor:
        """Compute the log of the sum of exp(score) over all tag sequences, for each sentence: (n,).

        Args:
            emissions: (n, n_tokens, L).
        """
        return torch.logsumexp(self._forward_scores(emissions)[-1] + self.ends, dim=-1)

    def costs(self, emissions: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Compute the negative log-likelihood of the tags of each sentence: (n,), nats.

        Args:
            emissions: (n, n_tokens, L).
            tags: (n, n_tokens).
        """
        return self.log_partition(emissions) - self.score(emissions, tags)

    def marginals(self, emissions: torch.Tensor) -> torch.Tensor:
        """Return the probability of each tag for each token, by forward-backward.

        Shape (n, n_tokens, L), rows sum to 1.

        Args:
            emissions: (n, n_tokens, L).
        """
        before = torch.stack(self._forward_scores(emissions), dim=1)
        return torch.softmax(before + torch.stack(self._backward_scores(emissions), dim=1), dim=-1)

    def _forward_scores(self, emissions: torch.Tensor) -> list[torch.Tensor]:
        """Sum for each token over all beginnings that end in each tag there, as a log: (n, L)."""
        steps = emissions.unbind(dim=1)
        scores = [self.starts + steps[0]]
        following = self.transitions.exp()
        for step in steps[1:]:
            scores.append(self._log_product(scores[-1], following) + step)
        return scores

    def _backward_scores(self, emissions: torch.Tensor) -> list[torch.Tensor]:
        """Sum for each token over all continuations after each tag there, as a log: (n, L)."""
        steps = emissions.unbind(dim=1)
        scores = [self.ends.expand_as(steps[0])]
        preceding = self.transitions.exp().T
        for step in reversed(steps[1:]):
            scores.append(self._log_product(scores[-1] + step, preceding))
        return scores[::-1]

    def _log_product(self, scores: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """Compute log(exp(scores) @ factors) for (n, L) and (L, L)."""
        largest = scores.detach().amax(dim=-1, keepdim=True)
        product = torch.matmul if self.training else steady_product
        return product((scores - largest).exp(), factors).log() + largest


@dataclass
class NluOutput(ModelOutput):  # type: ignore[misc]
    """What the model says of n utterances of one length.

    Attributes:
        losses: (n,) nats, where tags and intents are given.
        emissions: (n, n_tokens, n_tags) what goes into the CRF.
        intent_logits: (n, n_intents).
    """

    losses: torch.Tensor | None = None
    emissions: torch.Tensor | None = None
    intent_logits: torch.Tensor | None = None


class CharacterLayer(nn.Module):
    """A vector from the characters of a word.

    Embeddings, a convolution, the largest value of each filter.
    """

    def __init__(self, config: NluConfig) -> None:
        """Build the convolution over the characters of a word."""
        super().__init__()
        self.embedding = nn.Embedding(config.n_characters, config.character_size, padding_idx=0)
        window = config.character_window
        self.convolution = nn.Conv1d(
            config.character_size, config.character_filters, window, padding=window // 2
        )

    def forward(self, spellings: torch.Tensor) -> torch.Tensor:
        """Return the vectors of some words: (n_words, n_filters).

        Zeros for a word without characters.

        Args:
            spellings: (n_words, longest_word) numbers of characters, 0 after the word's end.
        """
        # Columns beyond the longest of these words are blank, and would change nothing.
        spellings = spellings[:, : max(1, int((spellings != 0).any(dim=0).sum()))]
        spelled = self.convolution(self.embedding(spellings).transpose(1, 2))
        blank = (spellings == 0)[:, None, :]
        best: torch.Tensor = spelled.masked_fill(blank, -torch.inf).amax(dim=-1)
        return best.masked_fill(blank.all(dim=-1), 0.0)


class NluModel(PreTrainedModel):  # type: ignore[misc]
    """Word vectors, optional character layer, BiLSTMs, CRF tags and intent; see the module."""

    config_class = NluConfig
    base_model_prefix = "nlu"
    config: NluConfig

    def __init__(self, config: NluConfig) -> None:
        """Build word vectors, BiLSTMs and the two heads: tags by a CRF, and the intent."""
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, config.embedding_size)
        self.characters = CharacterLayer(config) if config.n_characters else None
        if config.n_characters:
            empty = torch.zeros(config.vocab_size, config.longest_word, dtype=torch.int32)
            self.register_buffer("spellings", empty)
        self.lstm = nn.LSTM(
            config.input_size,
            config.hidden_size,
            config.n_layers,
            batch_first=True,
            bidirectional=True,
        )
        self.tagger = SteadyLinear(2 * config.hidden_size, config.num_labels)
        self.crf = LinearChainCrf(config.num_labels)
        self.intent = SteadyLinear(2 * config.hidden_size, len(config.intents))
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.state_dropout = nn.Dropout(config.state_dropout)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Start weights as Ma & Hovy (2016, section 3.2).

        Embeddings and matrices are uniform, biases 0, those of forget gates 1.
        """
        # Whole tensors only: transformers leaves alone those it has loaded, and would not know a
        # part of one.
        if isinstance(module, nn.Embedding):
            start = (
                torch.empty_like(module.weight).uniform_(-1, 1) * (3 / module.embedding_dim) ** 0.5
            )
            if module.padding_idx is not None:
                start[module.padding_idx] = 0.0
            initialization.copy_(module.weight, start)
        elif isinstance(module, nn.Linear | nn.Conv1d):
            initialization.xavier_uniform_(module.weight)
            initialization.zeros_(module.bias)
        elif isinstance(module, nn.LSTM):
            for name, weight in module.named_parameters():
                if name.startswith("weight"):
                    initialization.xavier_uniform_(weight)
                    continue
                start = torch.zeros_like(weight)
                # Input, forget, cell and output gates follow each other; a gate has two biases, one
                # is enough.
                start[module.hidden_size : 2 * module.hidden_size] = float(
                    name.startswith("bias_ih")
                )
                initialization.copy_(weight, start)
        elif isinstance(module, LinearChainCrf):
            for parameter in module.parameters():
                initialization.zeros_(parameter)

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of word vectors."""
        return self.words

    def input_table(self) -> torch.Tensor:
        """Return the first BiLSTM's input for each word, word vector first.

        Shape (vocab_size, input_size).
        """
        if self.characters is None:
            return self.words.weight
        return torch.cat([self.words.weight, self.characters(self.spellings)], dim=1)

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        intents: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> NluOutput:
        """Return losses and scores of n utterances of one length.

        Args:
            input_ids: (n, n_tokens) ids of words.
            labels: (n, n_tokens) the true tags; with intents, or neither.
            intents: (n,) the true intents.
            inputs_embeds: (n, n_tokens, input_size) what goes into the first BiLSTM, in place of
                `input_ids`.
        """
        inputs: torch.Tensor = self.words(input_ids) if inputs_embeds is None else inputs_embeds
        if inputs_embeds is None and self.characters is not None:
            own, inverse = torch.unique(input_ids, return_inverse=True)
            inputs = torch.cat([inputs, self.characters(self.spellings[own])[inverse]], dim=-1)
        states, (last, _) = self.lstm(self.input_dropout(inputs))
        return self.apply_heads(states, torch.cat([last[-2], last[-1]], dim=-1), labels, intents)

    def apply_heads(
        self,
        states: torch.Tensor,
        sentences: torch.Tensor,
        labels: torch.Tensor | None,
        intents: torch.Tensor | None,
    ) -> NluOutput:
        """Run the heads on the last BiLSTM's states.

        Args:
            states: (n, n_tokens, 2 * hidden_size).
            sentences: (n, 2 * hidden_size) the sentences' vectors.
            labels: (n, n_tokens) the true tags.
            intents: (n,) the true intents.
        """
        emissions = self.tagger(self.state_dropout(states))
        logits = self.intent(self.state_dropout(sentences))
        losses = None
        if labels is not None and intents is not None:
            named = nn.functional.cross_entropy(logits, intents, reduction="none")
            losses = self.crf.costs(emissions, labels) + named
        return NluOutput(losses, emissions, logits)
