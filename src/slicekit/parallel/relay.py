"""States handed on from rank to rank: what works for any recurrence, also one that is not linear.

Each rank waits for the state of the one before, runs its part, and sends its own state on; backward
the gradients go the other way. One layer alone gains no time by it, only memory. In a stack, ranks
work on different layers at once, and of n layers on R ranks all but R - 1 turns are busy.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slicekit.parallel.ranks import Ranks
from slicekit.scans.base import Recurrence, Scan, Solution, as_tensors
from slicekit.scans.choice import fastest

HEADER = 4096
"""Bytes in which a rank says what its state looks like."""

Named = dict[str, Tensor]


def enter(
    ranks: Ranks, x: Tensor, state: Named | None, used: Iterable[Tensor] = ()
) -> tuple[Tensor, Named | None]:
    """The state that a rank's part starts from.

    Args:
        ranks: that hold the parts, in order.
        x: what the part is computed from. It is given back, and must be used instead: so every rank
            takes part in the way back, also one that has no use for the state.
        state: of the first rank; others receive theirs.
        used: what else the part is computed from. Where autograd is asked for the gradients of some
            tensors alone, it leaves out what none of them leads to: not the way back to the rank
            before, if one of these is asked for.

    Returns:
        x, and on the first rank the state that was given.
    """
    if ranks.first:
        return x, state
    told = torch.empty(HEADER, dtype=torch.uint8)
    described = _described(ranks.receive("a state", told, ranks.rank - 1))
    tensors = []
    for dtype, shape in described.values():
        blank = torch.empty(shape, dtype=getattr(torch, dtype))
        tensors.append(ranks.receive("a state", blank, ranks.rank - 1).to(x.device))
    taped = torch.zeros((), requires_grad=torch.is_grad_enabled())
    received: Any = _Enter.apply(ranks, len(tensors), taped, x, *tensors, *used)
    return received[0], dict(zip(described, received[1:], strict=True))


def leave(ranks: Ranks, outputs: tuple[Tensor, ...], state: Named) -> tuple[Tensor, ...]:
    """Send a rank's last state to the next.

    Args:
        ranks: that hold the parts, in order.
        outputs: of this rank's part. They are given back, and one of them must be used.
        state: after it.
    """
    if ranks.last:
        return outputs
    ranks.send("a state", _header(state), ranks.rank + 1)
    tensors = tuple(state.values())
    for x in tensors:
        ranks.send("a state", x.detach().cpu(), ranks.rank + 1)
    taped = torch.zeros((), requires_grad=torch.is_grad_enabled())
    sent: Any = _Leave.apply(ranks, len(outputs), taped, *outputs, *tensors)
    return sent


def _header(state: Named) -> Tensor:
    """What a state looks like, in bytes."""
    kinds = {name: [str(x.dtype).removeprefix("torch."), [*x.shape]] for name, x in state.items()}
    told = json.dumps(kinds).encode()
    if len(told) > HEADER:
        raise ValueError(f"a state of {len(state)} tensors is more than can be handed on")
    padded = torch.zeros(HEADER, dtype=torch.uint8)
    padded[: len(told)] = torch.frombuffer(bytearray(told), dtype=torch.uint8)
    return padded


def _described(header: Tensor) -> dict[str, Any]:
    """Dtypes and shapes of a state's tensors, by name."""
    return json.loads(bytes(header.numpy()).rstrip(b"\0").decode())


