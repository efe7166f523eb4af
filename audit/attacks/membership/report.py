"""Report text of document membership: labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    AttackReport,
    CurveFigure,
    HistogramFigure,
    MetricPanel,
    MetricText,
    NamedMetric,
    ReportPart,
    TableColumn,
    TableRow,
    TableSpec,
    TrendSpec,
    labelled_rows,
)
from audit.attacks.shared_report import (
    BLIND_DIAGNOSTICS,
    BLIND_GLOSSARY,
    BLIND_METRICS,
    BLIND_PART,
    BLIND_ROW,
    BLOCKS,
    DOCUMENTS_RECOGNISED,
    RARE_ALARMS,
    ROC_PANEL,
    TELLING_GLOSSARY,
)
from audit.attacks.threats import Threat

SCORES = {
    "loss": "by the loss",
    "calibrated": "by the loss beside a reference model's",
    "ratio": "by the loss as a share of a reference model's",
    "min_k": "by the least likely words (Min-K%)",
    "lira": "by many models (LiRA)",
    "rmia": "by many models (RMIA)",
    "docmia": "by fine-tuning on the document (DocMIA)",
}
METRICS = {
    **BLIND_METRICS,
    "auc": MetricText(
        "Telling trained on from never seen (AUC)",
        short="AUC",
        meaning="Shown one document of each kind, how often the attacker picks the one that was trained on: 0.5 is a "
        "coin toss, 1 is always right.",
    ),
    "low_fpr_advantage": MetricText(
        "Found for certain, beyond chance",
        short="Found for certain",
        form="points",
        meaning="Share of the documents trained on that the attacker names, less the share of the others that it "
        "names wrongly, at the lowest rate of false alarms (10 %, 1 % or 0.1 %) that the documents never seen "
        "resolve. Guessing gives 0. An attacker who is sure of one document in five and knows nothing of the rest "
        "shows here, and hardly in the AUC.",
    ),
    "documents_identified": DOCUMENTS_RECOGNISED,
    "reference_power": MetricText(
        "How well the reference explains the losses",
        short="Power of the reference",
        meaning="Rank correlation of the losses of both models over documents never seen: 1 when the reference finds "
        "hard what the model finds hard, 0 when it knows nothing of that and shows no leak.",
    ),
    "tpr_at_fpr_10": MetricText(
        "Found at one false alarm in ten",
        short="Found at 10 % false alarms",
        form="share",
        meaning="Share of the documents trained on that the attacker names when at most 10 % of the others are named "
        "wrongly. Guessing finds 10 %.",
    ),
    "tpr_at_fpr_1": RARE_ALARMS,
    "fpr_at_10": MetricText(
        "False alarms, where one in ten was wanted",
        short="False alarms for 10 %",
        form="share",
        meaning="The threshold is set on one half of the documents never seen; on the other half this share of them "
        "was named wrongly.",
    ),
    "fpr_at_1": MetricText(
        "False alarms, where one in a hundred was wanted",
        short="False alarms for 1 %",
        form="share",
        meaning="The same at 1 %.",
    ),
}

QUALIFIERS = {
    **SCORES,
    **BLOCKS,
    "member": "documents declared as trained on",
    "heldout": "documents declared as never seen",
    "not_present": "by a refusal to answer",
}
FIGURES = (
    CurveFigure(
        (ROC_PANEL,),
        caption="How many of the documents trained on are found (upwards) when so many of the others are named "
        "wrongly (to the right), with the interval of each point as a band. The thin diagonal is guessing; the "
        "further the line rises above it at the left, the more the model gives away.",
        height=1.75,
    ),
    HistogramFigure(
        "primary_score",
        caption="How the scores of both kinds of documents are distributed, each as shares of its own. Where the "
        "bars lie over each other, the attacker cannot tell them apart.",
        labels={
            "": "The attacker's score of each document",
            "member": "documents declared as trained on",
            "held-out": "documents declared as never seen",
        },
        height=1.75,
    ),
)
PARTS = (
    ReportPart(
        "By way of scoring",
        text="by_score",
        tables=(
            TableSpec(
                "How well each score tells documents it was trained on from those it never saw. In the drawing the "
                "thin line is guessing; without the model (the best of several classifiers) chance lies a little "
                "above it.",
                columns=(
                    TableColumn("AUC", "auc"),
                    TableColumn("AUC, drawn", "auc", shown="drawn", zero=0.5),
                    TableColumn("Found at 10 % false alarms", "tpr_at_fpr_10"),
                    TableColumn("Found at 1 % false alarms", "tpr_at_fpr_1"),
                    TableColumn("Found for certain", "low_fpr_advantage"),
                    TableColumn("Documents recognised", "documents_identified"),
                ),
                rows=(TableRow("Score fixed before the scan"), *labelled_rows(SCORES), BLIND_ROW),
            ),
        ),
    ),
    BLIND_PART,
)
TREND = TrendSpec(
    panels=(
        MetricPanel("Telling trained on from never seen (AUC)", (NamedMetric("", "auc"),)),
        MetricPanel("Found at 10 % false alarms", (NamedMetric("", "tpr_at_fpr_10"),)),
    ),
    columns=(NamedMetric("AUC", "auc"), NamedMetric("Found at 10 % false alarms", "tpr_at_fpr_10")),
    summary={"membership, AUC": "auc"},
)
GLOSSARY = {
    **BLIND_GLOSSARY,
    **TELLING_GLOSSARY,
    "Membership": "Whether a document was among those the model was trained on. Being among them can itself be a "
    "secret: a patient's, a customer's.",
    "Loss": "How wrong the model finds the true answers or labels of a document. It is lower on what was trained on.",
    "Reference model": "A model that was not trained on the document: how hard the document is in itself.",
    "Mask": "For models that fill in hidden words: the words of a page that are hidden while the model is asked for "
    "them. The loss of a document is the mean over several masks.",
    "LiRA, RMIA": "Attacks that train many models, each on a random half of the documents, to learn how the loss of "
    "one document changes when it is trained on.",
    "DocMIA": "An attack that trains the model a little further on the document: what is known already needs fewer "
    "and shorter steps.",
}
SOURCES = (
    "N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis, F. Tramèr: Membership inference attacks from first "
    "principles (LiRA). IEEE S&P 2022, arXiv:2112.03570.",
    "S. Zarifzadeh, P. Liu, R. Shokri: Low-cost high-power membership inference attacks (RMIA). ICML 2024, "
    "arXiv:2312.03262.",
    "W. Shi and others: Detecting pretraining data from large language models (Min-K%). ICLR 2024, arXiv:2310.16789.",
    "F. Mireshghallah, K. Goyal, A. Uniyal, T. Berg-Kirkpatrick, R. Shokri: Quantifying privacy risks of masked "
    "language models using membership inference attacks. EMNLP 2022, arXiv:2203.03929.",
    "S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha: Privacy risk in machine learning: analyzing the connection "
    "to overfitting (advantage). IEEE CSF 2018, arXiv:1709.01604.",
    "K. Nguyen and others: DocMIA, document-level membership inference attacks against DocVQA models. ICLR 2025, "
    "arXiv:2502.03692.",
)
THREAT = Threat(
    access="weights",
    knowledge="the document whose use for training is to be told, with its questions and answers or labels, and a "
    "reference model where there is one",
    least="scores",
    least_for="the loss, alone and beside a reference model’s",
    effort={"n_masks": "masks of a page", "max_steps": "steps of adapting the model to a question at most"},
)
REPORT = AttackReport(
    title="Telling which documents were used for training",
    question="Can someone who holds the model tell a document it was trained on from one it never saw?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=BLIND_DIAGNOSTICS,
    labels={"scores": SCORES, "blocks": BLOCKS},
    figures=FIGURES,
    parts=PARTS,
    trend=TREND,
    tells={name: name for name in ("auc", "low_fpr_advantage", "documents_identified")},
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
