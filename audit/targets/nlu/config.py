"""Configuration of the NLU model.

Annotations stay objects here (no `from __future__ import annotations`): transformers checks settings against them.
"""

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PretrainedConfig


@strict
class NluConfig(PretrainedConfig):  # type: ignore[misc]
    """What an `NluModel` is made of. The tags are `id2label`, in the order of its outputs.

    Sizes that Ma & Hovy (2016) give are theirs (30 filters of window 3 over 30-dimensional characters); the others are
    ours.

    Attributes:
        vocab_size: words, the unknown one included.
        embedding_size: of a word's vector.
        hidden_size: of one direction of a BiLSTM layer.
        n_layers: BiLSTM layers; 2 in Parikh et al. 2022.
        n_characters: known characters and the blank; 0: no character layer.
        longest_word: characters of a word that the character layer reads; the rest is cut.
        character_size: of a character's vector.
        character_filters: outputs of the convolution over a word's characters.
        character_window: characters that a filter sees; odd.
        input_dropout: on what goes into the first BiLSTM: word vector and character vector.
        state_dropout: on the last BiLSTM's states and on the sentence's vector, before the dense layers.
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
        """Of what goes into the first BiLSTM for one token."""
        return self.embedding_size + (self.character_filters if self.n_characters else 0)


AutoConfig.register(NluConfig.model_type, NluConfig)
