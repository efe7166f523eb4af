"""Report text of attribute inference: labels, figures, tables, glossary."""

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
    sentence_case,
)
from audit.attacks.shared_report import (
    BLIND_DIAGNOSTICS,
    BLIND_GLOSSARY,
    BLIND_METRICS,
    BLIND_PART,
    BLOCKS,
    DOCUMENTS,
    DOCUMENTS_REVEALED,
    VALUES,
    VALUES_REVEALED,
)
from audit.attacks.threats import Threat

GROUPS = {
    "unique": "values of a single document",
    "repeated": "values that several documents share",
    "all": "all values",
}
METRICS = {
    **BLIND_METRICS,
    VALUES: VALUES_REVEALED,
    DOCUMENTS: DOCUMENTS_REVEALED,
    "excess": MetricText(
        "Picked because the page was trained on",
        short="Because of training",
        form="points",
        meaning="How many more of every 100 hidden values are picked out of the list with the model than without it, "
        "on documents it was trained on, beyond the same on documents it never saw. 0 without a leak.",
    ),
    "chosen": MetricText(
        "Picked with the model",
        short="With the model",
        form="share",
        meaning="Share of the hidden values that the attacker who holds the model picks out of the list. Beside it: "
        "without the model.",
    ),
    "public": MetricText(
        "Picked without the model",
        short="Without the model",
        form="share",
        meaning="The same by someone who asks a model that never saw the page. Beside it: by lot.",
    ),
    "planted_choice": MetricText(
        "Strength of the attacker",
        form="share",
        meaning="Planted memory: on documents the model never saw, the true value is made likelier by two standard "
        "deviations of the difference between two values on the list. This is the share of values that the attacker "
        "then picks, and did not pick before. Where it is low, picking little says little.",
    ),
    "candidates": MetricText(
        "Values on a list",
        short="On the list",
        meaning="How many values the attacker picks one from, the true one included (the median). The longer the "
        "list, the more a right pick proves.",
    ),
}

QUALIFIERS = {
    **GROUPS,
    **BLOCKS,
    "calibrated": "by the model's surprise beside the other model's",
    "member": "documents declared as trained on",
    "heldout": "documents declared as never seen",
}
PARTS = (
    ReportPart(
        "Values of one document, and of several",
        text="by_group",
        tables=(
            TableSpec(
                "How many more of 100 values are picked because the page was trained on. In the drawing the thin "
                "line is no difference.",
                columns=(
                    TableColumn("Because of training (points)", "excess", n=True),
                    TableColumn("Drawn", "excess", shown="drawn"),
                ),
                rows=tuple(
                    row
                    for name, label in GROUPS.items()
                    for row in (
                        TableRow(f"{sentence_case(label)}: by the model's surprise", name),
                        TableRow(f"{sentence_case(label)}: beside the other model's", f"{name}.calibrated"),
                    )
                ),
            ),
        ),
    ),
    ReportPart(
        "By kind of value",
        text="by_kind",
        tables=(
            TableSpec(
                "Picked because of training, and picked with and without the model.",
                columns=(
                    TableColumn("Because of training (points)", "excess", n=True),
                    TableColumn("Drawn", "excess", shown="drawn"),
                    TableColumn("Declared as trained on", "chosen.member"),
                    TableColumn("Declared as never seen", "chosen.heldout"),
                    TableColumn("Without the model", "public.member"),
                ),
                rows=labelled_rows(NAMED_CATEGORIES),
            ),
        ),
    ),
    BLIND_PART,
)
TREND = TrendSpec(
    panels=(
        MetricPanel(
            "Hidden values picked out of a list",
            (
                NamedMetric("declared as trained on, with the model", "chosen.member"),
                NamedMetric("declared as never seen, with the model", "chosen.heldout"),
                NamedMetric("declared as trained on, without the model", "public.member"),
            ),
        ),
    ),
    columns=(NamedMetric("Picked because of training", "excess.all"),),
    summary={"attributes, excess": "excess.all"},
)
GLOSSARY = {
    **BLIND_GLOSSARY,
    "Attribute inference": "Telling which of a few plausible values of a kind a person's or a company's document "
    "holds, with the help of a model that was trained on it. The attacker need not spell the value, only tell it "
    "from the others.",
    "Plausible values": "Values of the same kind from public documents; where the model reads word pieces, of the "
    "same number of word pieces.",
}
SOURCES = (
    "European Data Protection Board: Opinion 28/2024 on certain data protection aspects related to the "
    "processing of personal data in the context of AI models, 2024, paragraph 55.",
    "N. Carlini et al.: Extracting training data from large language models. USENIX Security 2021, "
    "arXiv:2012.07805 (comparison with a second model).",
)
THREAT = Threat(
    access="weights",
    knowledge="the rest of the page, the kind of the value, and a list of plausible values from public documents",
    effort={"n_candidates": "values in a list", "n_per_document": "values a document at most"},
)
REPORT = AttackReport(
    title="Picking a hidden value out of a list",
    question="Can someone who holds the model pick a blacked-out value out of a short list?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=BLIND_DIAGNOSTICS,
    unlisted=tuple(CATEGORY_LABELS),
    labels={"blocks": BLOCKS},
    parts=PARTS,
    trend=TREND,
    tells={name: name for name in ("excess.unique", "excess.all", VALUES, DOCUMENTS)},
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