def _alike(ranks: Ranks, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The last rank's tensors there, and room for them elsewhere."""
    header = _header({str(place): x for place, x in enumerate(tensors)})
    described = _described(ranks.from_last("the last state", header)).values()
    if ranks.last:
        return list(tensors)
    pairs = zip(described, tensors, strict=True)
    return [x.new_empty(shape, dtype=getattr(torch, dtype)) for (dtype, shape), x in pairs]


def from_last(
    ranks: Ranks, outputs: tuple[Tensor, ...], state: Named
) -> tuple[tuple[Tensor, ...], Named]:
    """Outputs as they are, and the last rank's state on all ranks.

    A collective for each tensor, and one before them that says what they look like.
    """
    count = len(outputs)
    received: Any = _FromLast.apply(ranks, count, *outputs, *state.values())
    return received[:count], dict(zip(state, received[count:], strict=True))


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ranks: Ranks, count: int, taped: Tensor, x: Tensor, *given: Tensor
    ) -> tuple[Tensor, ...]:
        tensors = given[:count]
        ctx.ranks, ctx.floating = ranks, [_floating(t) for t in tensors]
        ctx.unsent = [None for _ in given]
        received = tuple(t.clone() for t in tensors)
        ctx.mark_non_differentiable(*(t for t in received if not _floating(t)))
        return x.view_as(x), *received

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # type: ignore[override]
        in_x, *in_tensors = gradients
        for gradient, floating in zip(in_tensors, ctx.floating, strict=True):
            if floating:
                ctx.ranks.send("the gradient of a state", gradient.cpu(), ctx.ranks.rank - 1)
        return (None, None, None, in_x, *ctx.unsent)


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ranks: Ranks, count: int, taped: Tensor, *given: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.ranks, tensors = ranks, given[count:]
        ctx.like = [torch.empty(x.shape, dtype=x.dtype) if _floating(x) else None for x in tensors]
        ctx.devices = [x.device for x in tensors]
        return tuple(y.view_as(y) for y in given[:count])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # type: ignore[override]
        ranks: Ranks = ctx.ranks
        pulled = [
            None
            if like is None
            else ranks.receive("the gradient of a state", like, ranks.rank + 1).to(device)
            for like, device in zip(ctx.like, ctx.devices, strict=True)
        ]
        return (None, None, None, *gradients, *pulled)


class _FromLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ranks: Ranks, count: int, *given: Tensor) -> tuple[Tensor, ...]:
        tensors = given[count:]
        ctx.ranks, ctx.count, ctx.floating = ranks, count, [_floating(x) for x in tensors]
        told = [ranks.from_last("the last state", x) for x in _alike(ranks, tensors)]
        ctx.mark_non_differentiable(
            *(x for x, floating in zip(told, ctx.floating, strict=True) if not floating)
        )
        return (*(y.view_as(y) for y in given[:count]), *told)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # type: ignore[override]
        ranks: Ranks = ctx.ranks
        pulled: list[Tensor | None] = []
        for gradient, floating in zip(gradients[ctx.count :], ctx.floating, strict=True):
            total = ranks.add_up("the gradient of the last state", gradient) if floating else None
            pulled.append(total if ranks.last else None)
        return (None, None, *gradients[: ctx.count], *pulled)


def _floating(x: Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


@dataclass(frozen=True)
class Relay(Scan):
    """Each rank waits for the state of the one before: any transitions, no gain in time.

    It is called as `Sharded` is, and gives what it gives. A state is sent once in each direction,
    and nothing is computed twice. Ranks that ask for the gradients of some tensors alone
    (`torch.autograd.grad`) must all ask for the same ones.

    Args:
        group: a process group of torch, or None for all ranks.
        inner: the scan of a shard, or None for the fastest that applies.
    """

    group: Any = None
    inner: Scan | None = None
    collective: ClassVar[bool] = True

    def run(self, recurrence: Recurrence) -> Solution:
        """Wait, run this rank's steps, and hand on.

        Raises:
            LostRank: if a rank does not answer.
        """
        ranks, scan = Ranks(self.group), self.inner or fastest(recurrence)
        state = recurrence.state
        taped = torch.is_grad_enabled()
        ranks.agree("a recurrence", state=list(state.shape), dtype=str(state.dtype), gradient=taped)
        given = {"state": state}
        if recurrence.log_norm is not None:
            given["log_norm"] = recurrence.log_norm
        readout = () if recurrence.readout is None else (recurrence.readout,)
        used = (*recurrence.source.tensors, *as_tensors(recurrence.inputs), *readout)
        _, carried = enter(ranks, state, given, used)
        assert carried is not None
        solution = scan.run(
            replace(recurrence, state=carried["state"], log_norm=carried.get("log_norm"))
        )
        last = {"state": solution.last}
        if solution.last_log_norm is not None:
            last["log_norm"] = solution.last_log_norm
        outputs = (
            (solution.outputs,)
            if solution.log_norm is None
            else (solution.outputs, solution.log_norm)
        )
        outputs, last = from_last(ranks, leave(ranks, outputs, last), last)
        return replace(
            solution,
            outputs=outputs[0],
            last=last["state"],
            log_norm=outputs[1] if len(outputs) > 1 else None,
            last_log_norm=last.get("log_norm"),
        )
