"""Membership scores of documents from what models say of their tokens; larger = more like a member.

Definitions are those of the papers; where a paper leaves a case open, the choice is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.stats.likelihood_ratio import lira_offline, logit_confidence, sides

Floats = NDArray[np.float64]
WINDOWS = [round(2 * 20 ** (k / 9)) for k in range(10)]
"""WBC's ten window sizes from 2 to 40, spaced geometrically (equation 12); duplicates count
twice."""
SHARE = 0.2
"""Min-K%'s and Min-K%++'s K."""
RENYI_SHARE = 0.1
FLOOR = 1e-7
SUREST = 1e9
"""EZ-MIA's score of documents that the target makes no error on."""
SPREAD = 1e-3
"""The least standard deviation that Min-K%++ divides by: small models are surer than that."""


@dataclass(frozen=True)
class Said:
    """What models say of the tokens of documents.

    Attributes:
        row: (n_tokens,) the row of each token, ascending.
        order: (n_tokens,) sorts the tokens of a document as they stand on the page.
        document: (n_rows,) the document of each row, ascending from 0.
        arrays: by name, (n_tokens,): `logp.MODEL` of the true token; `wrong`, `mean`, `spread`,
            `renyi` of a target; `gap.TARGET.REFERENCE`, the KL divergence of the target's
            distribution from the reference's.
        joined: whether a document's tokens are one unit, as a page's are, and not those of each
            row, as answers are.
    """

    row: NDArray[np.int64]
    order: NDArray[np.int64]
    document: NDArray[np.int64]
    arrays: Mapping[str, Floats]
    joined: bool

    def losses(self, model: str) -> Floats:
        """Give the loss of each row, nats a token."""
        sums = np.bincount(self.row, -self.arrays[f"logp.{model}"])
        return sums / np.bincount(self.row)

    def by_document(self, rows: Floats) -> Floats:
        """Give the mean over the rows of each document."""
        return np.bincount(self.document, rows) / np.bincount(self.document)

    def loss(self, model: str) -> Floats:
        """Give the loss of each document."""
        if not self.joined:
            return self.by_document(self.losses(model))
        owner = self.document[self.row]
        return np.bincount(owner, -self.arrays[f"logp.{model}"]) / np.bincount(owner)

    def logit(self, model: str) -> Floats:
        """Give the logit confidence of each document, as the product has it."""
        if self.joined:
            return logit_confidence(self.loss(model))
        return self.by_document(logit_confidence(self.losses(model)))

    def tokens(self, name: str) -> list[Floats]:
        """Give an array by document, in the order of the page."""
        owner = self.document[self.row]
        sorted_by = np.lexsort((self.order, owner))
        return np.split(self.arrays[name][sorted_by], np.cumsum(np.bincount(owner))[:-1])

    def units(self, name: str, of_unit: object) -> Floats:
        """Give the mean of `of_unit` over the answers of a document, or its value of the page."""
        if self.joined:
            return np.array([of_unit(one) for one in self.tokens(name)])  # type: ignore[operator]
        rows = np.split(self.arrays[name], np.cumsum(np.bincount(self.row))[:-1])
        return self.by_document(np.array([of_unit(one) for one in rows]))  # type: ignore[operator]


def min_k(log_probabilities: Floats, share: float) -> float:
    """Compute Min-K%, the mean of the smallest values; one at least, as answers are short."""
    return float(np.sort(log_probabilities)[: max(1, int(share * log_probabilities.size))].mean())


def marginal(outside: Floats, a: float) -> Floats:
    """Compute RMIA's Pr(x) from models that did not see a document, (n_documents, n_models).

    Models that saw it are taken to give a * p + (1 - a) where the others give p.
    """
    without: Floats = outside.mean(axis=1)
    return (without + a * without + (1 - a)) / 2


def rmia(own: Floats, expected: Floats, public_own: Floats, public_expected: Floats) -> Floats:
    """Compute RMIA: the share of public documents whose ratio to their marginal a document's is at least."""
    ordered = np.sort(public_own / public_expected)
    return np.searchsorted(ordered, own / expected, "right") / ordered.size


def windows(difference: Floats) -> float:
    """Compute WBC's score: the share of windows in which the reference loses more, mean over their sizes.

    Sizes that do not fit are left out; of a document shorter than all of them one window counts (as
    LeakPro does).
    """
    if len(difference) < min(WINDOWS):
        return float(difference.sum() > 0)
    sums = np.concatenate([[0.0], np.cumsum(difference)])
    return float(
        np.mean([(sums[w:] - sums[:-w] > 0).mean() for w in WINDOWS if w <= len(difference)])
    )


def error_zone(difference: Floats, wrong: Floats, smoothing: float = 0.0) -> float:
    """Compute EZ-MIA's score: upward over downward shifts of the true token's log-probability where the target errs.

    Without an error or a shift down a document ranks above all others, as the paper's appendix E
    has it; its authors' code gives it 0. With `smoothing` nats added to both sums the score is
    defined everywhere, and 1 says nothing.
    """
    shifts = difference[wrong > 0]
    up = float(shifts[shifts > 0].sum())
    down = float(-shifts[shifts < 0].sum())
    if smoothing:
        return (up + smoothing) / (down + smoothing)
    return up / down if down > 0 else SUREST + up


