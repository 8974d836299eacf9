"""Windows of neural CDEs: outputs stand where those of SLiCE under LogODE do, however cut."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import Dense, SequenceModel, SLiCE
from slicekit.flows import LogODE
from slicekit.layers import Block
from slicekit.layers.drives import Differences
from slicekit.layers.pooling import Last, Mean
from slicekit.mixers.attention import CausalAttention
from slicekit.mixers.fields import TANH, Field
from slicekit.mixers.log_ncde import LogNCDE
from slicekit.mixers.ncde import NCDE
from slicekit.mixers.nrde import NRDE
from slicekit.mixers.positions import Rotary, SinusoidalPositions
from slicekit.mixers.solvers import Adaptive, FixedStep
from slicekit.mixers.windowed_cde import WindowedCDE
from tests.mixers.market_continuous import WINDOWED
from tests.ownership import assert_states_are_their_own, every_tape

BATCH, LENGTH = 3, 14

every_windowed = pytest.mark.parametrize("name", WINDOWED)


def make(name: str) -> WindowedCDE:
    torch.manual_seed(0)
    return WINDOWED[name]().double()


def make_input(mixer: WindowedCDE, length: int = LENGTH) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(BATCH, length, mixer.channels, dtype=torch.float64, requires_grad=True)


def layer_like(mixer: WindowedCDE) -> SLiCE:
    """A layer with the same windows."""
    flow = LogODE(1, mixer.window)
    return SLiCE(mixer.channels, Dense(4), drive=Differences(), flow=flow).double()


def final_outputs(mixer: Any, parts: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The outputs of each sequence, of windows that were over, and what was provisional last.

    Args:
        mixer: the mixer.
        parts: inputs with their lengths.
    """
    found: list[list[Tensor]] = [[] for _ in range(BATCH)]
    provisional: list[Tensor] = []
    state = None
    for x, lengths in parts:
        places = mixer.places(x, state, lengths)
        y, state = mixer(x, state, lengths, return_state=True)
        provisional = []
        for b in range(BATCH):
            closed, count = int(places.closed[b]), int(places.counts[b])
            found[b].append(y[b, :closed])
            provisional.append(y[b, closed:count])
    return [torch.cat([*own, rest]) for own, rest in zip(found, provisional, strict=True)]


def gradients(outputs: list[Tensor], mixer: Any, x: Tensor) -> list[Tensor]:
    torch.manual_seed(2)
    loss = torch.stack([(y * torch.randn_like(y)).sum() for y in outputs]).sum()
    return list(torch.autograd.grad(loss, [x, *mixer.parameters()]))


def assert_near(found: list[Tensor], expected: list[Tensor]) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


@every_windowed
@every_tape
def test_states_share_no_memory_with_inputs_and_outputs(name: str, tape: str) -> None:
    mixer = make(name)
    assert_states_are_their_own(mixer, make_input(mixer, length=6), tape)


@every_windowed
@pytest.mark.parametrize("cuts", [[LENGTH], [5, 1, 8], [4, 4, 6], [1] * LENGTH])
def test_parts_are_the_whole(name: str, cuts: list[int]) -> None:
    mixer = make(name)
    x = make_input(mixer)
    whole = list(mixer(x))
    parts = [(part, torch.full((BATCH,), part.shape[1])) for part in x.split(cuts, 1)]
    found = final_outputs(mixer, parts)
    assert_near(found, whole)
    assert_near(gradients(found, mixer, x), gradients(whole, mixer, x))


@every_windowed
def test_steps_give_the_state_now(name: str) -> None:
    mixer = make(name)
    x, state = make_input(mixer), None
    for t in range(LENGTH):
        h, state = mixer.step(x[:, t], state)
        torch.testing.assert_close(h, mixer(x[:, : t + 1])[:, -1], rtol=1e-8, atol=1e-10)


@every_windowed
def test_ragged_parts_are_each_sequence_alone(name: str) -> None:
    """Parts of different lengths, empty ones and late starts among them, with garbage behind."""
    mixer = make(name)
    x = make_input(mixer, 20)
    lengths = torch.tensor([[0, 3, 7], [5, 0, 2], [6, 1, 4]])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (0, 0, 1, 0))
    parts = []
    for own, begin in zip(lengths, starts, strict=False):
        part = torch.full((BATCH, 7, mixer.channels), torch.nan, dtype=torch.float64)
        for b in range(BATCH):
            part[b, : own[b]] = x[b, begin[b] : begin[b] + own[b]]
        parts.append((part, own))
    found = final_outputs(mixer, parts)
    whole = [mixer(x[b : b + 1, : int(starts[-1, b])])[0] for b in range(BATCH)]
    assert_near(found, whole)
    assert_near(gradients(found, mixer, x), gradients(whole, mixer, x))


@every_windowed
def test_outputs_stand_where_those_of_slice_do(name: str) -> None:
    mixer = make(name)
    layer = layer_like(mixer)
    lengths = torch.arange(1, 30)
    assert torch.equal(mixer.output_lengths(lengths), layer.output_lengths(lengths))
    x, own, theirs = make_input(mixer), None, None
    for part, counted in zip(x.split([6, 5, 3], 1), ([6, 2, 1], [5, 0, 3], [1, 3, 2]), strict=True):
        a, b = mixer.places(part, own, counted), layer.places(part, theirs, counted)
        assert torch.equal(a.counts, b.counts) and torch.equal(a.closed, b.closed)
        assert torch.equal(a.elements, b.elements)
        y, own = mixer(part, own, counted, return_state=True)
        z, theirs = layer(part, theirs, counted, return_state=True)
        assert y.shape[1] == z.shape[1]


