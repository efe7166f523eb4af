"""Report text of canaries: labels, figures, tables, glossary."""

from __future__ import annotations

from audit.attacks.reporting import (
    AttackReport,
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
from audit.attacks.threats import Threat
from audit.corpus.kinds import TIERS as COPIES

PATTERNS = {"pin": "pins", "call": "numbers to call", "color": "colours", "names": "made-up names", "mixed": "codes"}
TIERS = {f"x{n}": f"planted in {n} copies" if n > 1 else "planted once" for n in COPIES}
BESIDE = ("excess.decoy", "extracted.decoy", "extracted.control.decoy")
MEASURED = (
    "epsilon",
    "epsilon.record",
    "epsilon.gaussian",
    *BESIDE,
    *(
        f"{metric}.{name}"
        for metric in (
            "extracted",
            "extracted.control",
            "top3",
            "top3.control",
            "hdt",
            "hdt.control",
            "exposure",
            "exposure.control",
            "excess",
            "excess_top3",
            "excess_exposure",
            "most_bits",
            "extracted.optimiser",
            "hdt.optimiser",
            *BESIDE,
        )
        for name in (*PATTERNS, *TIERS)
    ),
)
"""Measurements that no policy limits: one pattern, or number of copies, at a time, and epsilon."""
METRICS = {
    "excess": MetricText(
        "Came out because they were planted (excess)",
        short="Excess",
        form="points",
        meaning="How many more of 100 planted secrets than of 100 that were made up and never planted the attacker "
        "recovers whole. Without memory it is 0.",
    ),
    "excess_top3": MetricText(
        "Among the first three because they were planted (excess)",
        short="Excess in three tries",
        form="points",
        meaning="How many more of 100 planted secrets than of 100 that were never planted stand among the first "
        "three that the model holds likeliest. Who may try three times, as at a keypad, has these. Without memory it "
        "is 0.",
    ),
    "excess_exposure": MetricText(
        "Exposure because they were planted (excess, bits)",
        short="Excess of exposure, bits",
        meaning="How many more bits the model gives away of a planted secret than of one that was never planted, on "
        "average. Each bit halves what an attacker has to try, even where no secret comes out at once. Without "
        "memory it is 0.",
    ),
    "extracted": MetricText(
        "Recovered whole",
        short="Recovered whole",
        form="share",
        meaning="Share of the secrets of which the attacker recovers every word (or digit) in the right place.",
    ),
    "hdt": MetricText(
        "Words wrong in a secret (Hamming distance per token)",
        short="Words wrong",
        form="share",
        counted=False,
        meaning="How many of 100 words (or digits) of a secret the attacker gets wrong. The lower, the more is given "
        "away; guessing gets nearly all of them wrong.",
    ),
    "top3": MetricText(
        "Among the first three",
        short="Among the first three",
        form="share",
        meaning="Share of the secrets that stand among the first three that the model holds likeliest, of all that "
        "could stand there or of those that it was compared with.",
    ),
    "most_bits": MetricText(
        "Most that a ranking can show (bits)",
        short="Most bits",
        meaning="The exposure of a secret that the model puts first. With few others to compare it with, the first "
        "place says little: 6.5 bits are about 90 others, 13.3 all pins of four digits.",
    ),
    "exposure": MetricText(
        "Exposure (bits)",
        short="Exposure, bits",
        meaning="How early the model puts a secret among all that could have stood there. Each bit halves what an "
        "attacker has to guess. A model that knows nothing gives about 1.44 bits on average, by luck.",
    ),
    "epsilon": MetricText(
        "Epsilon is at least (from one training)",
        short="Epsilon at least",
        listed=False,
        meaning="A lower bound on epsilon, the measure of differential privacy: what the training cannot have kept. "
        "It never shows that a model is private.",
    ),
}

QUALIFIERS = {
    **PATTERNS,
    **TIERS,
    "decoy": "asked beside other completions",
    "control": "never planted (control)",
    "optimiser": "by the first search alone",
    "record": "of one training document",
    "gaussian": "if the training is a Gaussian mechanism",
}
FIGURES = (
    HistogramFigure(
        "exposure",
        caption="How much the model gives away of each secret, as shares of the planted ones and of the others. "
        "Without memory half of all secrets have less than one bit, a quarter one to two, and so on: bars "
        "further right than those of the control are memory.",
        labels={"": "Exposure of each secret (bits)", "included": "planted", "control": "never planted (control)"},
        height=1.75,
    ),
)
PARTS = (
    ReportPart(
        "What came out",
        text="what",
        tables=(
            TableSpec(
                "Secrets recovered, beside what guessing reaches.",
                columns=(
                    TableColumn("Recovered whole", "extracted", shown="count first"),
                    TableColumn("By guessing", "extracted", shown="null"),
                    TableColumn("Among the first three", "top3", shown="count first"),
                    TableColumn("Words wrong", "hdt"),
                    TableColumn("Exposure, bits", "exposure"),
                    TableColumn("By luck", "exposure", shown="null"),
                ),
                rows=(
                    TableRow("Planted"),
                    TableRow("Never planted (control)", "control"),
                    TableRow("Planted, by the first search alone", "optimiser"),
                    *(
                        row
                        for name, label in {**PATTERNS, **TIERS}.items()
                        for row in (
                            TableRow(f"Planted: {label}", name),
                            TableRow(f"Never planted: {label}", f"control.{name}"),
                        )
                    ),
                ),
            ),
            TableSpec(
                "Secrets given as the most frequent answer when other completions stand on the page in their place.",
                columns=(TableColumn("Recovered whole", "extracted", shown="count first"),),
                rows=(TableRow("Planted", "decoy"), TableRow("Never planted (control)", "control.decoy")),
            ),
            TableSpec(
                "What planted secrets give away beyond those that were never planted.",
                columns=(
                    TableColumn("Recovered whole", "excess"),
                    TableColumn("Among the first three", "excess_top3"),
                    TableColumn("Exposure, bits", "excess_exposure"),
                    TableColumn("Most that can be seen, bits", "most_bits"),
                ),
                rows=(TableRow("All"), *labelled_rows({**PATTERNS, **TIERS})),
            ),
        ),
    ),
    ReportPart("How much is given away before a secret comes out (exposure)", text="early"),
    ReportPart("What it says about privacy (epsilon)", text="privacy"),
)
TREND = TrendSpec(
    panels=(
        MetricPanel(
            "Planted secrets recovered whole",
            (NamedMetric("planted", "extracted"), NamedMetric("never planted", "extracted.control")),
        ),
        MetricPanel(
            "Exposure (bits)", (NamedMetric("planted", "exposure"), NamedMetric("never planted", "exposure.control"))
        ),
    ),
    columns=(NamedMetric("Planted secrets recovered", "extracted"), NamedMetric("Exposure, bits", "exposure")),
    summary={"canaries, excess": "excess"},
)
GLOSSARY = {
    "Canary": "A made-up secret that is planted in training data to see whether the model gives it away. Like the "
    "bird in a mine it is there to warn before real ones are lost.",
    "Control (canaries)": "Secrets made up in the same way that a coin kept out of the training data. What comes out "
    "of these is luck.",
    "Pseudo-log-likelihood": "How likely a model that fills gaps makes a text: each word is hidden in turn and "
    "guessed from all others, and the logarithms of the guesses are summed.",
    "Exposure": "How early a model puts a planted secret among all that could have stood there, in bits: each one "
    "halves what an attacker has to guess. 10 bits: among the first of 1,024.",
    "Epsilon, delta": "The measure of differential privacy: how far what anybody learns from a model may depend on "
    "one training document, but for a small chance delta. What is given here is a lower bound from one training run.",
    "Relaxed attack": "A search that treats unknown words as mixtures of all that could stand there and changes the "
    "mixtures until the model is least surprised. It needs the weights.",
}
SOURCES = (
    "R. Parikh, C. Dupuy, R. Gupta: Canary extraction in natural language understanding models. ACL 2022, "
    "arXiv:2203.13920.",
    "N. Carlini, C. Liu, Ú. Erlingsson, J. Kos, D. Song: The secret sharer: evaluating and testing unintended "
    "memorization in neural networks. USENIX Security 2019, arXiv:1802.08232.",
    "J. Salazar, D. Liang, T. Q. Nguyen, K. Kirchhoff: Masked language model scoring. ACL 2020, arXiv:1910.14659.",
    "M. Ghazvininejad, O. Levy, Y. Liu, L. Zettlemoyer: Mask-predict: parallel decoding of conditional masked "
    "language models. EMNLP 2019, arXiv:1904.09324.",
    "F. Mireshghallah, K. Goyal, A. Uniyal, T. Berg-Kirkpatrick, R. Shokri: Quantifying privacy risks of masked "
    "language models using membership inference attacks. EMNLP 2022, arXiv:2203.03929.",
    "T. Steinke, M. Nasr, M. Jagielski: Privacy auditing with one (1) training run. NeurIPS 2023, arXiv:2305.08846.",
    "S. Mahloujifar, L. Melis, K. Chaudhuri: Auditing f-differential privacy in one run. 2024, arXiv:2410.22235.",
)
THREAT = Threat(
    access="weights",
    knowledge="the words before the secret, the labels or the question that go with it, and what such a secret is made "
    "of",
    effort={"n_restarts": "starts a secret", "n_epochs": "steps a start of the relaxed attack"},
)
REPORT = AttackReport(
    title="Planted secrets (canaries)",
    question="Can made-up secrets that were planted in the training data be read back out of the model?",
    metrics=METRICS,
    qualifiers=QUALIFIERS,
    measured=MEASURED,
    diagnostics=("optimiser_reached", "missed", "epsilon_cap", "epsilon_delta"),
    figures=FIGURES,
    parts=PARTS,
    trend=TREND,
    tells={
        "excess": "extracted",
        "excess_top3": "top3",
        "excess_exposure": "excess_exposure",
        "epsilon": "epsilon",
    },
    found="extracted",
    glossary=GLOSSARY,
    sources=SOURCES,
    threat=THREAT,
)
