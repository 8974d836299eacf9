"""torch.vmap of a Function whose tensors begin with a batch already: by a loop."""

from typing import Any

import torch


def map_by_loop(function: Any, info: Any, in_dims: tuple, args: tuple) -> tuple[Any, Any]:
    """What the `vmap` of an autograd Function returns.

    Args:
        function: the Function, which returns a tuple of tensors.
        info, in_dims, args: as torch gives them.
    """
    pairs = list(zip(args, in_dims, strict=True))
    rows = [
        function.apply(*(x.select(axis, i) if isinstance(axis, int) else x for x, axis in pairs))
        for i in range(info.batch_size)
    ]
    return tuple(torch.stack(column) for column in zip(*rows, strict=True)), (0,) * len(rows[0])
