"""Requests that a fuzzer makes from the service's own description: every answer is one that it describes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.integrations.service_world import in_thread, make_service

schemathesis = pytest.importorskip("schemathesis")
ignored_auth = pytest.importorskip("schemathesis.specs.openapi.checks").ignored_auth

TOKEN = "a-token-for-the-fuzzer"
OPERATIONS = (
    ("/v1/verify", "POST"),
    ("/v1/steps/{step}", "PUT"),
    ("/v1/steps/{step}/groups", "POST"),
    ("/v1/steps/{step}/score", "POST"),
    ("/v1/state", "GET"),
    ("/healthz", "GET"),
    ("/metrics", "GET"),
)


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with in_thread(make_service(tmp_path_factory.mktemp("fuzzed")), TOKEN) as url:
        described = httpx.get(f"{url}/openapi.json", headers={"authorization": f"Bearer {TOKEN}"}).json()
        loaded = schemathesis.openapi.from_dict(described)
        loaded.config.update(base_url=url)
        yield loaded


def test_every_address_is_fuzzed(schema: Any) -> None:
    described = {(found.ok().path, found.ok().method.upper()) for found in schema.get_all_operations()}
    assert described == set(OPERATIONS)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_answer_is_one_that_is_described(schema: Any, path: str, method: str) -> None:
    @settings(
        max_examples=30, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=schema[path][method].as_strategy())
    def fuzz(case: Any) -> None:
        # The token is tried in test_service.py: this check of the fuzzer sends it all the same.
        case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, excluded_checks=[ignored_auth])

    fuzz()
