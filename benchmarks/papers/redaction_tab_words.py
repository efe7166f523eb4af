"""What the README of `redaction_tab.py` says, and the paper's numbers."""

from __future__ import annotations

from audit.corpus.documents import Mask
from benchmarks.papers.redaction_tab_cells import Embedding

MASKS: dict[Mask, str] = {
    "length": "as long as the value",
    "fixed": "of one length",
    "all": "of one length, all hidden",
}
EMBEDDINGS: dict[Embedding, str] = {
    "tfidf": "TF-IDF",
    "minilm": "MiniLM",
    "minilm-tuned": "MiniLM, fine-tuned",
}
NAMES = {
    "linear-svm": "linear SVM (ours)",
    "random-forest": "random forest",
    "bagged-svm": "SVM, bagged",
    "gradient-boosting": "gradient boosting",
    "mlp": "DNN",
    "cnn": "CNN",
}
PAPER = {
    "minilm": {
        "random-forest": (1.000, 0.697),
        "bagged-svm": (0.892, 0.747),
        "gradient-boosting": (0.970, 0.714),
        "mlp": (0.979, 0.958),
        "cnn": (0.981, 0.924),
    },
    "minilm-tuned": {
        "random-forest": (1.000, 0.823),
        "bagged-svm": (0.983, 0.840),
        "gradient-boosting": (0.940, 0.866),
        "mlp": (0.946, 0.945),
        "cnn": (0.986, 0.985),
    },
}
"""Accuracy on training and test samples: table 2 without fine-tuning, table 3 with it."""
EVADED = {
    ("minilm", "mlp"): 0.182,
    ("minilm", "cnn"): 0.181,
    ("minilm-tuned", "mlp"): 0.195,
    ("minilm-tuned", "cnn"): 0.183,
}
"""Table 4: accuracy on evaded text."""
PAPER_SAMPLES = 122_963
PAPER_DOCUMENTS = 1_268
WANTED = {"accuracy": 0.74, "macro-F1": 0.57}
"""What TF-IDF must reach by document under a mask of one length."""

HEAD = """# Redaction-context leakage on TAB: what the text around a redaction gives away

Made by `redaction_tab.py` on a {machine} ({system}). {documents} documents of the Text Anonymization
Benchmark with {values:,} redacted values of eight categories; the paper has {paper_documents:,} documents and
{paper_samples:,} samples, where several people annotated a text and each annotation seems to count. Accuracy, macro-F1
and lifts with 95 % intervals by document. The **lift over length** is over a decision tree that sees only how many
characters are hidden, the **lift over the prior** over naming the commonest category; both are paired. All classifiers
have the same settings everywhere (values of the paper's grids, nothing is searched), classes weighted alike but in the
linear SVM, which is ours and aims at accuracy; TF-IDF is projected to 200 columns for all but the linear SVM. MiniLM
(`minilm-l6-h384`, 384 dimensions) stands for the paper's all-mpnet-base-v2 (768). Fine-tuned: as in the paper on
cosine pairs (0.8, 0.2), min(250, a third) of the values of each class, which the classifier never sees. The weights of
the parts of TF-IDF were tried on these folds.
A dash: not run yet.
"""
MAIN = """Five folds by document: no document is on both sides. The mask has one length, so that nothing of the value
shows but its context."""
MASK = """The same by mask: {masks}. In the third every other value of the sentence is hidden as well."""
PROTOCOL = """One precaution after the other is taken away, from right to left in the table:

- **by document**: as many values of each class as the rarest has ({rarest}), five folds by document, oversampled
  (interpolation between neighbours, as SMOTE does) to {factor:.2f} times as many within the training folds alone;
- **by sentence**: 15 % of as many values test, whatever their document: sentences of one document, and the same
  sentence with another value hidden, are on both sides; oversampled as before, after the split;
- **oversampled first**: as the public notebooks do, features are made and classes oversampled before the split, so
  that test samples lie between training samples;
- **on training samples**: the last one's classifiers, tried on what they were fitted on. The public notebook for the
  two networks builds its test loader from the training set.

All under the paper's mask, as long as the value. Chance is 0.125 here, for classes are balanced."""
EVASION = """Letters a, e, o, i and n are exchanged for look-alikes at test time
(`redaction_tab_evasion.py`). *Unaware*:
trained on ordinary text, as in the paper's table 4. *Folded back*: the same classifier, look-alikes turned back before
anything else. *Retrained*: fitted on evaded text. By document, mask of one length; changes are paired, against no
evasion. The paper's numbers are of balanced classes, where chance is 0.125; ours are of all values, where the prior
reaches what the first table says. {cost}"""
