"""Layouts hold every element once, in balance, whatever the model."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_worker.parameter_server.layout import (
    ALIGNMENT_BYTES,
    CUT_ELEMENTS,
    DenseTensor,
    Part,
    plan_layout,
)

tensors_of_models = st.lists(
    st.builds(
        lambda shape, dtype, group: (tuple(shape), dtype, group),
        st.lists(st.integers(0, 70), max_size=3),
        st.sampled_from(["float32", "float64", "bfloat16", "float16"]),
        st.integers(0, 2),
    ),
    max_size=12,
).map(
    lambda items: [
        DenseTensor(f"t{i}", shape, dtype, group) for i, (shape, dtype, group) in enumerate(items)
    ]
)
server_counts = st.integers(1, 5)


@given(tensors_of_models, server_counts, st.booleans())
def test_every_element_is_on_exactly_one_server_in_order(
    tensors: list[DenseTensor], servers: int, elementwise: bool
) -> None:
    layout = plan_layout(tensors, servers, elementwise=elementwise)
    next_element = dict.fromkeys((tensor.name for tensor in tensors), 0)
    order = []
    for part in layout.parts:
        for segment in part.segments:
            assert segment.first_element == next_element[segment.tensor]
            next_element[segment.tensor] += segment.elements
            order.append(segment.tensor)
    assert next_element == {tensor.name: tensor.elements for tensor in tensors}
    names = [tensor.name for tensor in tensors]
    assert [names.index(name) for name in order] == sorted(names.index(name) for name in order)


@given(tensors_of_models, server_counts, st.booleans())
def test_parts_follow_each_other_and_everything_is_aligned(
    tensors: list[DenseTensor], servers: int, elementwise: bool
) -> None:
    layout = plan_layout(tensors, servers, elementwise=elementwise)
    assert len(layout.parts) == servers
    assert layout.parts[0].begin == 0
    for one, other in itertools.pairwise(layout.parts):
        assert one.end == other.begin
    offsets = dict(zip((tensor.name for tensor in tensors), layout.offsets, strict=True))
    for part in layout.parts:
        assert part.begin % ALIGNMENT_BYTES == 0
        for segment in part.segments:
            assert segment.offset_bytes % ALIGNMENT_BYTES == 0
            in_tensor = segment.first_element * segment.element_bytes
            assert part.begin + segment.offset_bytes == offsets[segment.tensor] + in_tensor


@given(tensors_of_models, server_counts)
def test_elementwise_parts_differ_by_less_than_a_cut_step(
    tensors: list[DenseTensor], servers: int
) -> None:
    layout = plan_layout(tensors, servers, elementwise=True)
    largest_step = CUT_ELEMENTS * 8 + ALIGNMENT_BYTES
    for part in layout.parts:
        assert abs(part.bytes - layout.bytes / servers) <= largest_step


@given(tensors_of_models, server_counts)
def test_other_optimizers_get_whole_tensors_in_their_own_shape(
    tensors: list[DenseTensor], servers: int
) -> None:
    layout = plan_layout(tensors, servers, elementwise=False)
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    for part in layout.parts:
        for segment in part.segments:
            assert segment.shape == shapes[segment.tensor]


@given(tensors_of_models, server_counts, st.booleans())
def test_a_part_survives_its_journey_as_json(
    tensors: list[DenseTensor], servers: int, elementwise: bool
) -> None:
    for part in plan_layout(tensors, servers, elementwise=elementwise).parts:
        assert Part.from_json(part.to_json()) == part


def test_a_part_whose_segment_lies_outside_is_refused() -> None:
    part = plan_layout([DenseTensor("t", (100,), "float32", 0)], 1, elementwise=True).parts[0]
    value = part.to_json()
    value["segments"][0]["shape"] = [10_000]
    with pytest.raises(ValueError, match="does not fit"):
        Part.from_json(value)
