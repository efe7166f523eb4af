"""Report text that several attacks share: the blind check, and telling members from others at few false alarms."""

from __future__ import annotations

from audit.attacks.reporting import CurvePanel, MetricText, ReportPart, TableRow

BLIND_AUC = "blind_auc"
"""The measurement; the diagnostics are `blind_p`, `blind_power` and `blind_auc.<block>`."""
LOW = "low_fpr_advantage"
"""True-positive rate minus false-positive rate at the lowest rate that is resolved, see `stats.advantage`."""
RETRAIN = "train again without this leak, and scan again"
"""The remedy of a check that shows a leak."""
DOCUMENTS, VALUES = "documents_identified", "values_identified"
"""Counts of what an attack gives away for certain: documents, and distinct values, beyond the control."""
RATES = {"10": 0.1, "1": 0.01}
"""The false-positive rates that are looked at, in per cent and as shares."""
SCORE_CAPS = {LOW: 0.9, **{f"fpr_at_{rate}": share for rate, share in RATES.items()}}
"""Of rates at few false alarms (`Description.caps`): at 10 % false alarms no advantage is over 0.90."""
BLOCKS = {
    "words": "what they say",
    "layout": "where their words stand",
    "image": "how they look",
    "metadata": "how much they hold",
    "spread": "how far they lie from the usual",
    "together": "everything together",
}
"""Features that a classifier of the blind check sees."""
BLIND_METRICS = {
    BLIND_AUC: MetricText(
        "Told apart without the model (blind check)",
        short="Without the model (AUC)",
        meaning="How often someone who never sees the model picks the one used for training out of one of each kind. "
        "It is the best of several classifiers, so that chance alone lies a little above a coin toss (0.5): compare "
        "with it. Whatever lies above that, the training did not cause.",
    ),
}
BLIND_DIAGNOSTICS = (BLIND_AUC, "blind_p", "blind_power")
BLIND_PART = ReportPart("The same without the model (blind check)", text="blind_check", template="attacks/_blind.html")
BLIND_ROW = TableRow("Without the model (blind check)", instead={"auc": BLIND_AUC})
BLIND_GLOSSARY = {
    "Blind check": "The attempt to tell what was used for training from what was not by the documents alone, without "
    "the model. When it succeeds (p of 5 % or less, shared by all checks of a scan), the two kinds differ in "
    "themselves, and an attack's success "
    "proves nothing.",
}

ROC_PANEL = CurvePanel(
    "roc",
    "Found, against false alarms",
    axis="false alarms (per cent)",
    quantity="found (per cent)",
    form="share",
    x_scale=100,
    diagonal=True,
)
DOCUMENTS_RECOGNISED = MetricText(
    "Documents recognised for certain",
    short="Documents recognised",
    meaning="How many of the documents trained on rank above all but one of those never seen, less as many as chance "
    "puts there. A count of those that were tried, not of all there are.",
)
DOCUMENTS_REVEALED = MetricText(
    "Documents given away",
    short="Documents given away",
    meaning="How many documents trained on give away more values of their own than all but one of those never seen, "
    "less as many as chance makes of them. A count of those that were tried, not of all there are.",
)
VALUES_REVEALED = MetricText(
    "Values given away",
    short="Values given away",
    meaning="Distinct values, each of a single training document: how many more the attacker gets with the model than "
    "without it, beyond the same on documents never seen. A count of those that were tried, not of all there are.",
)
RARE_ALARMS = MetricText(
    "Found at one false alarm in a hundred",
    short="Found at 1 % false alarms",
    form="share",
    meaning="The same at 1 % false alarms. Guessing finds 1 %. Only an attacker who is rarely wrong can accuse "
    "anybody.",
)
TELLING_GLOSSARY = {
    "AUC": "How often the attacker picks the document, or company, that was used for training out of one of each "
    "kind: 0.5 is guessing, 1 is always right.",
    "False alarm": "A document, or company, that was not used for training and that the attacker takes for one that "
    "was.",
}
