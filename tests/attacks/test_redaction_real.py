"""The redaction attack on the Text Anonymization Benchmark: the anchors of methods.md#redaction-context."""

from __future__ import annotations

from pathlib import Path

import pytest
import redacted

from audit.corpus import manifest
from audit.importers.registry import FORMATS

tab = FORMATS["tab"]

SOURCE = Path(__file__).parents[2].parent / "shared" / "data" / "tab"


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.skipif(not SOURCE.is_dir(), reason="the corpora are not here")
def test_tfidf_and_a_linear_svm_tell_three_kinds_in_four_under_a_fixed_mask(tmp_path):
    tab.convert(SOURCE, tmp_path / "tab", {"member": 0.5, "heldout": 0.5}, 0)
    found = redacted.findings(manifest.load(tmp_path / "tab"))
    accuracy = redacted.measured(found, "accuracy")
    assert (accuracy.n, accuracy.clusters) == (7320, 127)
    assert 0.74 <= accuracy.value <= 0.90
    assert accuracy.null == pytest.approx(0.353, abs=0.002)
    assert redacted.measured(found, "accuracy.length-only").value == pytest.approx(0.566, abs=0.01)
    assert redacted.measured(found, "lift_over_length").low > 0.1
