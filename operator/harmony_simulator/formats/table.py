"""CSV files read strictly: every problem of a file is told at once, each with its line.

Whoever wrote a trace should correct it in one go. A reader asks a row for its values by column
and range; what is wrong is collected, and the row counts only where nothing was.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from harmony_simulator.trace import Problem, TraceError


class Row:
    """One line of the table; reading a bad value notes the problem and returns the least good."""

    def __init__(self, file: str, line: int, values: dict[str, str], problems: list[Problem]):
        self._file = file
        self.line = line
        self._values = values
        self._problems = problems
        self._faults = 0

    @property
    def is_good(self) -> bool:
        """Whether every value asked for so far was good."""
        return self._faults == 0

    def complain(self, message: str) -> None:
        """Note a problem of this line."""
        self._faults += 1
        self._problems.append(Problem(self._file, self.line, message))

    def text(self, column: str) -> str:
        """Return a value that may not be empty."""
        value = self._values.get(column, "").strip()
        if not value:
            self.complain(f"{column}: is empty")
        return value

    def number(self, column: str, *, above: float | None = None, most: float = math.inf) -> float:
        """Return a finite number: more than `above` where it is given, else at least 0."""
        text = self.text(column)
        if not text:
            return 0.0
        try:
            value = float(text)
        except ValueError:
            self.complain(f"{column}: {text} is not a number")
            return 0.0
        if not math.isfinite(value):
            self.complain(f"{column}: {text} is not a finite number")
        elif value < 0:
            self.complain(f"{column}: {text} is negative")
        elif above is not None and value <= above:
            self.complain(f"{column}: {text} should be more than {above:g}")
        elif value > most:
            self.complain(f"{column}: {text} is absurd, the most is {most:g}")
        else:
            return value
        return 0.0

    def count(self, column: str, *, least: int, most: int) -> int:
        """Return a whole number."""
        text = self.text(column)
        if not text:
            return least
        try:
            value = int(text)
        except ValueError:
            self.complain(f"{column}: {text} is not a whole number")
            return least
        if not least <= value <= most:
            self.complain(f"{column}: {text} is not within {least} and {most}")
            return least
        return value


def read_rows(file: Path, columns: Sequence[str], problems: list[Problem]) -> Iterator[Row]:
    """Yield the rows of a CSV file with a header; columns beside those asked for are ignored.

    Raises TraceError where no row can be read at all.
    """
    name = str(file)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise TraceError([Problem(name, None, reason)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        reason = "is not UTF-8: save it as UTF-8 text"
        raise TraceError([Problem(name, line, reason)]) from None
    reader = csv.reader(text.splitlines())
    header = [column.strip() for column in next(reader, [])]
    missing = [column for column in columns if column not in header]
    if missing:
        reason = f"misses the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise TraceError([Problem(name, 1, reason)])
    for values in reader:
        if not values:
            continue
        row = Row(name, reader.line_num, dict(zip(header, values, strict=False)), problems)
        if len(values) != len(header):
            row.complain(f"has {len(values)} values, the header names {len(header)}")
            continue
        yield row
