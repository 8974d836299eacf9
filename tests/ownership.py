"""Whose memory a state is: its own, so that whoever writes into inputs and outputs leaves it be."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

TAPES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
every_tape = pytest.mark.parametrize("tape", TAPES)


def shared(tensors: dict[str, Tensor], *others: Tensor) -> list[str]:
    """The names of those tensors that lie in the memory of others."""
    places = {x.untyped_storage().data_ptr() for x in others if x.numel()}
    return [
        name
        for name, x in tensors.items()
        if x.numel() and x.untyped_storage().data_ptr() in places
    ]


def assert_states_are_their_own(module: Any, x: Tensor, tape: str) -> None:
    """Of parts, one element among them, and of steps: in memory, and in what follows from them.

    Args:
        module: a layer or a mixer.
        x: (batch, length, channels), at least four elements.
        tape: whether results can be differentiated; only those that can't are written into.
    """
    x = x.detach()
    with TAPES[tape]():
        spoils = (False,) if tape == "grad" else (False, True)
        kept, *rest = [list(_results(module, x, spoil)) for spoil in spoils]
        for spoiled in rest:
            for found, expected in zip(spoiled, kept, strict=True):
                torch.testing.assert_close(found, expected, equal_nan=True)


def _results(module: Any, x: Tensor, spoil: bool) -> Iterator[Tensor]:
    """Copies of all outputs; what the caller has of an output or an input is then written over."""
    for calls in ((2, 1, x.shape[1] - 3), x.shape[1]):
        state = None
        by_steps = isinstance(calls, int)
        for part in x.unbind(1) if by_steps else x.split(calls, 1):
            given = part.clone()
            if by_steps:
                y, state = module.step(given, state)
            else:
                y, state = module(given, state, return_state=True)
            assert not shared(state.tensors, y, given)
            yield y.clone()
            if spoil:
                y.fill_(torch.nan)
                given.fill_(torch.nan)
