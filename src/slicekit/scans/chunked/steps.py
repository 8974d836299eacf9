"""The two passes of the chunked scan, without a tape.

Forward, each chunk's transitions are made by one matrix product and run. Backward, the chunks are
taken in reverse: their transitions are made again (or were kept, while they are small), the adjoint
recurrence is run, and its result is pulled back to the increments and the parameters by two matrix
products. Nothing but the states is stored in between.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from slicekit.scans.base import KEEP_BYTES, Passes, contract, input_pullback, input_window
from slicekit.scans.chunked.kernels import run
from slicekit.scans.projective import FLOOR, powers_of_two, without_tiny
from slicekit.structures import Transition

CHUNK_BYTES = 4 * 2**20
"""Transitions that exist at a time; more would leave the cache and page-fault."""


class StepPasses(Passes):
    """The steps of a chunk by `kernels`; size 0 lets its transitions fill CHUNK_BYTES."""

    def chunk_size(self) -> int:
        """Steps in a chunk."""
        return self.size or max(1, CHUNK_BYTES // max(self.source.step_bytes(), 1))

    def chunks(self) -> list[tuple[int, int]]:
        """First step of every chunk, and the one after its last."""
        length, size = self.source.length, self.chunk_size()
        return [(start, min(start + size, length)) for start in range(0, length, size)]

    def keeps(self) -> bool:
        """Whether the transitions should be kept for the backward pass."""
        source = self.source
        return source.keeps and source.step_bytes() * source.length <= KEEP_BYTES

    def blank_kept(self) -> list[Tensor]:
        """What `forward` keeps, for its shapes."""
        windows = (self.source.window(start, stop) for start, stop in self.chunks())
        return [x for window in windows for x in window.tensors()]

    def forward(self, keep: bool) -> list[Tensor]:
        """Run all steps; what is kept are the transitions' tensors, chunk by chunk."""
        state, readout, rescale = self.state, self.readout, self.rescale
        shape = self.output_shape()
        outputs = state.new_empty(shape[1], shape[0], *shape[2:])
        factors = state.new_ones(self.factor_shape(), dtype=state.dtype.to_real())
        starts = state.new_empty(self.start_shape())
        kept: list[Tensor] = []
        for number, (start, stop) in enumerate(self.chunks()):
            chunk = self.source.window(start, stop)
            kept.extend(chunk.tensors() if keep else ())
            inputs = input_window(self.inputs, start, stop)
            if readout is None:
                states = outputs[start:stop]
            else:
                states = state.new_empty(stop - start, *state.shape)
                starts[number] = state
            for part, transition in _parts(chunk, start, rescale):
                if _divides(start + part.start, rescale):
                    factor = powers_of_two(transition.sizes(state))
                    factors[:, (start + part.start) // rescale] = factor
                    state = state / factor
                run(transition, state, None if inputs is None else inputs[part], states[part])
                state = states[part][-1]
            if readout is not None:
                outputs[start:stop] = contract(readout[:, start:stop].transpose(0, 1), states)
        return [outputs.transpose(0, 1).contiguous(), state.clone(), factors, starts, *kept]

    def backward(
        self, saved: list[Tensor], in_outputs: Tensor, in_last: Tensor | None, needed: list[bool]
    ) -> list[Tensor]:
        """All gradients of the source if one of them is needed."""
        factors, kept = saved[2], saved[4:]
        source = self.source
        trained = any(needed[: len(source.tensors)])
        source.open_gradients()
        in_inputs = tuple(torch.empty_like(x) for x in self.inputs)
        in_readout = [] if self.readout is None else [torch.empty_like(self.readout)]
        carry = torch.zeros_like(self.state) if in_last is None else in_last
        chunks = self.chunks()
        for number, (start, stop) in reversed(list(enumerate(chunks))):
            share = len(kept) // len(chunks)
            whole = kept[number * share : (number + 1) * share]
            given = source.window(0, 1).with_tensors(tuple(whole)) if share else None
            chunk, pullback = source.window_with_pullback(start, stop, given)
            in_states = in_outputs[:, start:stop].transpose(0, 1)
            if self.readout is None:
                first = saved[0][:, start - 1] if start else self.state
                states = saved[0][:, start:stop].transpose(0, 1)
            else:
                first = saved[3][number]
                states, in_states, in_query = self._behind_readout(chunk, first, start, in_states)
                in_readout[0][:, start:stop] = in_query.transpose(0, 1)
            before = torch.cat([first.unsqueeze(0), states[:-1]])
            for step in range(start, stop):
                if _divides(step, self.rescale):
                    before[step - start] /= factors[:, step // self.rescale]
            cotangents, carry = _adjoint(chunk, start, carry, in_states, factors, self.rescale)
            gradients = input_pullback(self.inputs, start, stop, cotangents)
            for total, x in zip(in_inputs, gradients, strict=True):
                total[:, start:stop] = x
            if trained:
                pullback(chunk.pullback(before, cotangents))
        made = source.gradients() if trained else [x.new_empty(0) for x in source.tensors]
        gradients = (*made, carry, *in_inputs, *in_readout)
        return [x.contiguous() for x in gradients]

    def _behind_readout(
        self, chunk: Transition, first: Tensor, start: int, in_outputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The states of a chunk, which were not stored; their gradients, and that of the readout.

        Args:
            first: (batch, dim, columns), the state at the chunk's beginning.
            in_outputs: (steps, batch, columns).
        """
        assert self.readout is not None
        stop = start + in_outputs.shape[0]
        states = first.new_empty(in_outputs.shape[0], *first.shape)
        run(chunk, first, input_window(self.inputs, start, stop), states)
        query = self.readout[:, start:stop].transpose(0, 1)
        in_states = query.conj().unsqueeze(-1) * in_outputs.unsqueeze(-2)
        return states, in_states, (states.conj() @ in_outputs.unsqueeze(-1)).squeeze(-1)


def _divides(step: int, rescale: int) -> bool:
    """Whether the state is divided before this step."""
    return rescale > 0 and step > 0 and step % rescale == 0


def _parts(chunk: Transition, first: int, rescale: int) -> Iterator[tuple[slice, Transition]]:
    """The transitions of a chunk, whose first step is given, between two divisions of the state.

    In one piece if there are none.
    """
    steps = chunk.tensors()[0].shape[0]
    if not rescale:
        yield slice(0, steps), chunk
        return
    edges = range(rescale - first % rescale, steps, rescale)
    for start, stop in zip((0, *edges), (*edges, steps), strict=True):
        part = slice(start, stop)
        yield part, chunk.map(lambda x, part=part: x[part])


def _adjoint(
    chunk: Transition, first: int, carry: Tensor, in_states: Tensor, factors: Tensor, rescale: int
) -> tuple[Tensor, Tensor]:
    """Cotangents of the states after each step of a chunk, and of the state before it.

    Args:
        first: the chunk's first step.
        carry: gradient of the last state from later steps.
        in_states: (steps, batch, dim, columns), the states' own gradients.
        factors: (batch, windows, dim, columns), by which states were divided.
    """
    cotangents = in_states.new_empty(in_states.shape[0] + 1, *in_states.shape[1:])
    for part, transition in reversed(list(_parts(chunk, first, rescale))):
        # Row t of `rows` is the state before step t: its own gradient, and what step t passes back.
        rows, own = cotangents[part.start : part.stop + 1], in_states[part]
        torch.add(own[-1], carry, out=rows[-1])
        star = transition.adjoint()
        assert isinstance(star, Transition)
        earlier = torch.cat([torch.zeros_like(own[:1]), own[:-1]])
        run(star, rows[-1], earlier, rows[:-1], reverse=True)
        carry = rows[0]
        if _divides(first + part.start, rescale):
            carry = carry / factors[:, (first + part.start) // rescale]
            carry = without_tiny(carry, FLOOR[factors.dtype])
    return cotangents[1:], carry
