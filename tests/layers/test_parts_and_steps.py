"""Whole = parts = steps: a layer gives the same however its sequence is cut."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit import Associative, Chunked, Dense, FirstInput, LogODE, Recurrent, SLiCE, State
from slicekit.layers import InitialState
from slicekit.paths.windows import Duration
from slicekit.structures import Parameters
from tests.layers.reference import (
    LENGTH,
    MODES,
    assert_near,
    every_drive,
    every_initial,
    every_mode,
    every_split,
    gradients,
    make_input,
    make_layer,
    run_parts,
    run_steps,
)
from tests.market import every_structure
from tests.ownership import TAPES, assert_states_are_their_own, every_tape, shared


@every_drive
@every_initial
@every_mode
def test_every_split_gives_the_outputs_and_the_state_of_the_whole(
    drive: str, initial: str, mode: str
) -> None:
    layer, x = make_layer("blocks", drive, initial, mode), make_input()
    whole, final = layer(x, return_state=True)
    for sizes in every_split(LENGTH):
        outputs, state = run_parts(layer, x, sizes)
        assert_near({"outputs": torch.cat(outputs, 1)}, {"outputs": whole})
        assert_near(state.tensors, final.tensors)


@every_structure
@every_mode
def test_parts_and_steps_of_every_structure_are_its_whole(name: str, mode: str) -> None:
    layer, x = make_layer(name, "timed-differences", mode=mode), make_input()
    whole, final = layer(x, return_state=True)
    expected = {"outputs": whole, **gradients(whole, layer, x)}
    for outputs, state in (
        run_parts(layer, x, [2, LENGTH - 2]),
        (_stacked(*run_steps(layer, x))),
    ):
        y = torch.cat(outputs, 1)
        assert_near({"outputs": y, **gradients(y, layer, x)}, expected)
        assert_near(state.tensors, final.tensors)


@every_drive
@every_initial
@every_mode
def test_steps_from_nothing_have_the_values_and_gradients_of_the_whole(
    drive: str, initial: str, mode: str
) -> None:
    layer, x = make_layer("diagonal-dense", drive, initial, mode), make_input()
    whole, final = layer(x, return_state=True)
    outputs, state = run_steps(layer, x)
    y = torch.stack(outputs, 1)
    assert_near(
        {"outputs": y, **gradients(y, layer, x)}, {"outputs": whole, **gradients(whole, layer, x)}
    )
    assert_near(state.tensors, final.tensors)


@every_drive
def test_gradients_flow_through_a_state_unless_it_is_detached(drive: str) -> None:
    layer, early, late = make_layer(drive=drive), make_input(), make_input()
    _, state = layer(early, return_state=True)
    assert gradients(layer(late, state), layer, early)["input 0"].abs().amin(-1).amax() > 0
    cut = gradients(layer(late, state.detach()), layer, early)
    assert cut["input 0"].count_nonzero() == 0


@every_mode
def test_a_state_can_be_selected_and_repeated_as_a_beam_search_does(mode: str) -> None:
    layer, x = make_layer(drive="differences", mode=mode), make_input(batch=3)
    _, state = layer(x[:, :3], return_state=True)
    beam = torch.tensor([2, 0, 2])
    after, _ = layer.step(x[beam, 3], state.select(beam))
    assert_near({"outputs": after}, {"outputs": layer(x)[beam, 3]})


@every_mode
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_of_another_precision_is_taken_up(mode: str, dtype: torch.dtype) -> None:
    layer = make_layer(drive="differences", mode=mode).to(dtype)
    x = make_input().to(dtype)
    _, state = layer(x, return_state=True)
    other = torch.float32 if dtype == torch.float64 else torch.float64
    near, final = layer(x, state.to(other), return_state=True)
    assert {near.dtype, *(t.dtype for t in final.tensors.values())} == {dtype}
    torch.testing.assert_close(near, layer(x, state), rtol=1e-4, atol=1e-4)


@every_mode
def test_no_element_is_special_once_there_is_a_state(mode: str) -> None:
    """The first element drives a step even where it would otherwise be the initial state."""
    layer, x = make_layer(mode=mode), make_input()
    assert layer.initial == FirstInput()
    start = make_layer(initial="first-input-drives", mode=mode)
    start.load_state_dict(layer.state_dict())
    _, state = layer(x[:, :1], return_state=True)
    assert_near({"outputs": layer(x[:, :1], state)}, {"outputs": start(x[:, :1])})


@every_initial
@every_drive
def test_the_state_after_one_element_goes_on_like_any_other(drive: str, initial: str) -> None:
    layer, x = make_layer("dplr", drive, initial), make_input()
    first, state = layer(x[:, :1], return_state=True)
    rest = layer(x[:, 1:], state)
    assert_near({"outputs": torch.cat([first, rest], 1)}, {"outputs": layer(x)})


def test_a_state_of_ones_own_making_starts_a_layer_anywhere() -> None:
    layer, x = make_layer("diagonal", "gates"), make_input()
    hidden = torch.randn(2, 7, dtype=torch.float64)
    values = layer.A()["values"]
    expected = hidden * (1 + layer.drive(x[:, 0]) @ values)
    found, _ = layer.step(x[:, 0], State({"hidden": hidden}))
    assert_near({"outputs": found}, {"outputs": expected})


@pytest.mark.parametrize("drive", ["time-and-input", "differences"])
def test_truncated_backpropagation_keeps_no_graph_behind(drive: str) -> None:
    layer, x = make_layer(drive=drive), make_input()
    _, state = layer(x, return_state=True)
    assert all(t.grad_fn is not None for t in state.tensors.values())
    assert all(t.grad_fn is None for t in state.detach().tensors.values())


def _stacked(outputs: list[torch.Tensor], state: State) -> tuple[list[torch.Tensor], State]:
    return [y.unsqueeze(1) for y in outputs], state


@every_structure
@every_mode
@every_tape
def test_states_of_every_structure_share_no_memory_with_inputs_and_outputs(
    name: str, mode: str, tape: str
) -> None:
    assert_states_are_their_own(make_layer(name, mode=mode), make_input(), tape)


WAYS: dict[str, dict[str, Any]] = {
    "recurrent": {"scan": Recurrent()},
    "associative": {"scan": Associative()},
    "chunked": {"scan": Chunked()},
    "windows": {"flow": LogODE(2, 2)},
    "windows in time": {"flow": LogODE(2, Duration(1.0))},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("drive", ["time-and-input", "timed-differences"])
@every_initial
@every_tape
def test_states_share_no_memory_with_inputs_and_outputs(
    way: str, drive: str, initial: str, tape: str
) -> None:
    layer = make_layer("blocks", drive, initial, **WAYS[way])
    assert_states_are_their_own(layer, make_input(), tape)


@dataclass(frozen=True)
class FirstElement(InitialState):
    """h_0 is x_0 itself."""

    drives_first = False

    def init(self, channels: int, dim: int, generator: torch.Generator | None = None) -> Parameters:
        return {}

    def start(self, parameters: Parameters, first: Tensor) -> Tensor:
        return first


@every_mode
def test_an_initial_state_that_is_the_input_is_copied(mode: str) -> None:
    layer = SLiCE(4, Dense(4), initial=FirstElement(), **MODES[mode])
    assert_states_are_their_own(layer, torch.randn(2, 5, 4), "no_grad")


@every_mode
@every_tape
def test_the_last_state_shares_no_memory_with_a_trajectory(mode: str, tape: str) -> None:
    layer, x = make_layer(initial="learned", mode=mode), make_input()
    with TAPES[tape]():
        states, final = layer.trajectory(x)
    outputs = (states,) if isinstance(states, Tensor) else (states.direction, states.log_norm)
    assert not shared(final.tensors, x, *outputs)
