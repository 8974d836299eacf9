"""Half precision is computed in float32 inside the recurrence; float64 is kept."""

import warnings
from typing import Any

import pytest
import torch

from slicekit import (
    Block,
    Diagonal,
    Learned,
    Mean,
    SequenceModel,
    SLiCE,
    TimeAndInput,
    Wiring,
)
from tests.layers.reference import (
    DRIVES,
    INITIALS,
    INPUTS,
    MODES,
    every_drive,
    every_initial,
    every_mode,
    run_steps,
)
from tests.market import STRUCTURES, every_structure

HALVES = [torch.bfloat16, torch.float16]
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}

every_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def make_layer(structure: str, drive: str, initial: str, mode: str) -> SLiCE:
    policies: dict[str, Any] = {"drive": DRIVES[drive](), "initial": INITIALS[initial]}
    return SLiCE(INPUTS, STRUCTURES[structure], **policies, **MODES[mode])


def assert_rounded(found: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> None:
    """A few roundings away, measured on the whole."""
    error = (found.float() - exact.float()).norm() / exact.float().norm()
    assert error < 4 * ROUNDING[dtype]


@pytest.mark.parametrize("stepwise", [False, True], ids=["whole", "steps"])
@every_half
def test_states_that_overflow_when_they_are_given_out_are_told_of(
    dtype: torch.dtype, stepwise: bool
) -> None:
    layer: Any = SLiCE(1, Diagonal(2), drive=TimeAndInput(1.0), initial=Learned()).to(dtype)
    with torch.no_grad():
        layer.A.values.fill_(1.0)
        layer.start.state.fill_(1.0)
    x = torch.zeros(1, 17, 1, dtype=dtype)  # after n steps, the state is 2^n
    run = (lambda: run_steps(layer, x)) if stepwise else (lambda: layer(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x[:, :15])
        if dtype == torch.bfloat16:
            run()
            return
    where = "" if stepwise else " after step 16 of 17"
    with pytest.warns(RuntimeWarning, match=rf"beyond the range of torch.float16{where}\. Use"):
        run()


@every_half
@every_structure
def test_half_inputs_lose_no_more_than_their_rounding(name: str, dtype: torch.dtype) -> None:
    """The input is rounded, then everything is float32, and the output is rounded once."""
    layer = make_layer(name, "time-and-input", "first-input", "plain")
    x = torch.randn(2, 30, INPUTS).to(dtype).requires_grad_()
    y, state = layer(x, return_state=True)
    assert y.dtype == dtype and state["hidden"].dtype == torch.float32
    exact = layer(x.float())  # perhaps another way through the kernels, with roundings of its own
    assert (y.float() - exact).norm() <= 1.01 * (exact.to(dtype).float() - exact).norm()
    y.float().square().sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


@every_half
@every_drive
@every_initial
@every_mode
def test_a_half_precision_module_is_near_its_float32_self(
    drive: str, initial: str, mode: str, dtype: torch.dtype
) -> None:
    layer = make_layer("blocks", drive, initial, mode).to(dtype)
    x = torch.randn(2, 6, INPUTS).to(dtype)
    y = layer(x)
    assert y.dtype == dtype
    y.float().tanh().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    assert_rounded(y, layer.float()(x.float()), dtype)


@every_half
@every_mode
def test_steps_of_a_half_precision_module_carry_a_float32_state(
    mode: str, dtype: torch.dtype
) -> None:
    layer = make_layer("blocks", "differences", "first-input", mode).to(dtype)
    x = torch.randn(2, 40, INPUTS).to(dtype)
    whole = layer(x)
    outputs, state = run_steps(layer, x)
    assert {t.dtype for t in state.tensors.values()} == {torch.float32}
    torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=2 * ROUNDING[dtype], atol=1e-2)


@every_structure
def test_autocast_leaves_the_recurrence_alone(name: str) -> None:
    layer = make_layer(name, "time-and-input", "first-input", "affine")
    x = torch.randn(2, 6, INPUTS)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        low = layer(x.bfloat16())
        stepped, _ = layer.step(x[:, 0])
    assert torch.equal(y, layer(x)) and y.dtype == torch.float32
    assert low.dtype == torch.bfloat16
    assert torch.equal(stepped, layer.step(x[:, 0])[0])


@pytest.mark.parametrize("wiring", [Wiring(), Wiring.pre_norm()], ids=["paper", "pre-norm"])
@pytest.mark.parametrize("tokens", [True, False], ids=["tokens", "series"])
def test_a_model_trains_under_autocast(wiring: Wiring, tokens: bool) -> None:
    model = SequenceModel(
        vocabulary=5 if tokens else None,
        channels=None if tokens else INPUTS,
        outputs=3,
        width=8,
        layers=2,
        mixer=lambda width: SLiCE(width, STRUCTURES["blocks"]),
        wiring=wiring,
        pool=Mean(),
    )
    x = torch.randint(5, (4, 20)) if tokens else torch.randn(4, 20, INPUTS)
    expected = model(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = model(x)
        stepped, _ = model.step(x[:, 0])
    assert y.dtype == stepped.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), expected, rtol=0.05, atol=0.05)
    y.float().square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [*HALVES, torch.float64], ids=str)
def test_a_model_keeps_its_dtype(dtype: torch.dtype) -> None:
    model = SequenceModel(
        vocabulary=5,
        outputs=3,
        width=8,
        mixer=lambda width: SLiCE(width, STRUCTURES["orthogonal-4"]),
        pool=Mean(),
    )
    tokens = torch.randint(5, (4, 20))
    expected = model(tokens)
    y = model.to(dtype)(tokens)
    assert y.dtype == dtype
    torch.testing.assert_close(y.float(), expected, rtol=0.05, atol=0.05)
    y.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == dtype for p in model.parameters())


@every_half
def test_a_block_in_half_precision_gives_half_precision(dtype: torch.dtype) -> None:
    block = Block(SLiCE(INPUTS, STRUCTURES["diagonal"]), INPUTS).to(dtype)
    assert block(torch.randn(2, 4, INPUTS).to(dtype)).dtype == dtype
