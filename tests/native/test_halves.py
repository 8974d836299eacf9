"""A path and states that memory has in bfloat16: the numbers of float32, rounded as by torch.

Also what else passes on copies of a chunk do: directions, and sequences that are over early.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from slicekit.native import available, reason
from slicekit.native.kernel import Differentiable, Kind
from slicekit.native.panels import Panels, Part
from slicekit.native.recurrences import SHARED_FACTORS, SPARSE, TABLE, Steps
from slicekit.scans.projective import directions, pull_directions

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
    given = (parts, parameters, path, None, state, None, 0, 32, pace)
    return Panels(*given, still=bool(pace), half=True)


def of_tokens(panels: Panels) -> Panels:
    """With a table in the place of increments."""
    table = torch.randn(3, panels.increments.shape[2])
    index = torch.randint(-1, 3, panels.increments.shape[:2])
    return replace(panels, increments=table, index=index)


def padded(panels: Panels) -> Panels:
    """With lengths, and no numbers past these."""
    batch, length = panels.increments.shape[:2]
    lengths = torch.randint(0, length + 1, (batch,))
    path = panels.increments.clone()
    for row, end in zip(path, lengths.tolist(), strict=True):
        row[end:] = torch.nan
    return replace(panels, increments=path, lengths=lengths)


def in_full(panels: Panels) -> Panels:
    """The same problem with everything in float32."""
    return replace(panels, increments=panels.increments.float(), half=False)


def room_for(panels: Panels, keep: bool) -> Tensor | None:
    """For the transitions, if they are to be kept and can be."""
    numbers = panels.plan.kept() if keep else 0
    return panels.state.new_empty(numbers) if numbers else None


def assert_rounded_once(half: Panels, keep: bool) -> None:
    """Both passes give the numbers of float32, but for one rounding."""
    full = in_full(half)
    kept, wide = room_for(half, keep), room_for(full, keep)
    shape, dtype = half.plan.expected["states"]
    rooms: list[Tensor | None] = [None, None]
    if half.directed:
        rooms = [torch.empty(shape, dtype=dtype), torch.empty(shape)]
    last = torch.empty_like(half.state)
    states, factors = half.forward(kept, last=last, directions=rooms[0])
    expected, divisors = full.forward(wide, directions=rooms[1])
    assert states.dtype is torch.bfloat16 and not expected.isnan().any()
    assert torch.equal(states, expected.bfloat16())
    assert torch.equal(last, expected[:, -1])
    if rooms[0] is not None and rooms[1] is not None:
        assert torch.equal(rooms[0], rooms[1].bfloat16())
    if factors is not None and divisors is not None:
        assert torch.equal(factors, divisors)
    in_states = torch.randn(states.shape).bfloat16()
    in_last = None if half.directed else torch.randn(half.state.shape)
    found = half.backward(states, factors, kept, in_states, in_last)
    # The way back reads the states that were written, rounded as they are.
    exact = full.backward(states.float(), factors, wide, in_states.float(), in_last)
    assert found[1].dtype is half.increments.dtype and not exact[1].isnan().any()
    assert torch.equal(found[2], exact[2])
    for x, y in zip((*found[0], found[1]), (*exact[0], exact[1]), strict=True):
        if half.index is None or half.state.shape[2] == 1:
            assert torch.equal(x, y.to(x.dtype))
        else:  # several columns of a table's gradients are added up chunk by chunk
            assert (x - y).norm() <= 1e-4 * y.norm()


every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
every_part = pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("pace", [0.0, 0.25], ids=["increments", "values"])
@pytest.mark.parametrize(("keep", "columns"), [(False, 1), (True, 1), (False, 3)])
@every_shape
@every_part
def test_both_passes_are_those_of_float32_but_for_one_rounding(
    parts: tuple[Part, ...], shape: tuple[int, int], keep: bool, columns: int, pace: float
) -> None:
    assert_rounded_once(problem(parts, shape, columns, pace), keep)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("keep", [False, True], ids=["made again", "kept"])
@every_shape
@every_part
def test_so_are_those_of_a_padded_batch(
    parts: tuple[Part, ...], shape: tuple[int, int], keep: bool
) -> None:
    assert_rounded_once(padded(problem(parts, shape, 1, 0.25)), keep)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(("keep", "columns"), [(False, 1), (True, 1), (False, 3)])
@every_shape
@every_part
def test_so_are_those_of_tokens(
    parts: tuple[Part, ...], shape: tuple[int, int], keep: bool, columns: int
) -> None:
    assert_rounded_once(of_tokens(problem(parts, shape, columns, 0.25)), keep)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("source", [lambda x: x, padded, of_tokens], ids=["", "padded", "tokens"])
@every_shape
@every_part
def test_so_are_those_of_projective_states(
    parts: tuple[Part, ...], shape: tuple[int, int], source: Callable[[Panels], Panels]
) -> None:
    given = source(problem(parts, shape, 1, 0.25))
    assert_rounded_once(replace(given, rescale=8, directed=True), False)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("tokens", [False, True], ids=["path", "tokens"])
@pytest.mark.parametrize("growth", [0.2, 3.0, 40.0])
@every_shape
@every_part
def test_directions_are_those_of_torch(
    parts: tuple[Part, ...], shape: tuple[int, int], growth: float, tokens: bool
) -> None:
    made = in_full(problem(parts, shape, 1, 0.25))
    made = replace(made, increments=made.increments * growth, rescale=8)
    made = of_tokens(made) if tokens else made
    wide = [x.double() for x in (*made.parameters, made.increments, made.state)]
    *parameters, path, state = wide
    made = replace(made, parameters=parameters, increments=path, state=state)
    states, factors = made.forward(None)
    assert factors is not None
    expected, _, norms, peaks = directions(states, factors, 8)
    found = torch.empty_like(states)
    directed = replace(made, directed=True)
    again, _ = directed.forward(None, directions=found)
    assert torch.equal(again, states)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    given = torch.randn(states.shape).double()
    blank = torch.zeros_like(norms)
    pulled = pull_directions(expected, norms, peaks, factors, 8, given, blank)
    exact = made.backward(states, factors, None, pulled, None)
    gradients = directed.backward(states, factors, None, given, None)
    for x, y in zip((*gradients[0], *gradients[1:3]), (*exact[0], *exact[1:3]), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8 * float(y.abs().max()))


@pytest.mark.usefixtures("_threads")
@every_shape
@every_part
def test_past_the_end_of_a_sequence_nothing_drives(
    parts: tuple[Part, ...], shape: tuple[int, int]
) -> None:
    made = padded(in_full(problem(parts, shape, 1, 0.25)))
    lengths = made.lengths
    assert lengths is not None
    wide = [x.double() for x in (*made.parameters, made.increments, made.state)]
    *parameters, path, state = wide
    made = replace(made, parameters=parameters, increments=path, state=state)
    values = path.nan_to_num() * made.pace  # as increments, which are zero where nothing drives
    drives = torch.arange(shape[1]) < lengths.unsqueeze(1)
    drives[:, 0] = False  # still
    clock = torch.full_like(values[..., :1], made.pace)
    values = torch.cat([clock, values], -1).where(drives.unsqueeze(-1), 0.0)
    plain = replace(made, increments=values, pace=0.0, still=False, lengths=None)
    states, _ = made.forward(None)
    expected, _ = plain.forward(None)
    torch.testing.assert_close(states, expected)
    given = torch.randn(states.shape).double()
    found = made.backward(states, None, None, given, None)
    exact = plain.backward(expected, None, None, given, None)
    torch.testing.assert_close(found[0], exact[0])
    in_values = (exact[1][..., 1:] * made.pace).where(drives.unsqueeze(-1), 0.0)
    torch.testing.assert_close(found[1], in_values)
    torch.testing.assert_close(found[2], exact[2])


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
    states, _ = Panels((Part(Kind.BLOCKS, 16, 1),), *given, half=True).forward(None)
    torch.testing.assert_close(
        states.flatten(), (2 * state).bfloat16(), rtol=0, atol=0, equal_nan=True
    )


ALONE = {"few": (3, 50), "many": (37, 9), "one step": (5, 1)}
"""Batch and length; sparse steps of a few long sequences go by lanes of steps."""


def alone(kernel: Differentiable, batch: int, length: int, pace: float) -> list[Tensor | None]:
    """Operands in float32, with lengths if there is a pace, and no numbers past these."""
    channels, dim, rank, tokens = 4, 19, 2, 3
    state = torch.randn(batch, dim, 1)
    if kernel is TABLE:
        matrices = torch.randn(tokens, dim, dim) / dim
        return [matrices, torch.randint(tokens, (batch, length)), state, None]
    path = (torch.randn(batch, length, channels - bool(pace)) / 8).bfloat16().float()
    lengths = torch.randint(0, length + 1, (batch,)) if pace else None
    for row, end in zip(path, [] if lengths is None else lengths.tolist(), strict=False):
        row[end:] = torch.nan
    if kernel is SPARSE:
        places = torch.randperm(channels * dim**2)[:99].sort().values
        return [path, torch.randn(99), places, state, None, lengths]
    factors = (torch.randn(channels, dim, rank) / 4 for _ in range(2))
    return [path, torch.randn(channels, dim), *factors, state, None, lengths]


every_kernel = pytest.mark.parametrize(
    "kernel", [SPARSE, SHARED_FACTORS, TABLE], ids=lambda kernel: kernel.name
)
every_size = pytest.mark.parametrize("shape", ALONE.values(), ids=ALONE.keys())


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("rescale", [0, 8], ids=["plain", "projective"])
@pytest.mark.parametrize("pace", [0.0, 0.25], ids=["increments", "values"])
@every_size
@every_kernel
def test_kernels_of_their_own_round_once_too(
    kernel: Differentiable, shape: tuple[int, int], pace: float, rescale: int
) -> None:
    operands = alone(kernel, *shape, pace)
    full = Steps(rescale, False, rescale > 0, pace, bool(pace))
    half, rounded = full._replace(half=True), list(operands)
    if kernel is not TABLE and operands[0] is not None:
        rounded[0] = operands[0].bfloat16()
    found, exact = kernel.forward(half, rounded), kernel.forward(full, operands)
    assert not exact[0].isnan().any()
    assert torch.equal(found[0], exact[0].bfloat16())
    assert torch.equal(found[1], exact[1])
    assert torch.equal(found[2], exact[0][:, -1])
    assert torch.equal(found[3], exact[3].bfloat16())
    in_states, in_last = torch.randn(exact[0].shape).bfloat16(), torch.randn(exact[0][:, -1].shape)
    results = [found[0], found[1], None, None]
    pulled = kernel.backward(half, rounded, results, (in_states, in_last), [])
    results[0] = found[0].float()
    wide = kernel.backward(full, operands, results, (in_states.float(), in_last), [])
    for x, y in zip(pulled, wide, strict=True):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            assert not x.isnan().any() and torch.equal(x, y.to(x.dtype))


@every_size
@every_kernel
def test_their_directions_and_values_are_those_of_torch(
    kernel: Differentiable, shape: tuple[int, int]
) -> None:
    operands = [
        x.double() if x is not None and x.is_floating_point() else x
        for x in alone(kernel, *shape, 0.25)
    ]
    given, lengths = operands, operands[-1]
    drives = torch.ones(shape, dtype=torch.bool)
    if kernel is not TABLE:
        assert operands[0] is not None and lengths is not None
        drives = torch.arange(shape[1]) < lengths.unsqueeze(1)
        drives[:, 0] = False  # still
        path = torch.nn.functional.pad(operands[0].nan_to_num() * 0.25, (1, 0), value=0.25)
        given = [path.where(drives.unsqueeze(-1), 0.0), *operands[1:-1], None]
    steps = Steps(8, False, True, 0.25, True)
    plain = Steps(8)
    states, factors, _, directed = kernel.forward(steps, operands)
    expected, divisors, *_ = kernel.forward(plain, given)
    torch.testing.assert_close((states, factors), (expected, divisors))
    norms = torch.linalg.vector_norm(states, dim=2, keepdim=True)
    torch.testing.assert_close(directed, states / norms)
    in_states, in_last = (
        torch.randn(states.shape).double(),
        torch.randn(states[:, 0].shape).double(),
    )
    pulled = (in_states - directed * (directed * in_states).sum(2, keepdim=True)) / norms
    results = [states, factors, None, None]
    found = kernel.backward(steps, operands, results, (in_states, in_last), [])
    exact = kernel.backward(plain, given, results, (pulled, in_last), [])
    if kernel is not TABLE:
        assert exact[0] is not None
        exact[0] = (exact[0][..., 1:] * 0.25).where(drives.unsqueeze(-1), 0.0)
    torch.testing.assert_close(found, exact)
