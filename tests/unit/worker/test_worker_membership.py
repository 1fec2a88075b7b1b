from pathlib import Path

import pytest

from harmony_worker.membership import Membership
from harmony_worker.placement import parse_cpu_list


def test_without_variables_a_program_is_alone() -> None:
    member = Membership.from_environment({})
    assert (member.worker, member.workers) == (0, 1)
    assert member.servers == ()
    assert member.socket is None
    assert member.iterations is None


def test_every_variable_is_read() -> None:
    member = Membership.from_environment(
        {
            "HARMONY_JOB": "mlr",
            "HARMONY_WORKER_INDEX": "1",
            "HARMONY_WORKERS": "2",
            "HARMONY_SERVERS": "a:1, b:2",
            "HARMONY_SOCKET": "/run/socket",
            "HARMONY_ITERATIONS": "30",
            "HARMONY_LOSS_LOG": "losses",
            "HARMONY_COMPUTE_CPUS": "0,2-3",
            "HARMONY_TRANSFER_CPUS": "1",
        }
    )
    assert member == Membership(
        job="mlr",
        worker=1,
        workers=2,
        servers=("a:1", "b:2"),
        socket=Path("/run/socket"),
        iterations=30,
        loss_log=Path("losses"),
        compute_cpus=frozenset({0, 2, 3}),
        transfer_cpus=frozenset({1}),
    )


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"HARMONY_WORKERS": "two"}, "HARMONY_WORKERS"),
        ({"HARMONY_WORKERS": "0"}, "HARMONY_WORKERS"),
        ({"HARMONY_WORKER_INDEX": "-1"}, "HARMONY_WORKER_INDEX"),
        ({"HARMONY_WORKER_INDEX": "2", "HARMONY_WORKERS": "2"}, "HARMONY_WORKER_INDEX=2"),
        ({"HARMONY_COMPUTE_CPUS": "0-"}, "HARMONY_COMPUTE_CPUS"),
        ({"HARMONY_TRANSFER_CPUS": "first"}, "HARMONY_TRANSFER_CPUS"),
    ],
)
def test_a_value_that_cannot_be_meant_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Membership.from_environment(environment)


def test_a_list_of_cores_may_contain_ranges() -> None:
    assert parse_cpu_list("0,2-4, 7") == {0, 2, 3, 4, 7}
