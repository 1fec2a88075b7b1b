"""The published traces that tests compare with; a test that needs them is skipped without."""

import os
from functools import cache
from pathlib import Path

import pytest

from harmony_simulator.formats import muri
from harmony_simulator.trace import Cluster, Trace

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("HARMONY_SHARED_DATA", CHECKOUT.parent / "shared" / "data")) / "muri"

needs_published_traces = pytest.mark.skipif(
    not FOLDER.is_dir(),
    reason=f"no published traces in {FOLDER}: HARMONY_SHARED_DATA names the folder above them",
)


@cache
def published(name: str, jobs: int | None = None) -> Trace:
    return Trace(muri.read_trace(FOLDER / f"{name}.csv").jobs[:jobs])


def published_cluster() -> Cluster:
    return muri.read_cluster(FOLDER / "n8g8.csv")
