"""The layer: a structured linear controlled differential equation driven by its input.

    dh = Σ_i A^i h dω^i (+ B dω),   h_{l+1} = M(Δω_l) h_l (+ B Δω_l)

Glossary: structure and A hold A^1..A^dω; drive makes Δω from the input X; initial makes h_0 from
x_0 (the paper's ξ); flow makes M from A(Δω); scan runs the steps; affine is B.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.checks import (
    Lengths,
    check_lengths,
    check_shape,
    check_whole,
)
from slicekit.dispatch import autocast_off
from slicekit.flows import Flow, LogODE, resolve
from slicekit.layers.disturbances import growth, isometry_defect
from slicekit.layers.drives import Drive, TimeAndInput
from slicekit.layers.fused import quick_pass
from slicekit.layers.initial_states import FirstInput, InitialState, Learned
from slicekit.layers.log_ode import Places, open_window, places, run_windows
from slicekit.layers.owned_tensors import OwnedTensors
from slicekit.layers.plainness import repeats
from slicekit.layers.slice_checks import check_input, check_started, in_range, warn_if_exploded
from slicekit.layers.state import State, last_valid, nothing_after, prepend, without_steps
from slicekit.layers.stepping import quick_step
from slicekit.paths import Tabulated, mask_past_end
from slicekit.paths.cutting import OpenWindow
from slicekit.paths.lie_bases import LieBasis
from slicekit.paths.tabulated import densely, full_precision
from slicekit.scans import Projective, Recurrent, Scan, solve
from slicekit.structures import DirectSum, Structure
from slicekit.structures.base import normal


class SLiCE(nn.Module):
    """A structured linear CDE layer: (batch, length, channels) -> (batch, length, dim).

    Args:
        channels: size of an input element.
        structure: what the matrices A^i look like; its dim is the size of the output.
        drive: how the input becomes increments; `TimeAndInput()` by default.
        initial: where the state starts; `FirstInput()` by default, as in the paper.
        flow: `Euler()`, `Exponential()`, or None for the structure's own. With `LogODE(...)` the
            output has one element for each window of the input: see `output_lengths`.
        scan: how the steps are run, or None for the fastest way that applies.
        affine: whether B Δω is added after each step.
        projective: whether direction and norm are carried apart; the output is then the direction,
            and the state neither overflows nor underflows at any length.
        generator: source of randomness for the initialisation.

    Example:
        >>> from slicekit import BlockDiagonal
        >>> layer = SLiCE(channels=3, structure=BlockDiagonal(dim=8, block=4))
        >>> x = torch.randn(2, 10, 3)
        >>> h, state = layer(x[:, :9], return_state=True)
        >>> h_t, state = layer.step(x[:, 9], state)
        >>> torch.allclose(h_t, layer(x)[:, 9], atol=1e-5)
        True
    """

    def __init__(
        self,
        channels: int,
        structure: Structure,
        *,
        drive: Drive | None = None,
        initial: InitialState | None = None,
        flow: Flow | None = None,
        scan: Scan | None = None,
        affine: bool = False,
        projective: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        """Make the parameters."""
        super().__init__()
        check_whole("channels", channels)
        if not isinstance(structure, Structure):
            raise TypeError(f"structure={structure!r}; expected a structure such as BlockDiagonal")
        drive = TimeAndInput() if drive is None else drive
        initial = FirstInput() if initial is None else initial
        if isinstance(drive, type) or not isinstance(drive, Drive):
            raise TypeError(f"drive={drive!r}; expected a drive such as TimeAndInput()")
        if not isinstance(initial, InitialState):
            raise TypeError(f"initial={initial!r}; expected an initial state such as Learned()")
        if scan is not None and not isinstance(scan, Scan):
            raise TypeError(f"scan={scan!r}; expected a scan such as Chunked(), or None")
        if affine and projective:
            raise ValueError(
                "affine=True with projective=True: an affine recurrence does not only scale, so "
                "direction and norm can't be carried apart"
            )
        resolve(structure, flow)
        if affine and flow is not None and flow.windowed:
            raise ValueError(
                "affine=True with LogODE(): an affine input has no place in a window's "
                "log-signature"
            )
        self.channels, self.structure = channels, structure
        self.drive, self.initial, self.flow, self.scan = drive, initial, flow, scan
        self.projective = projective
        width = drive.channels(channels)
        _ = self.basis  # refused now rather than at the first call
        tensors = structure.init(width, generator, increment=drive.scale)
        check = partial(structure.check_pattern, channels=width) if structure.ragged else None
        self.A = OwnedTensors(tensors, structure.ragged, check)
        self.start = OwnedTensors(initial.init(channels, structure.dim, generator))
        self.B = (
            nn.Parameter(normal((structure.dim, width), width**-0.5, generator)) if affine else None
        )

    @property
    def outputs(self) -> int:
        """Size of an output element: the structure's dim."""
        return self.structure.dim

    @property
    def pointwise(self) -> bool:
        """Whether discrete tokens may come as `Tabulated`."""
        drive = self.drive
        return drive.pointwise and (not isinstance(drive, nn.Module) or repeats(drive))

    def forward(
        self,
        x: Tensor | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
        return_state: bool = False,
    ) -> Any:
        """The states along a batch of sequences.

        Args:
            x: (batch, length, channels), or `Tabulated` inputs for discrete tokens.
            state: where an earlier part of the sequences ended; no element is special then.
            lengths: (batch,) integers; past the end the state stays as it is.
            return_state: whether to return the final state as well.

        Returns:
            h (batch, length, dim) in the dtype of x, the direction if projective; with
            return_state, (h, state). Under `LogODE` the length is that of `output_lengths`, and an
            element for a window that is not over is provisional.
        """
        quick = quick_pass(self, x, state, lengths, return_state)
        if quick is not None:
            h, *last = quick
            if not in_range(h.detach().select(1, -1)):
                warn_if_exploded(self, h.detach()[:, -1], h, stacklevel=4)
            return (h, State({"hidden": last[0]})) if return_state else h
        states, final = self.trajectory(x, state, lengths)
        h = states.direction if isinstance(states, Projective) else states
        return (h, final) if return_state else h

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One element: x (batch, channels) -> h (batch, dim), and the state after it.

        Under `LogODE` too, h is the state now, also inside a window.
        """
        quick = quick_step(self, x, state)
        if quick is not None:
            h, final, finite = quick
            if not finite:
                warn_if_exploded(self, h, stacklevel=3)
            return h, final
        check_shape("x", x, ("batch", self.channels))
        states, final = self.trajectory(x.unsqueeze(1), state, scan=Recurrent())
        h = states.direction if isinstance(states, Projective) else states
        if self.log_ode is not None and not isinstance(self.log_ode.window, int):
            return last_valid(h, self.places(x.unsqueeze(1), state).counts), final
        return h.squeeze(1), final

    def output_lengths(self, lengths: Tensor) -> Tensor:
        """How many outputs sequences of these lengths have: (batch,) int64 -> (batch,).

        As many, but with windows of some steps one for each window, and one before them if the
        first element drives nothing (`FirstInput()`).

        Raises:
            ValueError: if windows are given in time: their number depends on the input.
        """
        if self.log_ode is None:
            return lengths
        window = self.log_ode.window
        if not isinstance(window, int):
            raise ValueError(
                f"window={window!r}: how many windows there are depends on the input; see `places`"
            )
        skip = 0 if self.initial.drives_first else 1
        return skip + ((lengths - skip).clamp_min(0) + window - 1) // window

    def places(
        self, x: Tensor | Tabulated, state: State | None = None, lengths: Lengths | None = None
    ) -> Places:
        """Where the outputs of `forward` stand in its input, for the same arguments.

        Raises:
            ValueError: unless the flow is `LogODE`; otherwise outputs stand where inputs do.
        """
        if self.log_ode is None:
            raise ValueError(f"flow={self.flow!r} keeps the length; expected LogODE(...)")
        if lengths is not None:
            lengths = check_lengths(lengths, x.shape[0], x.shape[1], device=x.device)
        skip = 0 if state is not None or self.initial.drives_first else 1
        if isinstance(self.log_ode.window, int):  # only how many increments there are matters
            blank = torch.empty(1, device=x.device).expand(x.shape[0], x.shape[1] - skip, 1)
            return places(self, blank, skip, state, lengths)
        with torch.no_grad():
            path = densely(self._increments(full_precision(x), state, skip))
            return places(self, path, skip, state, lengths)

    @property
    def log_ode(self) -> LogODE | None:
        """The flow, if it is `LogODE`."""
        return self.flow if isinstance(self.flow, LogODE) else None

    @property
    def basis(self) -> LieBasis | None:
        """Of the log-signatures of windows, under `LogODE`."""
        if self.log_ode is None:
            return None
        return self.log_ode.basis(self.structure, self.drive.channels(self.channels))

    @property
    def windowed(self) -> bool:
        """Whether outputs stand at the ends of windows, and not at every element."""
        return self.log_ode is not None

    def trajectory(
        self,
        x: Tensor | Tabulated,
        state: State | None = None,
        lengths: Lengths | None = None,
        scan: Scan | None = None,
    ) -> tuple[Tensor | Projective, State]:
        """As `forward`, but projective layers give directions and log-norms, and always the state.

        Returns:
            States (batch, length, dim) or `Projective` ones, and the final state.
        """
        if isinstance(x, Tabulated) and not self.pointwise:
            x = x.dense()
        check_input(self, x, state)
        shape = x.shape
        if lengths is not None:
            lengths = check_lengths(lengths, shape[0], shape[1], device=x.device)
            check_started(self, state, lengths)
            # Padding may hold anything, and 0 * NaN would reach the gradients of the drive.
            x = x.masked(lengths) if isinstance(x, Tabulated) else mask_past_end(x, lengths)
        given = x.dtype
        with autocast_off(x.device):
            states, final = self._trajectory(full_precision(x), state, lengths, scan or self.scan)
        plain = None if isinstance(states, Projective) else states
        warn_if_exploded(self, final["hidden"], plain, given=given)
        if isinstance(states, Projective):
            return Projective(states.direction.to(given), states.log_norm), final
        return states.to(given), final

    def _trajectory(
        self,
        x: Tensor | Tabulated,
        state: State | None,
        lengths: Tensor | None,
        scan: Scan | None,
    ) -> tuple[Tensor | Projective, State]:
        hidden, skip = self._start(x, state)
        increments = self._increments(x, state, skip)
        steps = None if lengths is None else (lengths - skip).clamp_min(0)
        opened = None
        if self.log_ode is not None:
            path = densely(increments)
            if steps is not None and path.shape[1]:
                path = mask_past_end(path, steps)
            opened = open_window(state, x.dtype)
            if path.shape[1] == 0 and not (scan is not None and scan.collective):
                assert self.basis is not None
                states, last = nothing_after(hidden), hidden
                opened = OpenWindow.empty(path, self.basis, self.log_ode.window)
            else:
                states, last, opened = run_windows(self, path, hidden, opened, scan, steps)
        elif increments.shape[1] == 0 and not (scan is not None and scan.collective):
            states, last = nothing_after(hidden), hidden
        elif increments.shape[1] == 0:  # other processes count on this one: a step of zero
            still = densely(increments).new_zeros(x.shape[0], 1, increments.shape[-1])
            weights, driven = self.A(x.dtype), self._affine(still)
            states, last = solve(self.structure, weights, still, hidden, self.flow, scan, driven)
            states = without_steps(states)
        else:
            driven = self._affine(increments)
            weights = self.A(x.dtype)
            states, last = solve(
                self.structure, weights, increments, hidden, self.flow, scan, driven, steps
            )
        if last is hidden and isinstance(hidden, Tensor):
            last = hidden.clone()  # it may be a part of the input, or a parameter
        if skip:
            states = prepend(hidden, states)
        return states, self._final(x, last, state, lengths, opened)

    @property
    def halo(self) -> int:
        """How many elements before a part it must have seen: one for a drive of differences."""
        return 0 if self.drive.pointwise else 1

    def _increments(
        self, x: Tensor | Tabulated, state: State | None, skip: int
    ) -> Tensor | Tabulated:
        """What drives the steps, without the elements that drive none."""
        if isinstance(x, Tabulated):
            return x.map(self.drive).part(skip)
        return self.drive(x, self._previous(x, state))[:, skip:]

    def _previous(self, x: Tensor | Tabulated, state: State | None) -> Tensor | None:
        previous = None if state is None else state.get("previous")
        return None if previous is None else previous.to(x.dtype)

    def _start(self, x: Tensor | Tabulated, state: State | None) -> tuple[Any, int]:
        """The state to start from, and how many elements drive nothing."""
        if state is not None:
            hidden = state["hidden"].to(x.dtype)
            if not self.projective:
                return hidden, 0
            return Projective(hidden, state["log_norm"].to(x.dtype)), 0
        hidden = self._begin(x)
        if self.projective:
            hidden = Projective.of(hidden)
        return hidden, 0 if self.initial.drives_first else 1

    def _begin(self, x: Tensor | Tabulated) -> Tensor:
        """h_0 of the initial state's own kind; of tokens, once for each where they are fewer."""
        weights = self.start(x.dtype)
        if not isinstance(x, Tabulated):
            return self.initial.start(weights, x[:, 0])
        if type(self.initial) is Learned:  # which reads no element: none is looked up
            return self.initial.start(weights, x.table.new_empty(()).expand(x.shape[0], x.shape[2]))
        first = x.part(0, 1)
        if type(self.initial) is FirstInput and x.vocabulary < x.shape[0]:
            table, index = first.with_identity()
            return self.initial.start(weights, table).index_select(0, index[:, 0])
        return self.initial.start(weights, first.dense()[:, 0])

    def _affine(self, increments: Tensor | Tabulated) -> Tensor | None:
        if self.B is None:
            return None
        weight = self.B.to(increments.dtype)
        if isinstance(increments, Tabulated):
            return increments.map(lambda table: table @ weight.t()).dense()
        return increments @ weight.t()

    def _final(
        self,
        x: Tensor | Tabulated,
        last: Any,
        state: State | None,
        lengths: Tensor | None,
        opened: OpenWindow | None,
    ) -> State:
        tensors = {"hidden": last}
        if isinstance(last, Projective):
            tensors = {"hidden": last.direction, "log_norm": last.log_norm}
        if opened is not None:
            tensors |= {"window": opened.signature, "filled": opened.filled}
        if not self.drive.pointwise and isinstance(x, Tensor):
            seen, previous = last_valid(x, lengths), self._previous(x, state)
            if lengths is not None and previous is not None:
                seen = torch.where(lengths.unsqueeze(-1) > 0, seen, previous)
            tensors["previous"] = seen
        return State(tensors)

    def regularisation(self) -> Tensor:
        """Sum of the Frobenius norms of the structure's tensors, the paper's penalty."""
        norms = [torch.linalg.vector_norm(x) for x in self.A.trained()]
        if not norms:
            return next(self.parameters(), torch.empty(0)).new_zeros(())
        return torch.stack(norms).sum()

    def isometry_defect(self, x: Tensor | Tabulated, state: State | None = None) -> Tensor:
        """How far the steps that an input drives are from isometries: the mean of |M^T M - I|².

        Zero for every input where each step keeps all distances between states, so that nothing
        fades or grows. Some steps stand for all, drawn at random, where there are many.

        Args:
            x: (batch, length, channels), or `Tabulated` inputs, all rows of whose table count.
            state: what x goes on from, for the element before it.

        Returns:
            A scalar with a gradient in the parameters and in x.

        Raises:
            ValueError: under `LogODE`, whose steps are windows.
        """
        return isometry_defect(self, x, state)

    def growth(
        self,
        x: Tensor | Tabulated,
        lengths: Lengths | None = None,
        state: State | None = None,
        scan: Scan | None = None,
    ) -> Tensor:
        """How much disturbances of the state grow along an input: the mean of max(0, log |δ_t|²)².

        Steps are linear, so they carry a disturbance δ_0 on as they do a state: δ_t = M_t .. M_1
        δ_0, whatever the state is. Zero where none ever exceeds its initial norm. Disturbances are
        drawn at random, one for each sequence, and some sequences stand for all where there are
        many. Nothing overflows, however long they are.

        Args:
            x: (batch, length, channels), or `Tabulated` inputs.
            lengths: (batch,) integers; a sequence that is over counts with its last step.
            state: what x goes on from, for the element before it.
            scan: how disturbances are carried, or None for the fastest way that applies. Where it
                carries them over parts of sequences on several ranks, each has the mean of its own.

        Returns:
            A scalar with a gradient in the parameters of the steps and in x.

        Raises:
            ValueError: under `LogODE`, whose steps are windows.
        """
        return growth(self, x, lengths, state, scan)

    @property
    def citations(self) -> tuple[str, ...]:
        """Keys of what this layer uses."""
        policies = (p.citations for p in (self.flow, self.scan) if p is not None)
        works = ("walker2025slices", *_structure_citations(self.structure))
        return (*works, *(key for keys in policies for key in keys))

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this layer again, but for its parameters."""
        return {
            "channels": self.channels,
            "structure": self.structure,
            "drive": self.drive,
            "initial": self.initial,
            "flow": self.flow,
            "scan": self.scan,
            "affine": self.B is not None,
            "projective": self.projective,
        }

    def extra_repr(self) -> str:
        """What `print(layer)` shows."""
        shown = {k: v for k, v in self.configuration().items() if v not in (None, False)}
        return ", ".join(f"{k}={v!r}" for k, v in shown.items() if not isinstance(v, nn.Module))


def _structure_citations(structure: Structure) -> tuple[str, ...]:
    """Those of its facts, which a user's own structure need not have, and of a sum's parts."""
    facts = getattr(structure, "facts", None)
    works = () if facts is None else facts.citations
    parts = structure.parts if isinstance(structure, DirectSum) else ()
    return (*works, *(key for part in parts for key in _structure_citations(part)))
