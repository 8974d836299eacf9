"""The random numbers of a run: one generator for its data, torch's own for dropout."""

from collections.abc import Iterator
from contextlib import contextmanager

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
    devices = [] if device.type == "cpu" else [device]
    kind = "cuda" if device.type == "cpu" else device.type  # any will do for no device
    with torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(derived_seed(seed, f"dropout of process {rank}"))
        yield


def dropout_state(device: torch.device) -> Tensor:
    """The state of the generator that dropout draws from: bytes, on the CPU."""
    if device.type == "cpu":
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state()


def restore_dropout(device: torch.device, state: Tensor) -> None:
    """Draw from here on as after `dropout_state`."""
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state)
