"""A scan of sequences that are split over ranks: one message a pass, whatever the length.

Rank r holds the steps of shard r, which send the state at its start to P_r h + u_r.

    forward     each rank finds P_r and u_r                                          (a first pass)
                all-gather of (P_r, u_r), and of h_0 from the first rank
                h_{r+1} = P_r h_r + u_r up to the own shard, then its steps         (a second pass)
    backward    each rank pulls its outputs' gradients back to g_r at its start      (a first pass)
                all-gather of g_r, and of the gradients of the last state
                λ_r = g_{r+1} + P_{r+1}^* λ_{r+1} from the last rank down, λ_r the gradient of the
                state at the own end, then all gradients from there                 (a second pass)

The first passes make transitions, but neither states nor gradients of what transitions are made of.
All ranks take part in both messages, whatever their own outputs are used for. Projective states are
carried with a power of two for each block, as inside a shard: see `slicekit.scans.projective`. In
the coordinates of such mantissas P_r^* is multiplied by 2^(e_r - e_{r+1}).
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from slicekit.dispatch import plain_torch
from slicekit.parallel.messages import pack, unpack
from slicekit.parallel.ranks import Ranks
from slicekit.parallel.shards import Scaled, Shard, leaves_of, scaled, summarise
from slicekit.scans.base import Outer, Passes, Recurrence, Scan, Solution, as_tensors
from slicekit.scans.choice import fastest
from slicekit.scans.chunked.policy import Chunked
from slicekit.scans.native.passes import MadePasses
from slicekit.scans.native.policy import Native
from slicekit.scans.projective import WINDOW, directions, exponents, pull_directions
from slicekit.scans.sources import FromTransitions, Source, rebuild

LARGE = 4 * 2**20
"""Bytes of a rank's message from which on its size is announced."""

_announced: set[int] = set()


