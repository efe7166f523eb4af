"""Report text of reconstruction (CDMI): labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    AttackReport,
    CategoryFigure,
    CurveFigure,
    CurvePanel,
    HistogramFigure,
    MetricPanel,
    MetricText,
    NamedMetric,
    PartMark,
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
    BLOCKS,
    DOCUMENTS,
    DOCUMENTS_REVEALED,
    VALUES,
    VALUES_REVEALED,
)
from audit.attacks.threats import Threat

ACC_AT = "AccAt(p): of the share p of values that the attacker is surest of, the part recovered word for word."
ACC_LABELS = {
    1: "Right among the surest 1 %",
    5: "Right among the surest 5 %",
    100: "Right, the most plausible of several attempts",
}
HAM_AT = (
    "HamAt(p): the mean Hamming distance of the share p of values that the attacker is surest of. Lower means more was "
    "recovered."
)
HAM_LABELS = {
    1: "Hamming distance of the surest 1 %",
    5: "Hamming distance of the surest 5 %",
    100: "Hamming distance, the most plausible of several attempts",
}
OTHER_METHODS = {"lowest_loss": "by the lowest loss", "tuned": "sampled with the parameters of a file"}
OTHER_RANKINGS = {
    "raw_perplexity": "ranked by raw perplexity",
    "raw_and_ratio": "ranked by perplexity times ratio",
    "likelihood_gap": "ranked by likelihood gap",
    "likelihood_ratio": "ranked by likelihood ratio",
}
"""Membership scores of section 4.3, beside the primary one."""
PUBLISHED = "sampled as published"
WITH, UNSEEN, WITHOUT = (
    "declared as trained on, with the model",
    "declared as never seen, with the model",
    "declared as trained on, without the model",
)


def _with_and_without(metric: str) -> tuple[NamedMetric, ...]:
    """The metric with the model on both kinds of documents, and without the model."""
    return (
        NamedMetric(WITH, f"{metric}.member.attack"),
        NamedMetric(UNSEEN, f"{metric}.heldout.attack"),
        NamedMetric(WITHOUT, f"{metric}.member.baseline"),
    )


def _by_length(label: str, suffix: str) -> tuple[TableRow, ...]:
    """Rows of values of other lengths, by way of choosing."""
    published = TableRow(f"{label}, {PUBLISHED}", suffix)
    return (published, *labelled_rows(OTHER_METHODS, f"{label}, {{}}", f"{suffix}.{{}}"))


METRICS = {
    **BLIND_METRICS,
    VALUES: VALUES_REVEALED,
    DOCUMENTS: DOCUMENTS_REVEALED,
    "excess_pr": MetricText(
        "Recovered because of training, word for word",
        short="Excess word for word",
        form="points",
        meaning="How many more values in a hundred the model gives back on documents it was trained on than on "
        "documents it never saw, after taking off what an attacker without the model reaches on each.",
    ),
    "excess_hamming": MetricText(
        "Recovered because of training, word piece by word piece",
        short="Excess by word piece",
        form="points",
        meaning="The same comparison for the share of word pieces that were put in the right place (1 minus the "
        "Hamming distance).",
    ),
    "planted_detection": MetricText(
        "Strength of the attacker",
        form="share",
        meaning="Planted memory: on documents the model never saw, each true word piece is made likelier by two "
        "standard deviations of the difference between two candidates. This is the share of values that the attack "
        "then rebuilds word for word, and did not rebuild before. Where it is low, finding little says little.",
    ),
    "heldout_gain": MetricText(
        "Recovered from pages never seen, beyond the public model",
        short="Gain on pages never seen",
        form="points",
        meaning="How many more values in a hundred are put back word for word with the model than without it, on "
        "documents it is said never to have seen. Far above zero, it looks trained on them, and the comparison with "
        "them says nothing.",
    ),
    "candidate_recall": MetricText(
        "Values within the attacker's reach",
        form="share",
        meaning="Candidate recall: the share of values whose every word piece is among the attacker's guesses: those "
        "of the public language model, or of the audited model itself where it was trained to guess hidden words.",
    ),
    "public_accuracy": MetricText(
        "Skill of the attacker's public language model",
        form="share",
        meaning="Share of hidden word pieces it guesses correctly. The published attack had 54 %.",
    ),
    "pr": MetricText(
        "Recovered word for word (PR)",
        form="share",
        meaning="Perfect reconstruction: every word piece of the value is right. Higher means more was recovered.",
    ),
    "hd": MetricText(
        "Hamming distance (HD)",
        meaning="Share of word pieces that are wrong at their place: 0 when all are right, 1 when none is. Lower "
        "means more was recovered.",
    ),
    "ld": MetricText(
        "Levenshtein distance (LD)",
        meaning="Share of word pieces to insert, delete or change: 0 when all are right. Lower means more was "
        "recovered.",
    ),
    "jwd": MetricText(
        "Jaro-Winkler distance (JWD)",
        meaning="Difference that forgives shifted pieces and weighs the beginning more: 0 when all are right. Lower "
        "means more was recovered.",
    ),
    "ipf": MetricText(
        "Improvement factor (IpF)",
        form="ratio",
        meaning="Mean ratio by which holding the model improves the four scores above: 1 means that the model does "
        "not help. A small constant (epsilon, 0.01 unless stated) keeps the ratios finite.",
    ),
    "excess_accauc": MetricText(
        "Because of training, several attempts (AccAUC)",
        short="Excess AccAUC",
        form="points",
        meaning="AccAUC of the attacker with several attempts, minus that of an attacker without the model, on "
        "documents it was trained on; minus the same on documents it never saw.",
    ),
    "accauc": MetricText(
        "Right ones, the surest first (AccAUC)",
        form="share",
        listed=False,
        meaning="AccAt(p) averaged over all p: high when many values were recovered and the right ones were ranked "
        "first.",
    ),
    "hamaac": MetricText(
        "Right word pieces, the surest first (HamAAC)",
        listed=False,
        meaning="1 minus HamAt(p) averaged over all p. Higher means more was recovered.",
    ),
    **{f"acc_at_{p}": MetricText(label, form="share", listed=False, meaning=ACC_AT) for p, label in ACC_LABELS.items()},
    **{f"ham_at_{p}": MetricText(label, listed=False, meaning=HAM_AT) for p, label in HAM_LABELS.items()},
}

QUALIFIERS = {
    **BLOCKS,
    **OTHER_METHODS,
    "default": PUBLISHED,
    "member": "declared as trained on",
    "heldout": "declared as never seen",
    "attack": "with the model",
    "baseline": "without the model",
    "unique": "values of a single document",
    "repeated": "values that several documents share",
    "all": "all values",
    "long": "values too long to be attacked whole",
    "short": "values of one or two word pieces",
    "e0.001": "epsilon 0.001",
    "e0.1": "epsilon 0.1",
    **OTHER_RANKINGS,
}
FIGURES = (
    CategoryFigure(
        (
            MetricPanel("Values recovered word for word", _with_and_without("pr")),
            MetricPanel("Word pieces put in the right place", _with_and_without("hd"), complement=True),
        ),
        caption="What was recovered, by kind of value, with intervals. A model that remembers nothing shows its "
        "filled circles (documents it was trained on) no further right than its open squares (documents it never "
        "saw).",
    ),
    HistogramFigure(
        "hamming",
        caption="How far the recovered values are from the true ones. At 0 every word piece is right, at 1 none "
        "is. Memory shows as bars at the left that appear for documents the model was trained on, and not for "
        "documents it never saw.",
        labels={
            "member": "Documents declared as trained on",
            "held-out": "Documents declared as never seen",
            "attack": "with the model",
            "baseline": "without the model",
        },
    ),
)
PARTS = (
    ReportPart(
        "Several attempts at every value (multi-shot)",
        text="several",
        mark=PartMark(
            "distinct attempts",
            under=2,
            label="equals one-shot",
            reason="At half of the values or more, all attempts gave the same reconstruction. Choosing among "
            "them then changes next to nothing, and only the order of the values says more than the single "
            "attempt above.",
        ),
        figures=(
            CurveFigure(
                (
                    CurvePanel(
                        "acc_at",
                        "Recovered word for word, AccAt(p)",
                        axis="values, the surest first (per cent)",
                        quantity="per cent",
                        form="share",
                        x_scale=100,
                    ),
                    CurvePanel(
                        "ham_at",
                        "Hamming distance, HamAt(p)",
                        axis="values, the surest first (per cent)",
                        quantity="distance",
                        x_scale=100,
                    ),
                ),
                caption="How right the attacker was on the values it was surest of, with the interval of each point as "
                "a band. A line that is high at the left for AccAt(p), or low at the left for HamAt(p), means that the "
                "attacker knows which of its reconstructions are right; at 100 % all values count. Memory shows as a "
                "gap between the solid line and the dashed one, beyond what the dotted one reaches.",
                series={"member, attack": WITH, "held-out, attack": UNSEEN, "member, baseline": WITHOUT},
            ),
        ),
        tables=(
            TableSpec(
                "Several attempts, ranked by the perplexity ratio, the score that docaudit fixed before the scan; "
                "the baseline by its own perplexity.",
                columns=(
                    TableColumn("AccAt(1 %)", "acc_at_1", shown="counted"),
                    TableColumn("AccAt(5 %)", "acc_at_5", shown="counted"),
                    TableColumn("AccAt(100 %)", "acc_at_100", shown="counted"),
                    TableColumn("AccAUC", "accauc"),
                    TableColumn("HamAt(5 %)", "ham_at_5"),
                    TableColumn("HamAAC", "hamaac"),
                ),
                rows=(
                    TableRow("Declared as trained on, with the model", "member.attack"),
                    TableRow("Declared as trained on, without the model", "member.baseline"),
                    TableRow("Declared as never seen, with the model", "heldout.attack"),
                    TableRow("Declared as never seen, without the model", "heldout.baseline"),
                ),
            ),
            TableSpec(
                "Secondary: the other four scores of the published attack, on documents the model was trained on, "
                "with the model. Picking the best of five after the fact would overstate the attack.",
                columns=(
                    TableColumn("AccAt(5 %)", "acc_at_5", shown="counted"),
                    TableColumn("AccAUC", "accauc"),
                    TableColumn("HamAAC", "hamaac"),
                ),
                rows=(
                    TableRow("Raw perplexity (the public model's)", "member.attack.raw_perplexity"),
                    TableRow("Perplexity times ratio", "member.attack.raw_and_ratio"),
                    TableRow("Largest gap of two likelihoods", "member.attack.likelihood_gap"),
                    TableRow("Largest ratio of two likelihoods", "member.attack.likelihood_ratio"),
                ),
            ),
        ),
    ),
    ReportPart(
        "By way of choosing",
        text="by_method",
        tables=(
            TableSpec(
                "What having been trained on a page adds by the other ways of choosing, and on values of other "
                "lengths; values of a single document.",
                columns=(
                    TableColumn("Word for word", "excess_pr"),
                    TableColumn("Word for word, drawn", "excess_pr", shown="drawn"),
                    TableColumn("By word piece", "excess_hamming"),
                ),
                rows=(
                    *labelled_rows(OTHER_METHODS, suffix="unique.{}"),
                    *_by_length("Longer values, their ends", "long"),
                    *_by_length("Values of one or two word pieces", "short"),
                ),
            ),
        ),
    ),
    BLIND_PART,
)
TREND = TrendSpec(
    panels=(
        MetricPanel("One attempt: recovered word for word (PR)", _with_and_without("pr")),
        MetricPanel("One attempt: Hamming distance (HD)", _with_and_without("hd")),
        MetricPanel(
            "Improvement factor (IpF)",
            (
                NamedMetric(WITH, "ipf.member"),
                NamedMetric(UNSEEN, "ipf.heldout"),
            ),
        ),
        MetricPanel("Several attempts: AccAUC", _with_and_without("accauc")),
        MetricPanel("Several attempts: HamAAC", _with_and_without("hamaac")),
    ),
    columns=(
        NamedMetric("PR", "pr.member.attack"),
        NamedMetric("PR without the model", "pr.member.baseline"),
        NamedMetric("IpF", "ipf.member"),
        NamedMetric("AccAUC", "accauc.member.attack"),
        NamedMetric("Attacker's strength", "planted_detection.unique"),
    ),
    summary={
        "excess PR, unique": "excess_pr.unique",
        "IpF, members": "ipf.member",
        "AccAUC, members": "accauc.member.attack",
    },
)
GLOSSARY = {
    **BLIND_GLOSSARY,
    "Reconstruction": "Guessing a value that was removed from a page, with the help of a model that was trained on "
    "the page.",
    "Word for word": "Every word piece of the value is right. One wrong digit counts as not recovered.",
    "Word piece": "The unit in which the model reads text: a short word, or a part of a longer one or of a number.",
    "Without the model": "The same attack by someone who has only a public language model. What this attacker "
    "recovers is not the fault of the audited model.",
    "Because of training (excess)": "What holding the model adds on documents it was trained on, minus what holding "
    "it adds on documents it never saw. A model that is merely good at guessing adds the same on both, so its excess "
    "is about zero.",
    "Value of a single document": "A value that occurs in no other document of the data set. Only memory of that one "
    "document helps to recover it, and so the policy looks here first.",
    "Value that several documents share": "A supplier's name or a city, for example. A model can know it without "
    "remembering any one page.",
    "Planted memory": "A memory of known strength, added to the audited model's own losses on documents it never saw. "
    "What the attack recovers because of it says how strong the attacker was.",
    "Candidate recall": "The share of values that the attacker's guesses could spell at all.",
    "Improvement factor (IpF)": "How many times better the attack does with the model than without it, averaged over "
    "four scores; 1 means no better.",
    "Attempt": "One reconstruction of a value. The attack draws its guesses at random, so several attempts at one "
    "value can differ. One-shot counts the first of them, multi-shot the most plausible one.",
    "Perplexity ratio": "How sure an attacker is of an attempt: the public model's surprise at it, divided by that "
    "of the attack with the model. Large where the model finds likely what is unlikely in general. It needs no "
    "knowledge of the true value.",
    "AccAt(p)": "Of the share p of values that the attacker is surest of, the part that is right word for word. "
    "AccAt(5 %) = 50 %: half of the surest twentieth is right.",
    "AccAUC": "The mean of AccAt(p) over all p, the area under its curve. High when many values are right and these "
    "are ranked first.",
    "HamAt(p), HamAAC": "HamAt(p) is the mean Hamming distance of the share p of values that the attacker is surest "
    "of. HamAAC is 1 minus its mean over all p, the area above its curve: higher means more was recovered.",
    "PUB-MLM": "The attacker's public language model: it proposes guesses and never saw the audited documents.",
}
SOURCES = (
    "J. Dentan, A. Paran, A. Shabou: Reconstructing training data from document understanding models. USENIX "
    "Security 2024, arXiv:2406.03182.",
)
THREAT = Threat(
    access="weights",
    knowledge="the rest of the page with the labels of training, how many word pieces the value has, and a public "
    "language model",
    effort={"n_candidates": "candidates a word piece", "n_attempts": "attempts a value"},
)
REPORT = AttackReport(
    title="Reconstruction of blacked-out values",
    question="Can someone who holds the model put back a value that was blacked out on a page it was trained on?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    diagnostics=(*BLIND_DIAGNOSTICS, "distinct attempts"),
    labels={"blocks": BLOCKS},
    figures=FIGURES,
    parts=PARTS,
    trend=TREND,
    tells={
        name: name for name in ("excess_pr.unique", "excess_hamming.unique", "excess_pr.repeated", VALUES, DOCUMENTS)
    },
    found="pr.member.attack",
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
