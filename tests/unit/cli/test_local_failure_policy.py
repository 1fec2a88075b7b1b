"""What follows from a worker's end is decided by its exit code and the manifest's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_api.failure_policy import FailurePolicy
from harmony_cli.local.failure_policy import (
    LONGEST_DELAY_SECONDS,
    Decision,
    after_failure,
    backoff_seconds,
)


def decide(exit_code: int, by: FailurePolicy | None = None, failures: int = 0) -> Decision:
    return after_failure(
        exit_code, container="worker", failures=failures, policy=by or FailurePolicy()
    )


def policy(*rules: dict[str, object], backoff_limit: int = 6) -> FailurePolicy:
    return FailurePolicy.model_validate({"backoffLimit": backoff_limit, "rules": list(rules)})


def rule(
    action: str, *codes: int, operator: str = "In", container: str | None = None
) -> dict[str, object]:
    match = {"containerName": container, "operator": operator, "values": list(codes)}
    return {"action": action, "onExitCodes": match}


@pytest.mark.parametrize("code", [1, 75, 137, -9, -15])
def test_a_failure_is_tried_again_and_spends_a_try(code: int) -> None:
    decision = decide(code)
    assert decision.consequence == "Restart"
    assert decision.counts
    assert decision.delay_seconds > 0


def test_the_job_fails_when_no_try_is_left() -> None:
    twice = policy(backoff_limit=2)
    assert [decide(1, twice, failures).consequence for failures in (0, 1, 2)] == [
        "Restart",
        "Restart",
        "Fail",
    ]


def test_a_rule_can_fail_the_job_at_once() -> None:
    assert decide(42, policy(rule("Fail", 42))).consequence == "Fail"


def test_an_ignored_failure_spends_no_try_even_without_tries_left() -> None:
    ignoring = policy(rule("Ignore", 137), backoff_limit=0)
    decision = decide(-9, ignoring, failures=5)
    assert decision.consequence == "Restart"
    assert not decision.counts


def test_the_first_rule_that_matches_decides() -> None:
    both = policy(rule("Ignore", 3), rule("Fail", 3))
    assert decide(3, both).consequence == "Restart"


def test_not_in_matches_every_other_code() -> None:
    others = policy(rule("Fail", 1, 2, operator="NotIn"))
    assert decide(3, others).consequence == "Fail"
    assert decide(2, others).consequence == "Restart"


def test_a_rule_for_another_container_does_not_match() -> None:
    of_servers = policy(rule("Fail", 1, container="server"))
    assert decide(1, of_servers).consequence == "Restart"


def test_a_rule_about_pods_never_matches_a_process() -> None:
    of_pods = policy({"action": "Fail", "onPodConditions": [{"type": "Disrupted"}]})
    assert decide(1, of_pods).consequence == "Restart"


@given(st.integers(0, 10_000))
def test_delays_grow_and_stay_bounded(failures: int) -> None:
    assert backoff_seconds(failures) <= backoff_seconds(failures + 1) <= LONGEST_DELAY_SECONDS
