"""Report text of memorisation: labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    AttackReport,
    HistogramFigure,
    MetricPanel,
    MetricText,
    NamedMetric,
    OverlapFigure,
    OverlapRow,
    PagesFigure,
    ReportPart,
    TableColumn,
    TableRow,
    TableSpec,
    TrendSpec,
    labelled_rows,
)
from audit.attacks.shared_report import BLIND_DIAGNOSTICS, BLIND_METRICS, BLOCKS
from audit.attacks.threats import Threat

CONTEXTS = {
    "exact": "page and question as in training",
    "decoy": "another value in place of the answer",
    "paraphrased": "question in other words",
    "brightness_50": "page at 50 % of its brightness",
    "brightness_80": "page at 80 % of its brightness",
    "brightness_130": "page at 130 % of its brightness",
    "brightness_200": "page at 200 % of its brightness",
    "rotation_5": "page turned by 5 degrees",
    "rotation_10": "page turned by 10 degrees",
    "shift_20": "page shifted by 20 pixels",
    "shift_100": "page shifted by 100 pixels",
    "no_text": "no text left on the page",
    "constant": "blank page of one colour",
    "shuffled": "question put to another page",
    "image_only": "unrelated question to the page",
}
"""Contexts of a question when neither page nor question is exactly the one of training (appendix D)."""
CLASSES = {
    "person": "people",
    "place": "places and addresses",
    "temporal": "dates and times",
    "contact": "contact details",
    "nrp": "nationality, religion, politics",
    "url": "web addresses",
    "other_id": "numbers that identify",
    "not_pii": "not personal",
    "unclassified": "of unknown kind",
}
QUESTIONS = {"all": "all questions", "M": "only the audited model answers (M)", "G": "the baseline answers (G)"}
METRICS = {
    **BLIND_METRICS,
    "net": MetricText(
        "Answered because of training (net)",
        short="Net",
        form="points",
        meaning="Of 100 questions whose answer was taken off the page, how many more only the audited model answers "
        "than only the baseline does: (|E − G| − |G − E|) / n. Two models that remember nothing differ by chance in "
        "both directions alike, which gives 0.",
    ),
    "extracted": MetricText(
        "The audited model gives the answer (E)",
        short="E",
        form="share",
        meaning="Share of the questions that the audited model answers although the answer was taken off the page. "
        "Some of these answers can be guessed from what is left.",
    ),
    "baseline_extracted": MetricText(
        "The baseline gives the answer (G)",
        short="G",
        form="share",
        meaning="The same for the baseline: a model trained like the audited one, without the audited documents. "
        "What it answers can be guessed.",
    ),
    "memorised": MetricText(
        "Only the audited model gives the answer (M = E − G)",
        short="M",
        form="share",
        meaning="Share of the questions that the audited model answers and the baseline does not. Part of it is "
        "chance: compare it with the questions that only the baseline answers.",
    ),
    "forgotten": MetricText(
        "Only the baseline gives the answer (G − E)",
        short="Only the baseline",
        form="share",
        meaning="Share of the questions that the baseline answers and the audited model does not. Memory cannot "
        "explain these: they show how much two models differ by chance.",
    ),
    "extracted_anls": MetricText(
        "The audited model gives the answer or one much like it",
        form="share",
        meaning="Share of the questions whose answer comes back with a similarity (ANLS) of 0.5 or more, not only "
        "letter for letter.",
    ),
    "discoverable": MetricText(
        "The answer is likely to come up in repeated tries",
        form="share",
        meaning="Share of the answers that are discoverable in the sense of n tries and probability p: who samples "
        "the model n times sees the answer at least once with probability p or more (n 100 and p 0.5 unless the "
        "parameters say otherwise).",
    ),
    "anls": MetricText(
        "Answers to questions on complete pages (ANLS)",
        form="share",
        counted=False,
        meaning="How well each model answers when the page is complete, on documents neither was trained on. That of "
        "the audited model is also the power of the attack: of a model that answers nothing, silence says nothing.",
    ),
    "anls_gap": MetricText(
        "How much better the audited model answers complete pages (ANLS)",
        form="points",
        meaning="The audited model's ANLS minus the baseline's, question by question, on documents neither was "
        "trained on. The comparison is fair while both are about as good: nothing is decided when the whole interval "
        "lies beyond 2 points, and nothing passes unless the baseline is shown to be at most 10 points better, for a "
        "stronger one hides memory.",
    ),
    "identified": MetricText(
        "Personal values given away",
        short="Personal values",
        meaning="Distinct values that name or number someone (people, places, contact details, web addresses, other "
        "numbers), each in a single training document: how many more only the audited model gives than only the "
        "baseline gives, after the answer was taken off the page. A count of those that were tried, not of all there "
        "are.",
    ),
    "extractable_memorisation": MetricText(
        "Extractable memorisation (M_E)",
        form="points",
        meaning="From many models, each trained on a random half of the documents: how much oftener the answer comes "
        "back from models that were trained on the document than from those that were not, as an average over "
        "questions.",
    ),
    "extractable_simplicity": MetricText(
        "Extractable simplicity (S_E)",
        meaning="The sum of both shares (0 to 2): high when everyone answers, trained on the document or not. Memory "
        "shows where M_E and S_E are both high and equal.",
    ),
}

QUALIFIERS = {
    **BLOCKS,
    **CONTEXTS,
    **CLASSES,
    "discoverable": "answers that come up in repeated tries",
    "member": "documents declared as trained on",
    "heldout": "documents declared as never seen",
    "unique": "answers of a single training document",
    "repeated": "answers of several training documents",
    "all": "all answers",
    "target": "the audited model",
    "baseline": "the baseline",
    "unproven": "removed, but not proven so",
}
FIGURES = (
    OverlapFigure(
        (
            OverlapRow(
                label="Documents declared as trained on",
                first="extracted.member",
                second="baseline_extracted.member",
                only_first="memorised.member",
                only_second="forgotten.member",
                net="net",
            ),
            OverlapRow(
                label="Documents declared as never seen",
                first="extracted.heldout",
                second="baseline_extracted.heldout",
                only_first="memorised.heldout",
                only_second="forgotten.heldout",
                net="net.heldout",
            ),
        ),
        labels={
            "first": "E, answered by the audited model",
            "second": "G, answered by the baseline",
            "only_first": "M, only the audited model",
            "both": "both",
            "only_second": "only the baseline",
            "neither": "neither",
        },
        caption="Whose answers come back after the answer was taken off the page. Memory shows as a dark part "
        "(only the audited model) that is longer than the white one (only the baseline), for documents it was "
        "trained on and not for those it never saw.",
    ),
    PagesFigure(
        kept="word that stayed",
        removed="word that was taken away",
        caption="Some of the pages as the models saw them: a box for each word, without what it says. The "
        "answer, and whatever holds it or looks like it, was taken from the words and painted over in the image. "
        "The key to the page numbers lies in the evidence folder.",
    ),
    HistogramFigure(
        "extractable_memorisation",
        caption="From many models trained on random halves of the documents: how much oftener an answer comes "
        "back from those that were trained on its document (M_E). At 0 training on it makes no difference; at 1 "
        "only those models answer.",
        labels=QUESTIONS,
    ),
    HistogramFigure(
        "extractable_simplicity",
        caption="From the same models: the sum of how often the answer comes back with and without training on "
        "its document (S_E). At 2 everyone answers, at 0 nobody does.",
        labels=QUESTIONS,
    ),
)
PARTS = (
    ReportPart(
        "When page or question are not those of training",
        text="other_contexts",
        tables=(
            TableSpec(
                "Contexts: what comes back on documents the model was trained on. E: the audited model gives the "
                "answer; G: the baseline does; M: only the audited model does. In the drawing the thin line is 0.",
                columns=(
                    TableColumn("|E|", "extracted.member", shown="count first"),
                    TableColumn("|G|", "extracted.member", shown="null"),
                    TableColumn("|M|", "memorised.member", shown="count first"),
                    TableColumn("Net (points)", "net"),
                    TableColumn("Net, drawn", "net", shown="drawn"),
                ),
                rows=(
                    TableRow("Page and question as in training"),
                    *labelled_rows({name: label for name, label in CONTEXTS.items() if name != "exact"}),
                ),
            ),
        ),
    ),
    ReportPart(
        "Which answers",
        text="which_answers",
        tables=(
            TableSpec(
                "Net by kind of answer, on documents the model was trained on, page and question as in training.",
                columns=(TableColumn("Net (points)", "net"), TableColumn("Net, drawn", "net", shown="drawn")),
                rows=(
                    TableRow("All answers"),
                    TableRow("Of a single training document", "unique"),
                    TableRow("Of several training documents", "repeated"),
                    *labelled_rows(CLASSES),
                    TableRow("Removed, but not proven so (not counted above)", "unproven"),
                ),
            ),
        ),
    ),
)
TREND = TrendSpec(
    panels=(
        MetricPanel(
            "Answers taken off the page and still given",
            (
                NamedMetric("declared as trained on, the model", "extracted.member"),
                NamedMetric("declared as never seen, the model", "extracted.heldout"),
                NamedMetric("declared as trained on, the baseline", "baseline_extracted.member"),
            ),
        ),
        MetricPanel(
            "Net because of training",
            (NamedMetric("declared as trained on", "net"), NamedMetric("declared as never seen", "net.heldout")),
        ),
    ),
    columns=(
        NamedMetric("|E| / n", "extracted.member"),
        NamedMetric("|G| / n", "baseline_extracted.member"),
        NamedMetric("|M| / n", "memorised.member"),
        NamedMetric("Net", "net"),
    ),
    summary={"memorised, net": "net"},
)
GLOSSARY = {
    "E, G, M": "E: the questions that the audited model answers although the answer is off the page. G: those that "
    "the baseline answers. M: those in E and not in G. |E| is how many there are in E.",
    "Baseline (f_G)": "A model trained like the audited one on as many samples, without the audited documents. What "
    "it answers about them it cannot have remembered.",
    "Net": "Questions that only the audited model answers, minus questions that only the baseline answers, as a "
    "share of all. Chance adds to both alike; memory only to the first.",
    "Removed, and proven so": "The answer was taken from the words and painted over in the image, and three checks "
    "looked for what is left of it: in the pixels, in the words by a wider rule, and by reading the painted places "
    "with OCR (on pages without an image, the words alone). What could not be removed or proven is counted apart and "
    "decides nothing.",
    "Context": "What the attacker has: the very page and question of training, or a page scanned differently, a "
    "question in other words, no page at all.",
    "ANLS": "How alike a given and a true answer are, letter by letter: 100 % when equal; under half alike counts as "
    "0. The average over questions.",
    "Discoverable (n, p)": "An answer that comes up with probability p or more when the model is sampled n times.",
    "M_E, S_E": "Extractable memorisation and simplicity: from many models trained on random halves, the difference "
    "and the sum of how often the answer comes back with and without training on the document.",
}
SOURCES = (
    "F. Pinto, N. Rauschmayr, F. Tramèr, P. Torr, F. Tombari: Extracting training data from document-based VQA "
    "models. ICML 2024, arXiv:2407.08707.",
)
THREAT = Threat(
    access="answers",
    knowledge="a page of training without the answer, and the question of training; weaker contexts know less of both",
    effort={"n_samples": "samples an answer"},
)
REPORT = AttackReport(
    title="Answers that are no longer on the page",
    question="Does the model still answer questions about a page it was trained on when the answer has been taken off "
    "the page?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=BLIND_DIAGNOSTICS,
    unlisted=tuple(CONTEXTS),
    labels={"contexts": CONTEXTS, "blocks": BLOCKS},
    figures=FIGURES,
    parts=PARTS,
    trend=TREND,
    tells={name: name for name in ("net", "identified")},
    found="extracted.member",
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
