"""torch.compile takes layers, blocks and models whole, and changes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import Block, Mean, SequenceModel, SLiCE, State, Tabulated, Wiring
from tests.layers.reference import (
    INPUTS,
    assert_near,
    gradients,
    make_input,
    make_layer,
)
from tests.market import STRUCTURES


@pytest.fixture(autouse=True)
def _no_graph_of_another_test() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def flat(answer: Any) -> list[Tensor]:
    """All tensors of an output, with or without a state."""
    if isinstance(answer, Tensor):
        return [answer]
    inner = answer.tensors.values() if isinstance(answer, State) else answer
    return [x for part in inner for x in flat(part)]


def assert_compiles(module: nn.Module, call: Callable[..., Any], *given: Any) -> None:
    """Outputs, states and gradients of the compiled call are those of the eager one."""
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    answers = []
    for function in (compiled, call):
        outputs = flat(function(*given))
        inputs = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
        found = gradients(torch.cat([x.flatten() for x in outputs]), module, *inputs)
        answers.append({str(i): x for i, x in enumerate(outputs)} | found)
    assert_near(*answers)


CASES = {
    "blocks": ("blocks", "time-and-input", "first-input", "affine"),
    "dplr": ("dplr", "timed-differences", "learned", "plain"),
    "joint-dplr": ("joint-dplr", "differences-from-origin", "first-input", "projective"),
    "orthogonal-sum": ("orthogonal-sum", "gates", "first-input-drives", "plain"),
    "sparse": ("sparse-by-density", "gates", "learned", "projective"),
    "own": ("circulant", "time-and-input", "first-input", "plain"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layer_compiles_with_lengths_and_state(case: str) -> None:
    layer, x = make_layer(*CASES[case]), make_input(batch=3)
    _, state = layer(x, return_state=True)
    assert_compiles(layer, layer, x, state.detach(), torch.tensor([2, 0, 5]), True)


@pytest.mark.parametrize("case", ["joint-dplr", "orthogonal-sum"])
def test_a_layer_compiles_from_its_initial_state(case: str) -> None:
    layer, x = make_layer(*CASES[case]), make_input()
    assert_compiles(layer, layer, x)


@pytest.mark.parametrize("case", ["blocks", "joint-dplr"])
def test_a_step_compiles(case: str) -> None:
    layer, x = make_layer(*CASES[case]), make_input()
    _, state = layer(x, return_state=True)
    assert_compiles(layer, layer.step, x.detach()[:, 0].requires_grad_(), state.detach())


def test_tabulated_inputs_compile() -> None:
    layer = make_layer("orthogonal-4", "gates")
    table = torch.randn(3, INPUTS, dtype=torch.float64, requires_grad=True)
    index = torch.randint(3, (2, 6))

    def call(table: Tensor, index: Tensor) -> Tensor:
        return layer(Tabulated(table, index), lengths=[6, 2])

    assert_compiles(layer, call, table, index)


def test_a_block_compiles_with_lengths() -> None:
    block = Block(make_layer("diagonal"), INPUTS, Wiring.pre_norm()).double()
    assert_compiles(block, block, make_input(), None, torch.tensor([2, 5]), True)


def make_model(**rest: Any) -> SequenceModel:
    return SequenceModel(
        vocabulary=4,
        outputs=(2, 3),
        width=4,
        layers=2,
        mixer=lambda width: SLiCE(width, STRUCTURES["blocks"]),
        **rest,
    ).double()


def test_a_model_compiles_with_lengths_and_state() -> None:
    model, tokens = make_model(pool=Mean()), torch.randint(4, (3, 5))
    _, state = model(tokens, return_state=True)
    tokens[1, 3:] = -100
    assert_compiles(model, model, tokens, state.detach(), torch.tensor([5, 3, 0]), True)


def test_a_step_through_a_model_compiles() -> None:
    model, tokens = make_model(pool=Mean()), torch.randint(4, (3, 5))
    _, state = model(tokens, return_state=True)
    assert_compiles(model, model.step, tokens[:, 0], state.detach())


def test_a_compiled_layer_runs_without_gradients() -> None:
    layer, x = make_layer(), make_input()
    expected = layer(x).detach()
    with torch.no_grad():
        found = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(found, expected)


def test_the_full_compiler_changes_nothing() -> None:
    """The only test with code generation, which takes ten seconds the first time."""
    model = SequenceModel(
        vocabulary=5, outputs=2, width=4, mixer=lambda width: SLiCE(width, STRUCTURES["diagonal"])
    )
    tokens = torch.randint(5, (3, 9))
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    torch.testing.assert_close(compiled(tokens), model(tokens), rtol=1e-4, atol=1e-5)
