"""The picture of the colocation benchmark: every mix, every way of running it, and the bound."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib import pyplot

COLOURS: Final = ("#bbbbbb", "#ee7733", "#77aadd", "#004488")


def draw(times: Mapping[str, Mapping[str, Sequence[float]]], path: Path) -> None:
    """Draw one bar per mix and way: the median over rounds, and a line from least to most.

    `times` are multiples of the bound, by mix and way (as many ways as there are colours).
    """
    pyplot.switch_backend("agg")
    figure, axes = pyplot.subplots(figsize=(10, 4.2), layout="constrained")
    width = 0.8 / len(COLOURS)
    ways = list(next(iter(times.values())))
    for position, (way, colour) in enumerate(zip(ways, COLOURS, strict=True)):
        rounds = [of_mix[way] for of_mix in times.values()]
        medians = [statistics.median(values) for values in rounds]
        places = [mix + (position - 1.5) * width for mix in range(len(rounds))]
        axes.bar(places, medians, width, color=colour, label=way.replace("_", " "))
        axes.vlines(places, list(map(min, rounds)), list(map(max, rounds)), "#333333", linewidth=1)
    axes.axhline(1.0, color="#333333", linewidth=1)
    axes.set_xticks(range(len(times)), [mix.replace("_", "\n") for mix in times])
    axes.set_ylabel("time, as a multiple of the bound")
    axes.set_title("Time to finish all jobs of a mix")
    figure.legend(loc="outside lower center", ncols=len(COLOURS), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
