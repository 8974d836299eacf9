"""torch's own checks of the operators that some work calls."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

Call = tuple[Any, tuple[Any, ...]]


class Recording(TorchDispatchMode):
    """Writes down the calls of slicekit's operators, with their arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "slicekit":
            self.calls.append((func, tree_map_only(Tensor, Tensor.detach, args)))
        return func(*args, **(kwargs or {}))


def check_operators(work: Callable[[], object], count: int = 2) -> None:
    """Schemas, shapes and derivatives of as many operators, as torch checks them."""
    with Recording() as recording:
        work()
    assert len(recording.calls) == count
    for operator, arguments in recording.calls:
        torch.library.opcheck(operator, arguments)
