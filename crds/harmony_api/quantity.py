"""Kubernetes quantities (`6Gi`, `500M`, `2e9`, `250m`), read exactly.

Memory shares add up to a device's capacity, so a quantity is never a float here: it is an
exact fraction, and bytes are rounded up to whole ones, as Kubernetes does.
"""

import math
import re
from fractions import Fraction
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from harmony_api.schema_rules import Rule, rules

_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)}
_SMALL: Final = {"m": Fraction(1, 10**3), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9)}
_UNITS: Final[dict[str, Fraction]] = {
    "": Fraction(1),
    **{unit: Fraction(factor) for unit, factor in (_BINARY | _DECIMAL).items()},
    **_SMALL,
}
_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:[eE](?P<exponent>[+-]?[0-9]{1,2}))?"
    r"(?P<unit>[A-Za-z]*)"
)
LARGEST_BYTES: Final = 2**63 - 2
"""Kubernetes keeps quantities of bytes in an int64, whose largest value stands for any above."""


class QuantityError(ValueError):
    """The text is no quantity; the message says what to write instead."""


def parse_quantity(text: str) -> Fraction:
    """Return the exact value of a Kubernetes quantity.

    Raises QuantityError for a wrong form or an unknown unit.
    """
    form = _FORM.fullmatch(text)
    if form is None:
        raise QuantityError(f"{text!r} is not a quantity: write a number and a unit, as in '6Gi'")
    unit = form["unit"]
    if unit not in _UNITS or (unit and form["exponent"]):
        raise QuantityError(f"{text!r} has no unit that Kubernetes knows{_unit_hint(unit)}")
    return Fraction(form["number"]) * Fraction(10) ** int(form["exponent"] or 0) * _UNITS[unit]


def parse_bytes(text: str) -> int:
    """Return a quantity of memory in bytes, rounded up to a whole byte.

    Raises QuantityError also where the quantity is negative, larger than an int64 holds, or
    has a unit below one, since `500m` of memory is half a byte and surely meant otherwise.
    """
    value = parse_quantity(text)
    if text[-1] in _SMALL:
        raise QuantityError(f"{text!r} is less than it looks: 'm' is a thousandth; use 'M' or 'Mi'")
    if not 0 <= value <= LARGEST_BYTES:
        raise QuantityError(f"{text!r} is outside 0 to 2^63-2 bytes")
    return math.ceil(value)


def _unit_hint(unit: str) -> str:
    """Name the units that were probably meant: `GB`, `gb`, `GiB` and `gi` are common slips."""
    letter = unit[:1].upper()
    if f"{letter}i" in _BINARY:
        return f": did you mean '{letter}i' or '{letter if letter != 'K' else 'k'}'?"
    return ": use Ki, Mi, Gi, Ti, k, M, G or T"


def _check_quantity(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise QuantityError("a quantity is a number or a text such as '500m' or '6Gi'")
    parse_quantity(str(value))
    return str(value)


def _check_bytes(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise QuantityError("a quantity of memory is a whole number of bytes or a text as '1.5Gi'")
    parse_bytes(str(value))
    return str(value)


Quantity = Annotated[str, BeforeValidator(_check_quantity)]
"""A field that holds any quantity, kept as it was written."""

ByteQuantity = Annotated[
    str,
    BeforeValidator(_check_bytes),
    Field(
        max_length=32,
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            **rules(
                Rule(
                    holds="type(self) == int || self.matches('^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)"
                    "([KMGTPE]i|[kMGTPE]|[eE][+-]?[0-9]{1,2})?$')",
                    message="is no quantity of memory: write a number and one of the units "
                    "Ki, Mi, Gi, Ti, k, M, G or T, as in 6Gi",
                ),
                Rule(
                    holds="!isQuantity(string(self))"
                    " || !quantity(string(self)).isLessThan(quantity('0'))"
                    " && quantity(string(self)).isLessThan(quantity('9223372036854775807'))",
                    message="is outside 0 to 2^63-2 bytes",
                ),
            ),
        },
    ),
]
"""A field that holds a quantity of memory or storage, kept as it was written."""
