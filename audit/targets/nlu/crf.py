"""A linear-chain conditional random field over the tags of a sentence (Lafferty et al. 2001; Ma & Hovy 2016)."""

from __future__ import annotations

import torch
from torch import nn

from audit.targets.nlu.products import steady_product


class LinearChainCrf(nn.Module):
    """Scores sequences of tags: what each token says of its tag, and how well each tag follows the one before.

    Sums of exponentials over tags are matrix products of exponentials, each row taken relative to its largest entry:
    what underflows there is below a sum's last bit, as long as no transition falls under -80 or so.

    Args:
        n_tags: L.
    """

    def __init__(self, n_tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        """Score of the second tag (column) after the first (row)."""
        self.starts = nn.Parameter(torch.zeros(n_tags))
        self.ends = nn.Parameter(torch.zeros(n_tags))

    def score(self, emissions: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """The score of one sequence of tags for each sentence: (n,).

        Args:
            emissions: (n, n_tokens, L) what each token says of its tag.
            tags: (n, n_tokens) the sequences.
        """
        emitted = emissions.gather(-1, tags[..., None])[..., 0].sum(dim=1)
        followed = self.transitions[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        total: torch.Tensor = emitted + followed + self.starts[tags[:, 0]] + self.ends[tags[:, -1]]
        return total

    def log_partition(self, emissions: torch.Tensor) -> torch.Tensor:
        """Log of the sum of exp(score) over all sequences of tags, for each sentence: (n,).

        Args:
            emissions: (n, n_tokens, L).
        """
        return torch.logsumexp(self._forward_scores(emissions)[-1] + self.ends, dim=-1)

    def costs(self, emissions: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Negative log-likelihood of one sequence of tags for each sentence: (n,), nats.

        Args:
            emissions: (n, n_tokens, L).
            tags: (n, n_tokens).
        """
        return self.log_partition(emissions) - self.score(emissions, tags)

    def marginals(self, emissions: torch.Tensor) -> torch.Tensor:
        """The probability of each tag for each token, by forward-backward: (n, n_tokens, L), rows sum to 1.

        Args:
            emissions: (n, n_tokens, L).
        """
        before = torch.stack(self._forward_scores(emissions), dim=1)
        return torch.softmax(before + torch.stack(self._backward_scores(emissions), dim=1), dim=-1)

    def _forward_scores(self, emissions: torch.Tensor) -> list[torch.Tensor]:
        """For each token, the log-sum over all beginnings that end in each tag there: (n, L)."""
        steps = emissions.unbind(dim=1)
        scores = [self.starts + steps[0]]
        following = self.transitions.exp()
        for step in steps[1:]:
            scores.append(self._log_product(scores[-1], following) + step)
        return scores

    def _backward_scores(self, emissions: torch.Tensor) -> list[torch.Tensor]:
        """For each token, the log-sum over all continuations after each tag there: (n, L)."""
        steps = emissions.unbind(dim=1)
        scores = [self.ends.expand_as(steps[0])]
        preceding = self.transitions.exp().T
        for step in reversed(steps[1:]):
            scores.append(self._log_product(scores[-1] + step, preceding))
        return scores[::-1]

    def _log_product(self, scores: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        """log(exp(scores) @ factors) for (n, L) and (L, L)."""
        largest = scores.detach().amax(dim=-1, keepdim=True)
        product = torch.matmul if self.training else steady_product
        return product((scores - largest).exp(), factors).log() + largest
