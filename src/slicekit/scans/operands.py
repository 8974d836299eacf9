"""What `solve` and `propagate` are given, checked and in the dtype of the computation."""

import torch
from torch import Tensor

from slicekit.checks import HALF, check_same_device, concrete
from slicekit.paths import Tabulated
from slicekit.structures import Parameters, Structure
from slicekit.structures.diagonal import narrowed

REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""By complex dtype: torch.compile can't ask a dtype for it."""


def computed(parameters: Parameters) -> Parameters:
    """Half precision as float32."""
    return {name: x.float() if x.dtype in HALF else x for name, x in parameters.items()}


def widened(x: Tensor) -> Tensor:
    """Half precision as float32, with numbers that are expanded still expanded, and whole numbers
    as they are.
    """
    return narrowed(x).float().expand_as(x) if x.is_floating_point() else x


def cast(name: str, x: Tensor, work: torch.dtype) -> Tensor:
    """x in the dtype of the computation: from half precision, or from real to complex."""
    if x.dtype == work or x.dtype in HALF or x.dtype == REAL.get(work):
        return x.to(work)
    raise TypeError(f"{name} has dtype {x.dtype}; expected {work}, as the path or the transitions")


def check_length(name: str, length: int) -> None:
    """Raise ValueError if there are no steps."""
    if length < 1:
        raise ValueError(f"{name} has length 0; an empty sequence has no steps")


def check_parameters(
    structure: Structure, parameters: Parameters, channels: int, path: Tensor | Tabulated
) -> None:
    """Raise unless parameters are those of a structure, with the path's device and dtype."""
    if not isinstance(structure, Structure):
        raise TypeError(f"structure={structure!r}; expected a structure such as BlockDiagonal")
    if channels < 1:
        raise ValueError("increments has 0 channels; a path needs at least one")
    for name, x in parameters.items():
        check_same_device(f"parameters[{name!r}]", x, "increments", path)
        if x.is_floating_point():
            cast(f"parameters[{name!r}]", x, path.dtype)
    if not concrete(*parameters.values()):
        return
    expected = expected_shapes(structure, channels)
    if parameters.keys() != expected.keys():
        raise ValueError(
            f"parameters holds {sorted(parameters)}; expected {sorted(expected)} for {structure!r}"
        )
    for name, x in parameters.items():
        if name not in structure.ragged and x.shape != expected[name]:
            raise ValueError(
                f"parameters[{name!r}] has shape {tuple(x.shape)}; expected "
                f"{tuple(expected[name])} for {structure!r} and {channels} channels"
            )


def expected_shapes(structure: Structure, channels: int) -> dict[str, torch.Size]:
    """The shapes of a structure's parameters, by name."""
    handle = structure.handle
    known = handle.known if handle.shared else {}
    key = ("shapes", channels)
    if key not in known:
        known[key] = {name: x.shape for name, x in structure.blank(channels).items()}
    return known[key]
