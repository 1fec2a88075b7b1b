"""Pictures of simulations: when jobs completed, how busy the cluster was, who waited."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from harmony_simulator.results import Result

FloatArray = NDArray[np.float64]

_WIDTH_INCHES: Final = 8.0
_HEIGHT_INCHES: Final = 4.5
_BINS: Final = 200
"""Points of a curve over time; each is a mean over its part of the time."""
_UNITS: Final = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


def draw(results: Mapping[str, Result], folder: Path) -> list[Path]:
    """Write the pictures of some runs, by their labels, and return their files."""
    pictures: Mapping[str, Callable[[Axes, Mapping[str, Result]], None]] = {
        "completion-times.png": _completion_times,
        "utilisation.png": _utilisation,
        "queue.png": _queue,
    }
    files = []
    for name, draw_on in pictures.items():
        figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        draw_on(axes, results)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        figure.savefig(folder / name, dpi=120)
        files.append(folder / name)
    return files


def mean_over_time(
    at_seconds: Sequence[float], values: Sequence[float], bins: int = _BINS
) -> tuple[FloatArray, FloatArray]:
    """Return the middles of equal parts of the time from 0, and the mean of the values in each.

    A value holds from its time to the next one; the last has no duration.
    """
    times = np.asarray(at_seconds, dtype=np.float64)
    edges = np.linspace(0.0, times[-1], bins + 1)
    integral = np.concatenate(([0.0], np.cumsum(np.asarray(values)[:-1] * np.diff(times))))
    means = np.diff(np.interp(edges, times, integral)) / np.diff(edges)
    return (edges[:-1] + edges[1:]) / 2, means


def _completion_times(axes: Axes, results: Mapping[str, Result]) -> None:
    unit, name = _unit(max(max(r.completions_seconds, default=0.0) for r in results.values()))
    for label, result in results.items():
        times = [time / unit for time in result.completions_seconds]
        shares = [(rank + 1) / len(result.outcomes) for rank in range(len(times))]
        axes.step([0.0, *times], [0.0, *shares], where="post", label=label)
    axes.set(
        xlabel=f"{name} from submission to completion", ylabel="share of the jobs", ylim=(0, 1)
    )


def _utilisation(axes: Axes, results: Mapping[str, Result]) -> None:
    unit, name = _unit(max(result.makespan_seconds for result in results.values()))
    for label, result in results.items():
        times, compute = mean_over_time(
            [sample.at_seconds for sample in result.samples],
            [sample.compute_utilisation for sample in result.samples],
        )
        axes.plot(times / unit, compute, label=label)
    axes.set(xlabel=name, ylabel="part of the cluster that computes", ylim=(0, 1))


def _queue(axes: Axes, results: Mapping[str, Result]) -> None:
    unit, name = _unit(max(result.makespan_seconds for result in results.values()))
    for label, result in results.items():
        samples = result.samples
        axes.step(
            [sample.at_seconds / unit for sample in samples],
            [sample.waiting_jobs for sample in samples],
            where="post",
            label=label,
        )
    axes.set(xlabel=name, ylabel="jobs that wait")
    axes.set_ylim(bottom=0)


def _unit(longest_seconds: float) -> tuple[float, str]:
    """Return the seconds of the unit in which a time is a number to read, and its name."""
    return next((unit for unit in _UNITS if longest_seconds >= 2 * unit[0]), (1.0, "seconds"))
