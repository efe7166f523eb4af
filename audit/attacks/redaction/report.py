"""Report text of redaction-context leakage: labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    CATEGORY_LABELS,
    NAMED_CATEGORIES,
    AttackReport,
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
from audit.attacks.threats import Threat

MASKS = {
    "length": "bars as long as the values",
    "fixed": "bars of one length",
    "all": "bars of one length over every value of the sentence",
}
DECLARED_MASKS = {**MASKS, "all": "bars of one length, over every value of a sentence or line"}
"""Masks, as a data set declares that its values are hidden."""
CLASSIFIERS = {
    "linear-svm": "linear classifier (SVM)",
    "random-forest": "random forest",
    "bagged-svm": "bag of kernel SVMs",
    "gradient-boosting": "gradient boosting",
    "mlp": "neural network (dense)",
    "cnn": "neural network (convolutional)",
}
WITHOUT_TEXT = {"length-only": "nothing but the length of the values", "prior": "always the commonest kind"}
METRICS = {
    "accuracy": MetricText(
        "Kinds of hidden values told",
        short="Kinds told",
        form="share",
        meaning="Share of the redacted values whose kind (a name, a date, a place) is told from what stays readable "
        "around them. Somebody who always names the commonest kind reaches the number without a leak.",
    ),
    "macro_f1": MetricText(
        "Kinds of hidden values told, every kind counting alike (macro-F1)",
        short="Macro-F1",
        meaning="The mean over the kinds of a score between 0 and 1 that is high where a kind is found and little "
        "else is taken for it. Rare kinds count as much as common ones.",
    ),
    "lift": MetricText(
        "Told beyond naming the commonest kind",
        short="Beyond the commonest kind",
        form="points",
        meaning="How many more of every 100 values are told than by somebody who always names the commonest kind.",
    ),
    "lift_over_length": MetricText(
        "Told beyond the length of the values",
        short="Beyond length alone",
        form="points",
        meaning="How many more of every 100 values are told than by somebody who sees nothing but how long each "
        "value is, as a bar of its length shows.",
    ),
    "lift_share": MetricText(
        "Told of what the commonest kind leaves open",
        short="Of what is left open",
        form="share",
        counted=False,
        meaning="Somebody who always names the commonest kind is wrong for some values. Of these, the share that the "
        "text tells: 0 when the text tells nothing more, 100 % when it tells every kind, however common the "
        "commonest one is. Below 0 the attacker does worse than that.",
    ),
    "worst_class": MetricText(
        "The kind of value that the text tells best",
        short="Best told kind",
        form="share",
        counted=False,
        meaning="For one kind at a time: the share of its values that are called by it, minus the share of other "
        "values that are wrongly called so. 0 for whoever does not read, 100 % for whoever is always right. The "
        "largest of all kinds; its interval allows for having picked the largest.",
    ),
    "recall": MetricText(
        "Values of this kind that are told",
        short="Told",
        form="share",
        listed=False,
        meaning="Share of the redacted values of this kind that the attacker calls by their kind. Beside it: by "
        "their length alone.",
    ),
    "precision": MetricText(
        "Right when this kind is named",
        short="Right when named",
        form="share",
        listed=False,
        meaning="Share of the values that the attacker takes for this kind and that are of it. Beside it: how common "
        "the kind is.",
    ),
    "dictionary_share": MetricText(
        "Names that fit under the bar",
        short="Names that fit",
        form="share",
        counted=False,
        meaning="An attacker with a list of values of the right kind keeps those as wide as the bar: this share of "
        "the list, on average. Without a leak all of it stays possible.",
    ),
    "target_gain": MetricText(
        "What the model adds because it was trained on the documents",
        short="The model adds",
        form="points",
        meaning="How many more of every 100 values are told when the model is asked about the redacted text as well, "
        "than from the text alone: on documents that the model was trained on, beyond the same on documents that it "
        "never saw. With one of the two named, the gain on these alone.",
    ),
}

QUALIFIERS = {
    **MASKS,
    **CLASSIFIERS,
    **WITHOUT_TEXT,
    "member": "documents declared as trained on",
    "heldout": "documents declared as never seen",
    "uncommon": "values of other kinds than the commonest",
}
PARTS = (
    ReportPart(
        "Three ways to hide a value",
        text="by_mask",
        tables=(
            TableSpec(
                "How many of 100 kinds are told under each kind of bar, and how many more than without reading: than "
                "by the length of the values, and than by naming the commonest kind. Below, those two by themselves. "
                "In the drawing the thin line is nothing told.",
                columns=(
                    TableColumn("Kinds told", "accuracy"),
                    TableColumn("Drawn", "accuracy", shown="drawn"),
                    TableColumn("Beyond length alone (points)", "lift_over_length"),
                    TableColumn("Beyond the commonest kind (points)", "lift"),
                    TableColumn("Macro-F1", "macro_f1"),
                ),
                rows=labelled_rows({**MASKS, **WITHOUT_TEXT}),
            ),
        ),
    ),
    ReportPart(
        "By kind of value",
        text="by_kind",
        tables=(
            TableSpec(
                "Told: of the values of this kind, how many are called by it, and how many by their length alone. "
                "Right when named: of what the attacker takes for this kind, how much is, and how common the kind is.",
                columns=(
                    TableColumn("Told", "recall", n=True),
                    TableColumn("Told, drawn", "recall", shown="drawn"),
                    TableColumn("By length alone", "recall", shown="null"),
                    TableColumn("Right when named", "precision"),
                    TableColumn("How common", "precision", shown="null"),
                ),
                rows=labelled_rows(CATEGORY_LABELS),
            ),
        ),
    ),
    ReportPart(
        "By way of learning",
        text="by_classifier",
        tables=(
            TableSpec(
                "Under the bars that the data set names.",
                columns=(
                    TableColumn("Kinds told", "accuracy"),
                    TableColumn("Beyond the commonest kind (points)", "lift"),
                    TableColumn("Of what is left open", "lift_share"),
                    TableColumn("Best told kind", "worst_class"),
                    TableColumn("Macro-F1", "macro_f1"),
                ),
                rows=labelled_rows(CLASSIFIERS),
            ),
        ),
    ),
    ReportPart(
        "What the model adds",
        text="by_model",
        tables=(
            TableSpec(
                "More values told of 100 when the model is asked as well. In the drawing the thin line is no "
                "difference.",
                columns=(
                    TableColumn("The model adds (points)", "target_gain", n=True),
                    TableColumn("Drawn", "target_gain", shown="drawn"),
                ),
                rows=(
                    TableRow("Documents declared as trained on", "member"),
                    TableRow("Documents declared as never seen", "heldout"),
                    TableRow("The former beyond the latter, values of other kinds than the commonest", "uncommon"),
                ),
            ),
        ),
    ),
    ReportPart("Bars on page images", text="bars"),
)
TREND = TrendSpec(
    panels=(
        MetricPanel(
            "What the model adds (points)",
            (
                NamedMetric("documents declared as trained on", "target_gain.member"),
                NamedMetric("documents declared as never seen", "target_gain.heldout"),
            ),
        ),
    ),
    columns=(
        NamedMetric("Kinds told", "accuracy"),
        NamedMetric("The model adds (trained on)", "target_gain.member"),
        NamedMetric("The model adds (never seen)", "target_gain.heldout"),
    ),
    summary={"redaction, gain": "target_gain"},
)
GLOSSARY = {
    "Redacted value": "A value, such as a name or a date, that is hidden under a black bar or by asterisks in what "
    "is shared.",
    "Kind of value": "What a hidden value is: a person, an organisation, a place, a date. Knowing the kind is the "
    "first step to guessing the value from other sources.",
    "Macro-F1": "A score between 0 and 1 for telling several kinds apart, in which rare kinds count as much as "
    "common ones.",
    "Length alone": "What somebody tells who cannot read the text and sees only how long each value is.",
}
SOURCES = (
    "M. Beltrame, M. Conti, P. Guglielmin, F. Marchiori, G. Orazi: RedactBuster, entity type recognition from "
    "redacted documents. 2024, arXiv:2404.12991.",
    "I. Pilán and others: The Text Anonymization Benchmark (TAB). Computational Linguistics 48(4), 2022.",
    "M. Bland, A. Iyer, K. Levchenko: Story beyond the eye, glyph positions break PDF text redaction. PoPETs 2023.",
)
THREAT = Threat(
    access="scores",
    knowledge="redacted copies, and other documents of the same sort whose values are known",
    least="copies",
    least_for="what the text gives away, whatever the model",
    effort={"n_folds": "parts that the documents are dealt into"},
)
REPORT = AttackReport(
    title="What the text around a black bar gives away",
    question="Can someone who reads a redacted copy tell what kind of value stands under each black bar?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=("leak_between_folds", "dictionary", "fitting", "fitting_own"),
    unlisted=(*MASKS, *CLASSIFIERS),
    labels={"masks": DECLARED_MASKS, "kinds": {**NAMED_CATEGORIES, "rare": "values of rare kinds"}},
    parts=PARTS,
    trend=TREND,
    tells={name: name for name in ("target_gain", "lift_share", "worst_class")},
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