@dataclass(frozen=True)
class Sharded(Scan):
    """The sequences are split along time, in the order of a group's ranks.

    Every rank calls `solve` or `propagate` with its own steps: as many as it likes, at least one,
    with lengths that count its own steps. The initial state counts on the first rank only, and its
    gradient comes out there; on the others it is there for its shape. Each rank gets the states of
    its own steps, and all get the last state of the whole sequences. Losses of ranks add up: the
    gradient is that of their sum, and a tensor that all ranks hold, such as a parameter, has on
    each rank the share of that rank's steps. Every rank must call backward.

    Args:
        group: a process group of torch, or None for all ranks.
        inner: the scan of a shard, `Native()`, `Chunked()`, or None for the fastest that applies.

    Transitions that are closed under products (diagonal, blocks, dense), low-rank ones and sums of
    them can be sent; for others use `Relay`. First derivatives in reverse mode only.
    """

    group: Any = None
    inner: Native | Chunked | None = None
    collective: ClassVar[bool] = True
    citations: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Check the inner scan."""
        if self.inner is not None and not isinstance(self.inner, Native | Chunked):
            raise TypeError(f"inner={self.inner!r}; expected Native(), Chunked() or None")

    def run(self, recurrence: Recurrence) -> Solution:
        """Run this rank's steps, with the others.

        Raises:
            ValueError: if the transition of a shard can't be sent, or ranks disagree on shapes.
            LostRank: if a rank does not answer.
        """
        ranks = Ranks(self.group)
        inner = self.inner or fastest(recurrence)
        if not isinstance(inner, Native | Chunked):
            source = recurrence.source
            assert isinstance(source, FromTransitions)
            raise ValueError(
                f"scan=Sharded() does not know {type(source.transition).__name__}; use Relay()"
            )
        passes, recurrence, size = inner.engine(recurrence)
        problem = _Problem(ranks, passes, size, recurrence)
        problem.agree()
        results: Any = _ShardedScan.apply(problem, *problem.operands)
        if not recurrence.projective:
            return Solution(results[0], results[1])
        return Solution(*results[:4])


class _Problem:
    """A recurrence, its ranks and the passes that run a shard.

    Attributes:
        operands: everything differentiable or not, in one row: the source's tensors, the state, its
            log-norm if projective, the inputs and the readout.
    """

    def __init__(self, ranks: Ranks, kind: type[Passes], size: int, recurrence: Recurrence) -> None:
        source, readout = recurrence.source, recurrence.readout
        inputs = as_tensors(recurrence.inputs)
        log_norm = () if recurrence.log_norm is None else (recurrence.log_norm,)
        queries = () if readout is None else (readout,)
        self.ranks, self.kind, self.size = ranks, kind, size
        self.leaves = leaves_of(source)
        self.recipe = source.recipe
        self.counts = (len(source.tensors), 1, len(log_norm), len(inputs), len(queries))
        self.rescale = WINDOW if recurrence.projective else 0
        self.outer = isinstance(recurrence.inputs, Outer)
        self.operands = (*source.tensors, recurrence.state, *log_norm, *inputs, *queries)

    def agree(self) -> None:
        """Compare shapes with the other ranks, and say so where the message is large."""
        state = self.operands[self.counts[0]]
        taped = torch.is_grad_enabled() and any(x.requires_grad for x in self.operands)
        self.ranks.agree(
            "a sharded recurrence",
            state=list(state.shape),
            dtype=str(state.dtype),
            blocks=[list(leaf) for leaf in self.leaves],
            inputs=self.counts[3] > 0,
            projective=self.rescale > 0,
            gradient=taped,
        )
        numbers = sum(leaf.dim * leaf.size for leaf in self.leaves) * state.shape[0]
        size = numbers * state.element_size()
        if size >= LARGE and numbers not in _announced:
            _announced.add(numbers)
            most = max(self.leaves, key=lambda leaf: leaf.size)
            warnings.warn(
                f"Sharded() sends {size / 2**20:.0f} MiB from every rank to every other in each "
                f"pass: {state.shape[0]} transitions with blocks of {most.size} x {most.size}. "
                "Smaller blocks cost less, and Relay() sends states only",
                stacklevel=6,
            )

    def dealt(self, operands: tuple[Tensor, ...]) -> "_Dealt":
        """Operands under their names."""
        source, state, log_norm, inputs, readout = _deal(operands, self.counts)
        return _Dealt(
            rebuild(*self.recipe, source),
            state[0],
            log_norm[0] if log_norm else None,
            inputs,
            readout[0] if readout else None,
        )

    def passes(self, dealt: "_Dealt", start: Tensor) -> Any:
        """The passes over the own shard, from a state."""
        return self.kind(dealt.source, start, dealt.inputs, dealt.readout, self.size, self.rescale)


@dataclass(frozen=True, eq=False)
class _Dealt:
    source: Source
    state: Tensor
    log_norm: Tensor | None
    inputs: tuple[Tensor, ...]
    readout: Tensor | None

    @cached_property
    def affine(self) -> Tensor | Outer | None:
        """The inputs as `summarise` takes them."""
        if len(self.inputs) == 2:
            return Outer(*self.inputs)
        return self.inputs[0] if self.inputs else None


def _deal(row: Any, counts: tuple[int, ...]) -> list[Any]:
    dealt, at = [], 0
    for count in counts:
        dealt.append(row[at : at + count])
        at += count
    return dealt


@dataclass(frozen=True, eq=False)
class _Chain:
    """The shards of all ranks, and the states between them.

    Attributes:
        shards: of all ranks.
        states: h_0 ... h_count, at the shards' starts and after the last.
        log_norm: of the first rank's initial state, or None.
    """

    shards: list[Shard]
    states: list[Scaled]
    log_norm: Tensor | None

    @classmethod
    def gathered(cls, ranks: Ranks, here: Shard, dealt: _Dealt) -> "_Chain":
        """By one message."""
        state, log_norm = dealt.state, dealt.log_norm
        extra = [state] if log_norm is None else [state, log_norm]
        sent = [*here.tensors(), *extra]
        heard = ranks.gather("the transition of a shard", pack(sent))
        received = [unpack(x, sent) for x in heard]
        shards = [here.with_tensors(x[: len(sent) - len(extra)]) for x in received]
        first = received[0][len(sent) - len(extra) :]
        states = [Scaled.of(here.leaves, first[0])]
        for shard in shards:
            after = shard.act(states[-1])
            if log_norm is None:  # plain numbers, to which the inputs can be added
                plain = after.plain()
                after = Scaled.of(
                    here.leaves, plain if shard.driven is None else plain + shard.driven
                )
            states.append(after)
        return cls(shards, states, first[1] if log_norm is not None else None)

    def pull(self, rank: int, gradients: list[Tensor], last: Tensor) -> Tensor:
        """The gradient of the state after a rank's shard.

        Args:
            rank: whose.
            gradients: g of all ranks, in the coordinates of their first states.
            last: gradient of the last state of all.
        """
        gradient = last
        for at in range(len(self.shards) - 1, rank, -1):
            shift = self.states[at].below(self.states[at + 1])
            gradient = gradients[at] + self.shards[at].pull(gradient, shift)
        return gradient


class _ShardedScan(torch.autograd.Function):
    """Outputs and last state, and the log-norms of both if projective."""

    @staticmethod
    def forward(ctx: Any, problem: _Problem, *operands: Tensor) -> tuple[Tensor, ...]:
        with plain_torch():
            dealt, ranks = problem.dealt(operands), problem.ranks
            size = problem.size if problem.kind is MadePasses else 0
            shard, made = summarise(dealt.source, dealt.affine, dealt.state, size)
            chain = _Chain.gathered(ranks, shard, dealt)
            start = chain.states[ranks.rank]
            passes = problem.passes(dealt, start.mantissa().contiguous())
            keep = any(ctx.needs_input_grad) and passes.keeps()
            results = passes.forward(keep, made) if made else passes.forward(keep)
            ctx.problem, ctx.chain, ctx.count = problem, chain, len(operands)
            if not problem.rescale:
                ctx.save_for_backward(*operands, *results)
                return results[0], chain.states[-1].plain()
            return _ShardedScan._projective(ctx, operands, results, start)

    @staticmethod
    def _projective(
        ctx: Any, operands: tuple[Tensor, ...], saved: list[Tensor], start: Scaled
    ) -> tuple[Tensor, ...]:
        states, _, factors, *_ = saved
        chain: _Chain = ctx.chain
        assert chain.log_norm is not None
        ahead = directions(states, factors, WINDOW, start.exponent())
        end = _end(chain)
        ctx.save_for_backward(*operands, *saved, ahead[0], *ahead[2:], end[0], *end[2:])
        log_norm = ahead[1] + chain.log_norm.unsqueeze(1)
        return ahead[0], end[0][:, 0].clone(), log_norm, end[1][:, 0] + chain.log_norm

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:  # type: ignore[override]
        problem: _Problem = ctx.problem
        chain: _Chain = ctx.chain
        saved = ctx.saved_tensors  # asked for once: torch.utils.checkpoint gives them only once
        operands, kept = saved[: ctx.count], list(saved[ctx.count :])
        with plain_torch():
            dealt, rank = problem.dealt(operands), problem.ranks.rank
            start = chain.states[rank]
            passes = problem.passes(dealt, start.mantissa().contiguous())
            shift = None
            if problem.rescale:
                *kept, direction, norms, peaks, d, n, p = kept
                in_log = _or_zeros(gradients[2], norms)
                in_states = pull_directions(
                    *(direction, norms, peaks, kept[2], WINDOW),
                    *(_or_zeros(gradients[0], direction), in_log, start.exponent()),
                )
                ones = n.new_ones(n.shape[0], 1, *d.shape[2:])
                in_end = _or_zeros(gradients[3], n[:, 0])
                in_last = pull_directions(
                    *(d, n, p, ones, WINDOW),
                    *(_or_zeros(gradients[1], d[:, 0]).unsqueeze(1), in_end.unsqueeze(1)),
                    chain.states[-1].exponent(),
                ).squeeze(1)
                extra = [in_log.sum(1) + in_end]
                ends = exponents(kept[2], start.exponent())[:, -1]
                shift = ends - chain.states[rank + 1].exponent()
            else:
                in_states = _or_zeros(gradients[0], kept[0])
                in_last, extra = _or_zeros(gradients[1], dealt.state), []
            nothing = torch.zeros_like(in_last)
            at, needed = problem.counts[0], list(ctx.needs_input_grad[1:])
            chosen = _without_log_norm(needed, problem.counts)
            alone = [place == at for place in range(len(chosen))]
            # Nobody asks the first rank for its own.
            g = nothing if rank == 0 else passes.backward(kept, in_states, nothing, alone)[at]
            sent = [g, in_last, *extra]
            heard = problem.ranks.gather("the gradient of a shard's first state", pack(sent))
            received = [unpack(x, sent) for x in heard]
            total = torch.stack([x[1] for x in received]).sum(0)
            carry = chain.pull(rank, [x[0] for x in received], total)
            carry = carry if shift is None else scaled(carry, shift)
            made = list(passes.backward(kept, in_states, carry, chosen))
            made[at] = made[at] if rank == 0 else torch.zeros_like(made[at])
            if problem.rescale:
                sums = torch.stack([x[2] for x in received]).sum(0)
                made.insert(at + 1, sums if rank == 0 else torch.zeros_like(sums))
        pairs = zip(made, needed, strict=True)
        return (None, *(x if wanted else None for x, wanted in pairs))


def _end(chain: _Chain) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Direction, log-norm, norm and peak of the last state of all, each with one step."""
    last = chain.states[-1]
    mantissa = last.mantissa().unsqueeze(1)
    ones = torch.ones_like(mantissa, dtype=mantissa.dtype.to_real())
    return directions(mantissa, ones, WINDOW, last.exponent())


def _or_zeros(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _without_log_norm(needed: list[bool], counts: tuple[int, ...]) -> list[bool]:
    at = counts[0] + 1
    return needed[:at] + needed[at + counts[2] :]
