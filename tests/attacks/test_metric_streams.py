"""Every metric has a random stream of its own: what is measured beside it changes no number."""

from collections import Counter

import numpy as np
import pytest
import redacted
import test_paired_scores as paired
import test_provider_planted as providers
from attempts import run

from audit.attacks import measuring
from audit.attacks.attributes import AttributeInference
from audit.attacks.canaries import Canaries
from audit.attacks.measuring import Streams, run_jobs
from audit.attacks.membership import MembershipInference
from audit.attacks.memorisation import Memorisation
from audit.attacks.provider_membership import ProviderMembership
from audit.attacks.reconstruction import Reconstruction
from audit.attacks.redaction import RedactionContext
from audit.case import Case, References
from audit.measurements import Unresolved

BY_JOBS = {
    "attribute_inference": paired.inferred,
    "memorisation": paired.memorised,
    "reconstruction": paired.reconstructed,
}


def planted_providers(_root) -> None:
    data = providers.corpus()
    target = providers.Reader(providers.known_of(data, providers.providers_in(data)))
    run(providers.QUICK, Case(target, data, References(pretrained=providers.Reader(seed=1))))


def redactions(_root) -> None:
    redacted.findings(redacted.texts(40, told=True), redacted.Tagging())


SCANS = {
    AttributeInference: lambda _root: next(paired.inferred()),
    Canaries: lambda root: next(paired.planted_secrets(root)),
    MembershipInference: lambda _root: next(paired.told()),
    Memorisation: lambda _root: next(paired.memorised()),
    ProviderMembership: planted_providers,
    Reconstruction: lambda _root: next(paired.reconstructed()),
    RedactionContext: redactions,
}


def test_streams_of_a_name_are_equal_and_those_of_others_are_not() -> None:
    one = Streams(np.random.default_rng(1))
    other = Streams(np.random.default_rng(1))
    other["b"].random(100)
    assert one["a"].random() == other["a"].random() != one["b"].random()
    assert Streams(np.random.default_rng(2))["a"].random() != one["a"].random()


@pytest.mark.parametrize("attack", SCANS)
def test_an_attack_draws_one_seed_and_each_stream_once(attack, monkeypatch, tmp_path) -> None:
    asked = Counter()
    stream = Streams.__getitem__
    measure = attack.measure

    def count(self, name):
        asked[self._seed, name] += 1
        return stream(self, name)

    def measure_with(self, case, trials, outcomes, rng, progress):
        findings = measure(self, case, trials, outcomes, rng, progress)
        spent = np.random.default_rng(1)
        spent.integers(2**63)
        assert rng.random() == spent.random()
        return findings

    monkeypatch.setattr(Streams, "__getitem__", count)
    monkeypatch.setattr(attack, "measure", measure_with)
    SCANS[attack](tmp_path)
    assert asked
    assert max(asked.values()) == 1, asked.most_common(3)


@pytest.mark.parametrize("name", BY_JOBS)
def test_a_measurement_left_out_or_made_later_changes_no_other(name, monkeypatch) -> None:
    scan = BY_JOBS[name]
    made = []

    def run_all(stage, jobs, progress):
        made.append(run_jobs(stage, jobs, progress))
        return made[-1]

    def run_some(stage, jobs, progress):
        """Run every second job, the last first."""
        found = list(made[0])
        for index, job in reversed([*enumerate(jobs)][::2]):
            found[index] = job()
        return found

    monkeypatch.setattr(measuring, "run_jobs", run_all)
    _, everything = next(scan())
    monkeypatch.setattr(measuring, "run_jobs", run_some)
    _, some = next(scan())
    assert some == everything
    assert any(not isinstance(item, Unresolved) for item in made[0])
