"""A path and states that memory has in bfloat16: the numbers of float32, rounded as by torch."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from slicekit.native import available, reason
from slicekit.native.kernel import Kind
from slicekit.native.panels import Panels, Part

pytestmark = [
    pytest.mark.skipif(not available(), reason=f"no native library: {reason()}"),
    pytest.mark.usefixtures("every_isa", "poisoned_memory"),
]

CHANNELS = 5
PARTS = {
    "blocks": (Part(Kind.BLOCKS, 32, 4),),
    "ragged": (Part(Kind.BLOCKS, 6, 3), Part(Kind.BLOCKS, 5, 1), Part(Kind.BLOCKS, 40, 20)),
    "rotations": (Part(Kind.SKEW, 48, 4, True),),
    "sum": (Part(Kind.LOW_RANK, 4, 2), Part(Kind.HADAMARD, 8), Part(Kind.BLOCKS, 6, 3, True)),
}
SHAPES = {"short": (11, 7), "one step": (3, 1), "one long": (1, 500), "long": (3, 389)}
"""Batch and length; some of several chunks, some of several sequences in one."""


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def problem(parts: tuple[Part, ...], shape: tuple[int, int], columns: int, pace: float) -> Panels:
    """With increments in bfloat16."""
    batch, length = shape
    dim = sum(part.dim for part in parts)
    numbers = [n for part in parts for n in part.numbers]
    parameters = tuple(torch.randn(CHANNELS, n) / 16 for n in numbers)
    path = torch.randn(batch, length, CHANNELS - bool(pace)).bfloat16()
    state = torch.randn(batch, dim, columns)
    return Panels(parts, parameters, path, None, state, None, 0, 32, pace, still=bool(pace))


def in_full(panels: Panels) -> Panels:
    """The same problem with everything in float32."""
    rest = (panels.rescale, panels.restore, panels.pace, panels.still)
    path = panels.increments.float()
    return Panels(panels.parts, panels.parameters, path, None, panels.state, None, *rest)


def rounded(x: Tensor) -> Tensor:
    """To what bfloat16 has, in float32."""
    return x.bfloat16().float()


def room_for(panels: Panels, keep: bool) -> Tensor | None:
    """For the transitions, if they are to be kept and can be."""
    numbers = panels.plan.kept() if keep else 0
    return panels.state.new_empty(numbers) if numbers else None


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("pace", [0.0, 0.25], ids=["increments", "values"])
@pytest.mark.parametrize(("keep", "columns"), [(False, 1), (True, 1), (False, 3)])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_both_passes_are_those_of_float32_but_for_one_rounding(
    parts: tuple[Part, ...], shape: tuple[int, int], keep: bool, columns: int, pace: float
) -> None:
    half = problem(parts, shape, columns, pace)
    full = in_full(half)
    kept, wide = room_for(half, keep), room_for(full, keep)
    (states, factors), (expected, _) = half.forward(kept), full.forward(wide)
    assert states.dtype is torch.bfloat16 and not expected.isnan().any()
    assert torch.equal(states, expected.bfloat16())
    in_states = torch.randn(states.shape).bfloat16()
    in_last = torch.randn(half.state.shape)
    found = half.backward(states, factors, kept, in_states, in_last)
    # The way back reads the states that were written, rounded as they are.
    exact = full.backward(states.float(), factors, wide, in_states.float(), in_last)
    assert found[1].dtype is torch.bfloat16
    assert torch.equal(found[1], exact[1].bfloat16())
    assert torch.equal(found[2], exact[2])
    assert all(map(torch.equal, found[0], exact[0]))


@pytest.mark.usefixtures("_threads")
def test_gradients_that_are_not_wanted_are_not_written() -> None:
    half = problem(PARTS["blocks"], SHAPES["long"], 1, 0.0)
    full = in_full(half)
    states, factors = half.forward(None)
    in_states = torch.randn(states.shape).bfloat16()
    for wanted, trained in ((True, False), (False, True), (False, False)):
        given = (None, in_states, None, wanted, trained)
        found = half.backward(states, factors, *given)
        given = (None, in_states.float(), None, wanted, trained)
        exact = full.backward(states.float(), factors, *given)
        assert torch.equal(found[1], exact[1].bfloat16())
        assert torch.equal(found[2], exact[2])
        assert all(map(torch.equal, found[0], exact[0]))


def test_what_is_no_number_stays_none_and_ties_go_to_even() -> None:
    ties = torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -1 - 2.0**-8])
    rare = torch.tensor([torch.inf, -torch.inf, torch.nan, -torch.nan, 0.0, -0.0, 3.4e38, 1e-45])
    bits = torch.tensor([0x7F800001, 0x7FFFFFFF, -1, 0x00010000], dtype=torch.int32)
    state = torch.cat([ties, rare, bits.view(torch.float32)])
    path = torch.tensor([[[1.0]]]).bfloat16()  # the state is doubled
    given = (torch.ones(1, 16),), path, None, state.view(1, 16, 1), None, 0, 0
    states, _ = Panels((Part(Kind.BLOCKS, 16, 1),), *given).forward(None)
    torch.testing.assert_close(
        states.flatten(), (2 * state).bfloat16(), rtol=0, atol=0, equal_nan=True
    )
