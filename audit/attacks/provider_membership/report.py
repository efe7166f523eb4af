"""Report text of provider membership: labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    AttackReport,
    CurveFigure,
    HistogramFigure,
    MetricPanel,
    MetricText,
    NamedMetric,
    ReportPart,
    ResultColumn,
    ResultTableText,
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
    RARE_ALARMS,
    ROC_PANEL,
    TELLING_GLOSSARY,
)
from audit.attacks.threats import Threat

FEATURES = {
    "accuracy": "right answers (fields found)",
    "similarity": "nearly right answers (words tagged right)",
    "loss": "the loss",
    "confidence": "confidence in the answer",
    "loss_change": "how training changed the loss",
    "confidence_change": "how training changed the confidence",
    "memory_similarity": "answers off the page (memorisation test 1)",
    "memory_change": "answers that stay (memorisation test 2)",
}
METHODS = {
    "azk": "answers only (AZK)",
    "apk": "partial knowledge (APK)",
    "azk_ensemble": "answers only, with memory tests (AZK++)",
    "apk_ensemble": "partial knowledge, with memory tests (APK++)",
}
SUREST = ResultTableText(
    "surest providers",
    "The most exposed providers",
    heading="Number",
    row="provider {}",
    columns=(
        ResultColumn("score", "Score"),
        ResultColumn("documents", "Documents", count=True),
        ResultColumn("questions", "Questions", count=True),
    ),
    text="surest",
)
"""Members that the attack names most surely, by number; the key to their names is in `evidence/`."""
METRICS = {
    **BLIND_METRICS,
    "balanced_accuracy": MetricText(
        "Telling whose documents were used (balanced accuracy)",
        short="Providers told (balanced accuracy)",
        form="share",
        counted=False,
        meaning="Share of the providers that the attacker puts on the right side, used for training or not; both "
        "sides count the same however many providers they have. 50 % is guessing.",
    ),
    "auc": MetricText(
        "Telling a provider used from one that was not (AUC)",
        short="AUC",
        meaning="Shown one provider of each kind, how often the attacker picks the one whose documents were used: "
        "0.5 is a coin toss, 1 is always right.",
    ),
    "tpr_at_fpr_10": MetricText(
        "Found at one false alarm in ten",
        short="Found at 10 % false alarms",
        form="share",
        meaning="Share of the providers used for training that the attacker names when at most 10 % of the others "
        "are named wrongly. Guessing finds 10 %.",
    ),
    "tpr_at_fpr_1": RARE_ALARMS,
    "low_fpr_advantage": MetricText(
        "Found for certain, beyond chance",
        short="Found for certain",
        form="points",
        meaning="Providers used for training that the attacker finds at the lowest rate of false alarms that this "
        "audit can measure (10 %, 1 % or 0.1 %), less that rate: 0 is guessing. Whoever is sure of a few companies "
        "and knows nothing of the others is right for little more than half of them, and gives the few away.",
    ),
    "questions_a_provider": MetricText(
        "Questions compared of a provider",
        short="Questions a provider",
        meaning="How many questions (pages, for models that label words) are compared of a provider in the middle "
        "(median), after both sides were cut to the same number: with few questions an attacker finds little "
        "whatever there is to be found. The published effect is that of 5 or 10 questions.",
    ),
    "absent_key": MetricText(
        "Answered with a value of a training document that the page does not have (absent key)",
        short="Absent key",
        form="share",
        meaning="Asked for something that the page does not have, such as a tax number: share of the questions "
        "answered with a value from documents the model was trained on. Answers that the pretrained model gives as "
        "well do not count. Compare with what comes up without training on them: the share answered with values that "
        "only documents of companies out of training have.",
    ),
}

QUALIFIERS = {**FEATURES, **METHODS, **BLOCKS, "s5": "5 questions or more", "s10": "10 questions or more"}
FIGURES = (
    CurveFigure(
        (ROC_PANEL,),
        caption="How many of the providers used for training are found (upwards) when so many of the others are "
        "named wrongly (to the right), with the interval of each point as a band. The thin diagonal is guessing.",
        series={"user inference": "user inference", "APK": "all features together (APK)"},
        height=1.75,
    ),
    HistogramFigure(
        "primary_score",
        caption="How the scores of both kinds of providers are distributed, each as shares of its own. Where the "
        "bars lie over each other, the attacker cannot tell them apart.",
        labels={
            "": "The attacker's score of each provider",
            "providers in": "providers used for training",
            "providers out": "providers not used",
        },
        height=1.75,
    ),
)
PARTS = (
    ReportPart(
        "By attack, and by questions asked",
        text="by_attack",
        tables=(
            TableSpec(
                "Balanced accuracy: right for so many of 100 providers. Shuffled: the same when it is shuffled who "
                "was used, and how often that does as well (p), among the providers that none of the first five "
                "forests was trained on. Questions are counted as they are looked at: of both sides as many. In the "
                "drawing the thin line is guessing.",
                columns=(
                    TableColumn("All providers (s = 0)", "balanced_accuracy", n=True),
                    TableColumn("Drawn", "balanced_accuracy", shown="drawn", zero=0.5),
                    TableColumn("Shuffled", diagnostic="permuted", p="permutation_p", form="share"),
                    TableColumn("5 questions or more", "balanced_accuracy", after="s5", n=True),
                    TableColumn("10 questions or more", "balanced_accuracy", after="s10", n=True),
                ),
                rows=labelled_rows(METHODS),
            ),
        ),
    ),
    ReportPart(
        "What gives it away",
        text="by_feature",
        tables=(
            TableSpec(
                "How well each signal tells providers that were used from those that were not, and how well that "
                "goes without the model. In the drawing the thin line is guessing; without the model (the best of "
                "several classifiers) chance lies a little above it, for all features together a little below.",
                columns=(
                    TableColumn("AUC", "auc"),
                    TableColumn("AUC, drawn", "auc", shown="drawn", zero=0.5),
                    TableColumn("Importance (APK)", diagnostic="importance", form="share"),
                ),
                rows=(
                    TableRow("User inference"),
                    TableRow("All features together (APK)", "apk"),
                    *labelled_rows(FEATURES),
                    BLIND_ROW,
                ),
            ),
            TableSpec(
                "How many more of the providers that were used than of the others are found at the lowest rate of "
                "false alarms that this audit can measure. In the drawing the thin line is guessing.",
                columns=(
                    TableColumn("Found for certain", "low_fpr_advantage", n=True),
                    TableColumn("Drawn", "low_fpr_advantage", shown="drawn"),
                ),
                rows=(
                    TableRow("User inference"),
                    TableRow("The loss", "loss"),
                    TableRow("Answers off the page (memorisation test 1)", "memory_similarity"),
                ),
            ),
        ),
    ),
    ReportPart("Questions whose answer the page does not have", text="absent"),
    BLIND_PART,
)
TREND = TrendSpec(
    panels=(
        MetricPanel(
            "Providers told (balanced accuracy)",
            (
                NamedMetric("answers only (AZK)", "balanced_accuracy.azk"),
                NamedMetric("partial knowledge (APK)", "balanced_accuracy.apk"),
            ),
        ),
        MetricPanel("Providers: user inference (AUC)", (NamedMetric("", "auc"),)),
    ),
    columns=(
        NamedMetric("Providers told (AZK)", "balanced_accuracy.azk"),
        NamedMetric("Providers told (APK)", "balanced_accuracy.apk"),
        NamedMetric("User inference (AUC)", "auc"),
    ),
    summary={"providers told": "balanced_accuracy"},
)
GLOSSARY = {
    **BLIND_GLOSSARY,
    **TELLING_GLOSSARY,
    "Provider": "The company or person that a document comes from. A provider is used for training, or in, when at "
    "least one of its documents was; otherwise it is out.",
    "Kept aside": "Documents of a provider that training never saw, though it may have seen others of the same "
    "provider. The attacker asks about these only.",
    "Balanced accuracy": "The share of providers judged rightly among those used for training and the share among "
    "the others, averaged: 50 % is guessing, whichever side has more.",
    "Permutation (shuffled labels)": "The attacker's calls judged again after shuffling who was used for training, "
    "among providers that none of the first five forests was trained on: nothing but chance is left. p is how often "
    "that does as well as the truth.",
    "AZK, APK": "The published attacks: with zero knowledge (answers only), and with partial knowledge (some "
    "providers are known, and loss, confidence and the pretrained model are at hand). ++ adds the memorisation tests.",
    "User inference": "How much likelier the true answers about a provider are to the model than to the pretrained "
    "model (or a baseline that stands in for it), averaged over the provider's documents.",
    "Absent key": "A question for something that the page does not have. An answer taken from another document can "
    "only come from memory, or from chance.",
    "Loss": "How wrong the model finds the true answers or labels of a document. It is lower on what was trained on, "
    "and on what is like it.",
}
SOURCES = (
    "R. Tito, K. Nguyen, M. Tobaben and others: Privacy-aware document visual question answering. ICDAR 2024, "
    "arXiv:2312.10108.",
    "N. Kandpal, K. Pillutla, A. Oprea, P. Kairouz, C. A. Choquette-Choo, Z. Xu: User inference attacks on large "
    "language models. EMNLP 2024, arXiv:2310.09266.",
)
THREAT = Threat(
    access="scores",
    knowledge="documents of the company that were kept aside, with questions and answers or fields, the model it was "
    "fine-tuned from, and of a share of the companies whether they were used",
    least="answers",
    least_for="zero knowledge (AZK), which sees answers alone",
    effort={"n_seeds": "draws of the companies that are known"},
)
REPORT = AttackReport(
    title="Telling whose documents were used for training",
    question="Can someone who holds other documents of a company tell from the model whether that company's documents "
    "were used to train it?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=(*BLIND_DIAGNOSTICS, "permuted", "permutation_p", "importance", "called"),
    labels={"blocks": BLOCKS},
    figures=FIGURES,
    parts=PARTS,
    tables=(SUREST,),
    trend=TREND,
    tells={name: name for name in ("balanced_accuracy", "auc", "low_fpr_advantage", "absent_key")},
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
