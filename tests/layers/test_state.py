"""States: named tensors that can be moved, cut off and selected together."""

import pickle

import pytest
import torch

from slicekit import State
from slicekit.layers import States


def make_state(batch: int = 3) -> State:
    return State(
        {"hidden": torch.randn(batch, 4, requires_grad=True) * 2, "count": torch.ones(batch)}
    )


def test_a_missing_name_says_what_there_is() -> None:
    with pytest.raises(KeyError, match=r"state has no 'previous'; it holds hidden, count"):
        make_state()["previous"]
    with pytest.raises(KeyError, match=r"it holds nothing"):
        State({})["hidden"]
    assert make_state().get("previous") is None


def test_detach_cuts_off_every_tensor() -> None:
    state = make_state()
    assert state["hidden"].requires_grad
    assert not state.detach()["hidden"].requires_grad
    assert torch.equal(state.detach()["hidden"], state["hidden"])


def test_to_changes_every_tensor() -> None:
    state = make_state()
    assert {x.dtype for x in state.to(torch.float64).tensors.values()} == {torch.float64}
    assert state.to("meta")["count"].is_meta


def test_select_takes_sequences_which_may_repeat() -> None:
    state = make_state()
    chosen = state.select(torch.tensor([2, 2]))
    assert torch.equal(chosen["hidden"], state["hidden"][[2, 2]])
    assert chosen["count"].shape == (2,)


def test_states_of_a_stack_change_together() -> None:
    inner = make_state()
    stack = States([inner, States([make_state()])])
    assert len(stack) == 2
    cut = stack.select(torch.tensor([1])).detach().to(torch.float64)
    first, second = cut
    assert isinstance(cut, States) and isinstance(first, State) and isinstance(second, States)
    assert torch.equal(first["hidden"], inner["hidden"][1:2].detach().double())


def test_states_travel_by_pickle() -> None:
    state = make_state().detach()
    again = pickle.loads(pickle.dumps(States([state])))
    assert isinstance(again, States)
    (inner,) = again
    assert isinstance(inner, State)
    assert torch.equal(inner["hidden"], state["hidden"])
