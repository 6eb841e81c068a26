"""benchmarks/service_load.py in small: no outcome is lost or doubled. Its times are not looked at."""

from __future__ import annotations

import pytest

from benchmarks.service_load import measure


@pytest.mark.alone
def test_no_outcome_is_lost_or_doubled_under_load() -> None:
    measured = measure(clients=40, requests=400)
    assert (measured["questions"], measured["requests"]) == (400, 440)
    assert measured["pairs"] > 0
