"""The page on which an arbiter shows that it lives."""

from pathlib import Path

from harmony_api.worker_protocol import Epoch
from harmony_sidecar.node_pages import ElectionPage


def test_a_heartbeat_that_comes_late_does_not_make_the_arbiter_look_silent(tmp_path: Path) -> None:
    page = ElectionPage(tmp_path / "arbiter")
    page.begin(Epoch(1), now_ns=500)
    page.beat(300)
    assert page.silence_ns(500) == 0
    page.beat(700)
    assert page.silence_ns(700) == 0
