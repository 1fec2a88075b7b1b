import io

from rich.console import Console

from harmony_api.sidecar_state import SidecarState
from harmony_cli.live import JobRow, LiveView
from harmony_cli.run_record import GroupRecord, MemberRecord, PredictionRecord

GROUP = GroupRecord(
    name="g",
    slots=["cpu-slot-0"],
    members=[
        MemberRecord(job="long", order=0, rounds=1),
        MemberRecord(job="short", order=1, rounds=2),
    ],
    prediction=PredictionRecord(
        cycle_seconds=0.21, serial_seconds=0.4, compute_utilisation=0.9, network_utilisation=0.8
    ),
)


class Watch:
    """A display, and the clock that it reads."""

    def __init__(self, *, terminal: bool) -> None:
        self.now = 100.0
        self.output = io.StringIO()
        console = Console(file=self.output, force_terminal=terminal, width=110)
        self.view = LiveView(console, "two jobs", clock=lambda: self.now)

    def show(self, iteration: int, waited: float = 0.0, notes: tuple[str, ...] = ()) -> str:
        rows = [
            JobRow("long", "Running", (state("long", iteration, waited),), total=400),
            JobRow("short", "Running", (state("short", 2 * iteration, waited),), total=400),
        ]
        before = self.output.tell()
        self.view.update(rows, notes, [GROUP])
        return self.output.getvalue()[before:]


def state(job: str, iteration: int, waited: float = 0.0) -> SidecarState:
    return SidecarState(
        job=job,
        worker=0,
        connected=True,
        iteration=iteration,
        loss=0.25,
        doing="Waiting",
        waiting_for="COMP",
        wait_seconds={"COMP": waited, "SYNC": 7 * waited},
    )


def test_without_a_terminal_a_line_per_job_is_printed_every_five_seconds() -> None:
    watch = Watch(terminal=False)
    watch.show(0)
    watch.now += 2.5
    assert watch.show(10) == ""
    watch.now += 2.5
    text = watch.show(20, waited=1.0)
    assert "long: Running wait COMP, 20/400, 4.0/s, waits 20 %, loss 0.25, 1:35 left" in text
    assert "cpu-slot-0: long and short, cycle 210 ms predicted, 250 ms measured" in text


def test_speed_is_that_of_the_last_seconds() -> None:
    watch = Watch(terminal=False)
    for step in range(1, 21):
        watch.now += 1
        watch.show(step)
    for step in range(1, 11):
        watch.now += 1
        watch.show(20 + 10 * step)
    watch.view.close()
    assert "120/400, 10.0/s" in watch.output.getvalue()


def test_a_replaced_worker_does_not_make_a_negative_speed() -> None:
    watch = Watch(terminal=False)
    watch.show(50, waited=10)
    watch.now += 5
    assert "-" not in watch.show(48, waited=0).replace("cpu-slot-0", "").split("cycle")[0]


def test_a_note_is_printed_once_where_nobody_watches() -> None:
    watch = Watch(terminal=False)
    assert "no GPU" in watch.show(0, notes=("no GPU here",))
    watch.now += 10
    assert "no GPU" not in watch.show(1, notes=("no GPU here",))


def test_on_a_terminal_the_table_shows_every_job_and_stays_after_the_end() -> None:
    watch = Watch(terminal=True)
    watch.show(10)
    watch.now += 1
    text = watch.show(20, notes=("a note",))
    for expected in ("long", "short", "20/400", "10.0/s", "wait COMP", "a note", "210 ms"):
        assert expected in text
    watch.view.close()
    watch.view.close()


def test_a_job_that_never_answered_is_shown_by_its_state() -> None:
    watch = Watch(terminal=False)
    watch.view.update([JobRow("late", "Waiting", total=9)])
    assert "late: Waiting, 0/9" in watch.output.getvalue()