def largest(values: Floats, share: float) -> float:
    """Compute the mean of the largest values."""
    return float(np.sort(values)[::-1][: max(1, int(share * len(values)))].mean())


def reference_scores(said: Said, target: str, references: Sequence[str]) -> dict[str, Floats]:
    """Give the scores that compare the target with references that never saw the documents."""
    own = said.loss(target)
    theirs = np.mean([said.loss(name) for name in references], axis=0)
    mixed = {
        name: np.mean([said.arrays[f"{name}{one}"] for one in references], axis=0)
        for name in ("logp.", f"gap.{target}.")
    }
    arrays = {**said.arrays}
    arrays["difference"] = said.arrays[f"logp.{target}"] - mixed["logp."]
    arrays["informia"] = arrays["difference"] + mixed[f"gap.{target}."]
    with_difference = Said(said.row, said.order, said.document, arrays, said.joined)
    differences = with_difference.tokens("difference")
    wrong = said.tokens(f"wrong.{target}")
    return {
        "calibrated": theirs - own,
        "ratio": np.log(np.maximum(theirs, FLOOR)) - np.log(np.maximum(own, FLOOR)),
        "wbc": np.array([windows(one) for one in differences]),
        "ez": np.array([error_zone(one, bad) for one, bad in zip(differences, wrong, strict=True)]),
        "ez smoothed": np.array(
            [error_zone(one, bad, 1.0) for one, bad in zip(differences, wrong, strict=True)]
        ),
        "informia tokens": np.array(
            [float(one.mean()) for one in with_difference.tokens("informia")]
        ),
    }


def own_scores(said: Said, target: str) -> dict[str, Floats]:
    """Give the scores that need the target alone."""
    arrays = {**said.arrays}
    arrays["normal"] = (said.arrays[f"logp.{target}"] - said.arrays[f"mean.{target}"]) / np.maximum(
        said.arrays[f"spread.{target}"], SPREAD
    )
    extended = Said(said.row, said.order, said.document, arrays, said.joined)
    return {
        "loss": -said.loss(target),
        "min_k": said.units(f"logp.{target}", lambda one: min_k(one, SHARE)),
        "min_k++": extended.units("normal", lambda one: min_k(one, SHARE)),
        "maxrenyi": said.units(f"renyi.{target}", lambda one: -largest(one, RENYI_SHARE)),
    }


def quantile_scores(
    losses: Floats, words: Sequence[Sequence[str]], public: NDArray[np.bool_], level: float = 0.1
) -> Floats:
    """Compute how far the loss lies under the quantile that cheap features of the page predict.

    Bertran et al. (2023) predict a quantile of what unseen documents get, and need no reference.
    Here from the number of words, the mean and the least frequency of the words, and the share of
    digits, by a linear quantile regression on the public documents.
    """
    from sklearn.linear_model import QuantileRegressor

    seen = Counter(word for one, used in zip(words, public, strict=True) if used for word in one)
    total = sum(seen.values())

    def rarity(one: Sequence[str]) -> Floats:
        return np.log([(seen[word] + 1) / (total + 1) for word in one])

    features = np.array([
        [np.log(len(one)), rarity(one).mean(), np.mean(rarity(one) < np.log(1.5 / (total + 1))),
         np.mean([word.isdigit() for word in one])]
        for one in words
    ])  # fmt: skip
    features = (features - features[public].mean(axis=0)) / np.maximum(
        features[public].std(axis=0), 1e-9
    )
    fitted = QuantileRegressor(quantile=level, alpha=0.01).fit(features[public], losses[public])
    return np.asarray(fitted.predict(features) - losses)


def split_scores(
    said: Said,
    target: str,
    models: Sequence[str],
    trained: NDArray[np.bool_],
    scored: NDArray[np.bool_],
) -> dict[str, Floats]:
    """Give the scores from split models: LiRA, RMIA, InfoRMIA, and the plain difference from their mean loss.

    Args:
        said: of all documents.
        target: whose name.
        models: names of the split models.
        trained: (n_documents, n_models) whether a model was trained on a document.
        scored: (n_documents,) False for public documents, which RMIA compares with.
    """
    logits = np.stack([said.logit(name) for name in models], axis=1)
    losses = np.stack([said.loss(name) for name in models], axis=1)
    own = said.loss(target)
    _, outside = sides(logits[scored], trained[scored])
    _, theirs = sides(losses[scored], trained[scored])
    _, public = sides(losses[~scored], trained[~scored])
    assert outside is not None
    assert theirs is not None
    assert public is not None
    confidence = np.exp(-own)
    found = {"lira": lira_offline(said.logit(target)[scored], outside)}
    for a in (0.3, 1.0):
        name = "" if a < 1 else ", a = 1"
        expected, elsewhere = (marginal(np.exp(-one), a) for one in (theirs, public))
        found[f"rmia{name}"] = rmia(confidence[scored], expected, confidence[~scored], elsewhere)
        found[f"informia{name}"] = -own[scored] - np.log(expected)
    return {
        **found,
        "mean of splits": theirs.mean(axis=1) - own[scored],
    }
