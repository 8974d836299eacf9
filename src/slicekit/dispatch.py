"""Inside an opaque operator: torch as it is outside, whatever surrounds the call.

torch calls an operator with part of its machinery switched off: no autograd, and under a dispatch
mode (a flop counter, selective checkpointing, a compiler's checks) no lazy conjugation and no
torch.func either. `plain_torch` switches it on again, so that an operator computes the same under
all of them, and `vjp` can differentiate inside it. `kept_torch` is for tensors that outlive the
call that first asks for them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Thread
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._C import _get_tracing_state, _is_any_autocast_enabled
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

F = TypeVar("F", bound=Callable[..., Any])


def _default_keys() -> tuple[Any, Any]:
    """The dispatch keys of a new thread, which nothing surrounds."""
    keys: list[Any] = []

    def look() -> None:
        keys.append(torch._C._dispatch_tls_local_include_set())
        keys.append(torch._C._dispatch_tls_local_exclude_set())

    thread = Thread(target=look)
    thread.start()
    thread.join()
    return keys[0], keys[1]


_INCLUDED, _EXCLUDED = _default_keys()


def constant_when_compiled(function: F) -> F:
    """As `torch.compiler.assume_constant_result`, which would import the whole compiler for it."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def surrounded() -> bool:
    """Whether a transform, a dispatch mode, forward-mode derivatives (which `torch.no_grad` leaves
    on) or a tracer is at work, which must see every operation.
    """
    return (
        peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or forward_ad._current_level >= 0
        or _get_tracing_state() is not None
    )


def autocast_off(device: torch.device) -> Any:
    """Full precision on a device; on `meta`, which knows no autocast, nothing is computed."""
    if not torch.compiler.is_compiling() and not _is_any_autocast_enabled():
        return nullcontext()
    return torch.autocast("cpu" if device.type == "meta" else device.type, enabled=False)


@contextmanager
def plain_torch() -> Iterator[None]:
    """Default dispatch, in full precision and without a tape."""
    with torch._C._ForceDispatchKeyGuard(_INCLUDED, _EXCLUDED), torch.no_grad():
        yield


@contextmanager
def kept_torch() -> Iterator[None]:
    """Plain tensors on the CPU, which any later call can use and train with.

    Also in inference mode, on a default device and under any mode of torch.
    """
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), plain_torch():
        yield


def vjp(
    function: Callable[..., tuple[Tensor, ...]], *primals: Tensor
) -> tuple[tuple[Tensor, ...], Callable[[tuple[Tensor, ...]], tuple[Tensor, ...]]]:
    """The values of a function, and the map from their cotangents to those of its arguments.

    Args:
        function: takes the primals, floating or complex tensors, to a tuple of tensors.
        primals: where to differentiate.

    Example:
        >>> values, pull = vjp(lambda x: (x * x,), torch.tensor([1.0, 3.0]))
        >>> pull((torch.ones(2),))
        (tensor([2., 6.]),)
    """
    with plain_torch(), torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in primals]
        values = function(*leaves)

    def pull(cotangents: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        pairs = [(v, c) for v, c in zip(values, cotangents, strict=True) if v.requires_grad]
        if not pairs:
            return tuple(torch.zeros_like(x) for x in primals)
        with plain_torch():
            tracked, given = zip(*pairs, strict=True)
            gradients = torch.autograd.grad(tracked, leaves, given, materialize_grads=True)
        return tuple(gradients)

    return tuple(x.detach() for x in values), pull
