"""Where tensors are: a device by its name, if this machine has it.

| name | needs |
|---|---|
| cpu | nothing; the C++ kernels serve here |
| cuda, cuda:1 | a torch that was built for CUDA (or ROCm), and such a device |
| mps | a Mac with Apple's chip; it has no float64 |
"""

from typing import TypeAlias

import torch

Device: TypeAlias = str | torch.device

KNOWN = ("cpu", "cuda", "mps")


def find_device(device: Device | None, name: str = "device") -> torch.device:
    """The device of a name.

    Args:
        device: "cpu", "cuda", "cuda:1", "mps" or a `torch.device`; None is the CPU.
        name: of the argument, for the message.

    Raises:
        TypeError: if it is neither text nor a device.
        ValueError: if torch knows no such device, or this machine has none.

    >>> find_device(None), find_device("cpu")
    (device(type='cpu'), device(type='cpu'))
    >>> find_device("gpu")
    Traceback (most recent call last):
    ValueError: device='gpu'; expected 'cpu', 'cuda', 'cuda:1' and so on, or 'mps'
    """
    if device is None:
        return torch.device("cpu")
    if not isinstance(device, str | torch.device):
        raise TypeError(f"{name}={device!r}; expected 'cpu', 'cuda', 'mps' or a torch.device")
    told = f"{name}={str(device)!r}"
    try:
        place = torch.device(device)
    except RuntimeError:
        place = torch.device("meta")
    if place.type not in KNOWN:
        raise ValueError(f"{told}; expected 'cpu', 'cuda', 'cuda:1' and so on, or 'mps'")
    count = how_many(place.type)
    if count == 0:
        raise ValueError(
            f"{told}, but torch {torch.__version__} finds no such device here; {_present()}"
        )
    if place.index is not None and place.index >= count:
        raise ValueError(f"{told}, but there is no such device here; {_present()}")
    return place


def widest(device: torch.device) -> torch.dtype:
    """The widest real numbers of a device.

    >>> widest(torch.device("cpu")), widest(torch.device("mps"))
    (torch.float64, torch.float32)
    """
    return torch.float32 if device.type == "mps" else torch.float64


def how_many(kind: str) -> int:
    """How many devices of a kind this machine has that this torch can use.

    >>> how_many("cpu")
    1
    """
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    return int(kind == "cpu")


def _present() -> str:
    names = []
    for kind in KNOWN:
        count = how_many(kind)
        names += [kind] if count == 1 else [f"{kind}:{i}" for i in range(count)]
    return f"expected {' or '.join(names)}"
