"""The random numbers of a run: one generator for its data, torch's own for dropout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from slicekit.training.seeds import derived_seed


@contextmanager
def own_randomness(device: torch.device, seed: int, rank: int) -> Iterator[None]:
    """Seed torch's own generators for a run, and leave them at the end as they were.

    Args:
        device: where the model is.
        seed: of the run.
        rank: number of the process: each has its own sequences, and draws its own masks.
    """
    before = {place: dropout_state(place) for place in {torch.device("cpu"), device}}
    try:
        torch.manual_seed(derived_seed(seed, f"dropout of process {rank}"))
        yield
    finally:
        for place, state in before.items():
            restore_dropout(place, state)


def dropout_state(device: torch.device) -> Tensor:
    """The state of the generator that dropout draws from: bytes, on the CPU."""
    return _generators(device).get_rng_state(*_which(device))


def restore_dropout(device: torch.device, state: Tensor) -> None:
    """Draw from here on as after `dropout_state`."""
    _generators(device).set_rng_state(state, *_which(device))


def _generators(device: torch.device) -> Any:
    return torch if device.type == "cpu" else torch.get_device_module(device)


def _which(device: torch.device) -> tuple[torch.device, ...]:
    """What tells one generator from others of its kind; of some kinds there is one."""
    return () if device.type in ("cpu", "mps") else (device,)
