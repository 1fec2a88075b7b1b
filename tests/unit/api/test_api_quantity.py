from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_api.quantity import QuantityError, parse_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("6Gi", 6 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("500M", 500_000_000),
        ("12", 12),
        ("2e9", 2_000_000_000),
        ("1E", 10**18),
        ("1e3", 1000),
        (".5Ki", 512),
        ("5.", 5),
        ("0.1Gi", 107_374_183),
        ("0", 0),
    ],
)
def test_bytes_are_read_as_kubernetes_reads_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("6GB", "did you mean 'Gi' or 'G'?"),
        ("6gb", "did you mean 'Gi' or 'G'?"),
        ("6GiB", "did you mean 'Gi' or 'G'?"),
        ("6kb", "did you mean 'Ki' or 'k'?"),
        ("6Zi", "use Ki, Mi, Gi"),
        ("500m", "use 'M' or 'Mi'"),
        ("six", "as in '6Gi'"),
        ("", "as in '6Gi'"),
        ("6 Gi", "as in '6Gi'"),
        ("-3", "outside 0 to 2^63-2"),
        ("16E", "outside 0 to 2^63-2"),
    ],
)
def test_a_wrong_quantity_is_told_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(QuantityError, match=advice.replace("^", r"\^").replace("?", r"\?")):
        parse_bytes(text)


def test_a_thousandth_is_a_quantity_though_not_of_bytes() -> None:
    assert parse_quantity("250m") == Fraction(1, 4)


@given(st.integers(0, 2**40), st.sampled_from(["", "Ki", "Mi", "k", "M"]))
def test_every_whole_number_with_a_unit_is_exact(number: int, unit: str) -> None:
    factor = {"": 1, "Ki": 2**10, "Mi": 2**20, "k": 10**3, "M": 10**6}[unit]
    assert parse_bytes(f"{number}{unit}") == number * factor


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_clear_error(text: str) -> None:
    message = ""
    try:
        count = parse_bytes(text)
    except QuantityError as error:
        message = str(error)
    assert repr(text) in message if message else count >= 0
