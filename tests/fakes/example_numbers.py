"""The numbers of example records that say nothing of their cases."""

from audit.policy import Limit

PRIVATE_CARD = {
    "noise_multiplier": 0.82,
    "max_norm": 1.0,
    "sample_rate": 0.16,
    "steps": 200,
    "local_steps": 0,
    "client_rate": 1.0,
    "accountant": "1.6.0",
    "optimizer": "adam",
    "learning_rate": 0.001,
    "trained": "lora:16",
    "embeddings": False,
    "head": True,
    "trained_parameters": 294_912,
    "frozen_parameters": 4_812_032,
}
TARGET = {
    "family": "layoutlm",
    "task": "mlm",
    "architecture": "LayoutLM, masked language model",
    "parameters": 4_812_032,
    "vocabulary": 6000,
    "max_tokens": 256,
    "device": "cpu",
    "dtype": "float32",
}
CORPUS = {
    "name": "receipts-2026",
    "task": "mlm",
    "assigned": "random",
    "providers": 24,
    "images": 600,
}
RECONSTRUCTION = {
    "n_candidates": 128,
    "n_attempts": 8,
    "temperature": 0.3,
    "temperature_start": 10.0,
    "target_weight": 0.4,
    "top_p": 0.1,
}
PROVIDER_COUNTS = {
    "providers in": "providers in training that were asked about",
    "providers out": "providers out of training that were asked about",
    "questions": "questions about kept-aside documents",
    "left out: no kept-aside document": "providers of whose documents none was kept aside",
    "left out: nothing to ask": "providers of whose documents no question has an answer",
}
"""What the attack on providers counts."""
LIMITS = [
    Limit(
        attack="reconstruction",
        metric="excess_pr.unique",
        rationale="At most one in twenty values of a single document may be recovered "
        "because of training.",
        max=0.05,
        min_power=0.5,
    ),
    Limit(
        attack="reconstruction",
        metric="excess_hamming.unique",
        rationale="Partial recovery counts as well.",
        max=0.1,
        min_power=0.5,
    ),
]
PROVIDER_EVIDENCE = {
    "attack": "provider_membership",
    "documents": 3,
    "questions": 9,
    "features": {"accuracy": 0.9, "loss": 0.2},
}
"""A line of evidence of the attack on providers."""
