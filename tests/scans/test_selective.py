"""The selective scan without its kernel: chunks of time against the plain loop."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor

from slicekit.scans import Associative, Chunked, Native, Recurrent, Scan
from slicekit.scans import selective as module
from slicekit.scans.selective import selective_scan

NAMES = ("steps", "rates", "inputs", "left", "readout", "initial_state")


def problem(batch: int = 2, length: int = 11, channels: int = 3, dim: int = 4) -> dict[str, Tensor]:
    """Random operands in double precision."""
    per_channel, per_entry = (batch, length, channels), (batch, length, dim)
    shapes = (per_channel, (channels, dim), per_channel, per_entry, per_entry)
    made = [torch.randn(shape, dtype=torch.float64) for shape in (*shapes, (batch, channels, dim))]
    made[0], made[1] = made[0].abs(), -made[1].abs()
    return dict(zip(NAMES, made, strict=True))


def results(operands: dict[str, Tensor], lengths: Tensor | None, scan: Scan | None) -> list[Tensor]:
    """Outputs, last state and gradients."""
    leaves = {name: x.clone().requires_grad_() for name, x in operands.items()}
    outputs, last = selective_scan(**leaves, lengths=lengths, scan=scan)
    loss = outputs.sin().sum() + last.square().sum()
    return [outputs, last, *torch.autograd.grad(loss, list(leaves.values()))]


def by_hand(operands: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The definition, one number at a time."""
    steps, rates, inputs, left, readout, state = (operands[name].clone() for name in NAMES)
    outputs = torch.zeros_like(inputs)
    for b in range(inputs.shape[0]):
        for t in range(inputs.shape[1]):
            for c in range(inputs.shape[2]):
                for n in range(rates.shape[1]):
                    step = steps[b, t, c]
                    kept = (step * rates[c, n]).exp() * state[b, c, n]
                    state[b, c, n] = kept + step * inputs[b, t, c] * left[b, t, n]
                    outputs[b, t, c] += readout[b, t, n] * state[b, c, n]
    return outputs, state


def test_the_plain_loop_is_the_definition() -> None:
    operands = problem(length=3)
    found = selective_scan(**operands, scan=Recurrent())
    for x, true in zip(found, by_hand(operands), strict=True):
        torch.testing.assert_close(x, true)


@pytest.mark.parametrize("scan", [None, Chunked(), Associative()], ids=str)
@pytest.mark.parametrize("lengths", [None, torch.tensor([4, 0])], ids=["whole", "ragged"])
@pytest.mark.parametrize("steps_in_chunk", [1, 4, 128])
def test_chunks_are_the_plain_loop(
    scan: Scan | None,
    lengths: Tensor | None,
    steps_in_chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONGEST_CHUNK", steps_in_chunk)
    operands = problem()
    expected = results(operands, lengths, Recurrent())
    for x, true in zip(results(operands, lengths, scan), expected, strict=True):
        torch.testing.assert_close(x, true)


@pytest.mark.parametrize("scan", [None, Chunked(), Recurrent()], ids=str)
def test_what_is_past_the_end_changes_nothing(scan: Scan | None) -> None:
    operands, lengths = problem(), torch.tensor([4, 11])
    expected = results(operands, lengths, scan)
    for name in ("steps", "inputs", "left", "readout"):
        operands[name][0, 4:] = torch.nan
    for x, y in zip(results(operands, lengths, scan), expected, strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("scan", [None, Chunked(), Recurrent()], ids=str)
def test_parts_make_the_whole(scan: Scan | None) -> None:
    operands = problem()
    whole, last = selective_scan(**operands, scan=scan)
    rates, state, outputs = operands["rates"], operands["initial_state"], []
    parts = (operands[name].split([1, 7, 3], 1) for name in ("steps", "inputs", "left", "readout"))
    for step, x, left, readout in zip(*parts, strict=True):
        y, state = selective_scan(step, rates, x, left, readout, state, scan=scan)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), whole)
    torch.testing.assert_close(state, last)


def test_a_compiled_graph_holds_the_chunks() -> None:
    def loss(*operands: Tensor) -> Tensor:
        given = dict(zip(NAMES, operands, strict=True))
        return selective_scan(**given, scan=Chunked())[0].square().sum()

    leaves = [x.requires_grad_() for x in problem().values()]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*leaves), leaves)
    expected = torch.autograd.grad(loss(*leaves), leaves)
    assert all(torch.allclose(x, y) for x, y in zip(found, expected, strict=True))


def test_where_there_is_no_kernel_it_can_not_be_asked_for() -> None:
    operands: Any = {name: x.to("meta") for name, x in problem().items()}
    with pytest.raises(ValueError, match=r"scan=Native\(\)"):
        selective_scan(**operands, scan=Native())


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("inputs", torch.zeros(2, 11), r"inputs has shape \(2, 11\)"),
        ("inputs", torch.zeros(2, 11, 3, dtype=torch.int64), "inputs has dtype torch.int64"),
        ("steps", torch.zeros(2, 11, 4), r"steps has shape .* expected \(2, 11, 3\)"),
        ("rates", torch.zeros(4, 4), r"rates has shape .* expected \(3, dim\)"),
        ("left", torch.zeros(2, 11, 3), r"left has shape .* expected \(2, 11, 4\)"),
        ("readout", torch.zeros(1, 11, 4), r"readout has shape .* expected \(2, 11, 4\)"),
        ("initial_state", torch.zeros(2, 4, 3), r"initial_state has shape .*\(2, 3, 4\)"),
        ("steps", torch.zeros(2, 11, 3), "steps has dtype torch.float32; expected torch.float64"),
        ("steps", torch.zeros(2, 11, 3, device="meta"), "steps is on meta, but inputs is on cpu"),
    ],
)
def test_wrong_arguments_are_named(name: str, wrong: Tensor, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        operands: Any = problem() | {name: wrong}
        selective_scan(**operands)


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="length 0"):
        selective_scan(**cast(Any, problem(length=0)))
