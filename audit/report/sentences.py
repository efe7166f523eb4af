"""Write a measurement as a sentence: its label, count or value, and interval."""

from audit.attacks import TEXTS
from audit.attacks.text import AttackText
from audit.measurements import Estimate
from audit.report.numbers import NBSP, amount, between, interval, reached, show


def finding_sentence(attack: str, measured: Estimate) -> str:
    """Say what a measurement of an attack is, with count or value and interval."""
    text = TEXTS.get(attack)
    if text is None:
        return f"{measured.name} {show(measured.value, 'number')} ({between(measured, 'number')})"
    metric = text.metric(measured.name)
    value = amount(measured, metric.form)
    if metric.form == "share" and metric.counted:
        value = f"{reached(measured)} {measured.unit}"
    chance = ""
    if measured.is_area:
        chance = f", {show(0.5, metric.form)} is guessing"
    label = text.label(measured.name)
    sentence = f"{label}: {value} ({interval(measured, metric.form)}{chance})"
    return sentence.replace(NBSP, " ")


def value_sentence(text: AttackText, measured: Estimate) -> str:
    """Say what a measurement is, with its value alone: for one without an interval."""
    value = show(measured.value, text.metric(measured.name).form)
    return f"{text.label(measured.name)}: {value}".replace(NBSP, " ")