@every_windowed
@pytest.mark.parametrize("pool", [Last(), Mean()])
def test_a_pooled_model_can_be_cut_anywhere(name: str, pool: Any) -> None:
    mixer = make(name)
    model = SequenceModel(
        channels=mixer.channels,
        outputs=2,
        width=mixer.outputs,
        embed=False,
        blocks=[mixer],
        pool=pool,
    ).double()
    x = make_input(mixer)
    whole = model(x)
    for at in (1, 6, 9):
        first, state = model(x[:, :at], return_state=True)
        torch.testing.assert_close(first, model(x[:, :at]), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(model(x[:, at:], state), whole, rtol=1e-8, atol=1e-10)
    state = None
    for t in range(LENGTH):
        y, state = model.step(x[:, t], state)
        torch.testing.assert_close(y, model(x[:, : t + 1]), rtol=1e-8, atol=1e-10)
    padded = model(x, lengths=[LENGTH, 8, 2])
    for b, n in enumerate([LENGTH, 8, 2]):
        torch.testing.assert_close(padded[b], model(x[b : b + 1, :n])[0], rtol=1e-8, atol=1e-10)


def test_blocks_carry_the_last_element_of_a_window_past_the_mixer() -> None:
    mixer = make("nrde")
    block = Block(mixer, mixer.channels).double()
    x = make_input(mixer)
    assert block.windowed and block(x).shape == (BATCH, 5, mixer.channels)
    first, state = block(x[:, :9], return_state=True)
    rest = block(x[:, 9:], state)
    torch.testing.assert_close(torch.cat([first, rest], 1), block(x))


@pytest.mark.parametrize("name", ["nrde", "log-ncde"])
def test_compiled_it_gives_the_same(name: str) -> None:
    torch.compiler.reset()
    mixer = make(name)
    x = make_input(mixer, 6)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    y, z = compiled(x), mixer(x)
    torch.testing.assert_close(y, z)
    assert_near(gradients([y], mixer, x), gradients([z], mixer, x))
    torch.compiler.reset()


WORD: Any = "a"
FRACTION: Any = 1.5

WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: NRDE(3, 4, window=0), "window=0; expected at least 1"),
    (lambda: NRDE(3, 4, window=FRACTION), "window=1.5 is a float"),
    (lambda: NRDE(3, 4, 2, log_depth=0), "^log_depth=0; expected at least 1"),
    (lambda: NRDE(3, 4, 2, depth=0), "^depth=0"),
    (lambda: NRDE(3, 4, 2, hidden=0), "hidden=0"),
    (lambda: NRDE(3, 4, 2, solver=WORD), "solver='a'; expected a solver"),
    (lambda: LogNCDE(3, 0, 2), "dim=0"),
    (lambda: LogNCDE(3, 4, 2, log_depth=3), "log_depth=3; expected 1 or 2"),
    (lambda: LogNCDE(3, 4, 2, scale=0.0), "scale=0.0; expected a positive number"),
    (lambda: NCDE(0, 4), "channels=0"),
    (lambda: NCDE(3, 4, hidden=FRACTION), "hidden=1.5 is a float"),
    (lambda: NCDE(3, 4, control=WORD), "control='a'; expected a control"),
    (lambda: NCDE(3, 4, solver=WORD), "solver='a'; expected a solver"),
    (lambda: Field(0, 3, 4, [TANH]), "dim=0"),
    (lambda: Field(3, 3, 0, [TANH]), "hidden=0"),
    (lambda: FixedStep(steps=0), "steps=0"),
    (lambda: FixedStep(WORD), "method='a'; expected a method"),
    (lambda: Adaptive(rtol=0.0), "rtol=0.0; expected a positive number"),
    (lambda: Adaptive(atol=-1.0), "atol=-1.0"),
    (lambda: Adaptive(most=FRACTION), "most=1.5 is a float"),
    (lambda: CausalAttention(16, heads=3), "heads=3 does not divide width=16"),
    (lambda: CausalAttention(16, heads=16), "odd size 1"),
    (lambda: CausalAttention(16, heads=4, dropout=1.0), "dropout=1.0; expected a probability"),
    (lambda: CausalAttention(16, positions=WORD), "positions='a'; expected Rotary"),
    (lambda: Rotary(base=0), "base=0"),
    (lambda: SinusoidalPositions(FRACTION), "width=1.5 is a float"),
    (lambda: SinusoidalPositions(4, base=-1), "base=-1"),
]


@pytest.mark.parametrize("call, message", WRONG)
def test_wrong_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("name", WINDOWED)
def test_an_empty_batch_has_outputs_of_the_right_shape(name: str) -> None:
    mixer = WINDOWED[name]()
    y, state = mixer(torch.zeros(0, 9, mixer.channels), return_state=True)
    assert y.shape[0] == 0 and y.shape[2] == mixer.outputs
    assert mixer(torch.zeros(0, 3, mixer.channels), state).shape[0] == 0
