"""A whole model on sequences that are split over ranks.

Most of a model works on each element by itself, and needs nothing. What looks back is a layer's
mixer, and the pooling:

- a `SLiCE`, and a mixer whose recurrence is linear, gets a `Sharded` scan, and a halo where it has
  a drive of differences or a short convolution;
- a structure whose products can't be sent, and a mixer that is not linear, gets the state of the
  rank before (`relay`);
- a pooling gets that of the rank before as well, and its result is sent to all;
- a layer with windows does the same with one step a window: parts have to end where windows do.

Hooks do it while the model is called, so that its parts, its parameters and its checkpoints stay
what they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from slicekit.flows import resolve
from slicekit.layers import SLiCE
from slicekit.layers.norms import SequenceBatchNorm
from slicekit.layers.pooling import Pooling
from slicekit.layers.state import State, States
from slicekit.mixers.base import Mixer
from slicekit.parallel.halos import halo
from slicekit.parallel.ranks import Ranks
from slicekit.parallel.relay import Relay, enter, from_last, leave
from slicekit.parallel.sharded import Sharded
from slicekit.parallel.shards import leaves_of
from slicekit.parallel.windows import Bounds, check_windows, closing
from slicekit.paths import Tabulated
from slicekit.paths.cutting import OpenWindow
from slicekit.scans import Scan
from slicekit.scans.sources import Made

SEQUENCE, DATA = "sequence", "data"
"""Names of a mesh's dimensions."""


def shard(model: nn.Module, mesh: Any) -> nn.Module:
    """Let a model run on sequences that are split along one dimension of a mesh.

    Every rank of that dimension calls the model with its own part of the same sequences, in order:
    parts may have different lengths, at least 1, and `lengths` count a part's own elements (see
    `part`). It gets the outputs of its part; pooled outputs, and with return_state the state after
    the whole sequences, come out the same on all ranks. A state that is passed in counts on the
    first rank.

    Losses of ranks add up. Sum gradients over all ranks of the mesh (see `add_up_gradients`), and
    divide a loss of pooled outputs by their number. Every rank must call backward on something that
    its outputs are part of.

    Args:
        model: a `SequenceModel`, or any module whose mixers have the contract of `SLiCE`. It is
            changed in place; parameters and their names stay.
        mesh: a `torch.distributed.device_mesh.DeviceMesh` with a dimension "sequence". Ranks along
            its other dimensions, such as "data", have other sequences.

    Returns:
        The model.

    Raises:
        ValueError: if the mesh has no such dimension, or a layer has windows in time (`Duration`)
            or takes statistics over positions (`BatchNorm`).
    """
    _attach(model, mesh)
    return model


@contextmanager
def while_sharded(model: nn.Module, mesh: Any) -> Iterator[None]:
    """As `shard`, while the context lasts."""
    handles = _attach(model, mesh)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _attach(model: nn.Module, mesh: Any) -> list[Any]:
    """The hooks of a model's layers and its own."""
    ranks = Ranks(_group(mesh))
    mixers = list(_mixers(model))
    for name, module in model.named_modules():
        if isinstance(module, SequenceBatchNorm):
            raise ValueError(
                f"model: {name} takes the mean over all positions of a batch, which no rank has; "
                "use LayerNorm() or RMSNorm()"
            )
        if isinstance(module, SLiCE | Mixer) and getattr(module, "windowed", False):
            check_windows(name, module)
    if not mixers:
        raise ValueError(f"model: {type(model).__name__} has no SLiCE and no mixer to be sharded")
    handles: list[Any] = []
    for mixer in mixers:
        part = _Linear(ranks) if _is_linear(mixer) else _Handed(ranks)
        if getattr(mixer, "windowed", False):
            handles.append(Bounds(ranks, mixer))
        handles += [
            mixer.register_forward_pre_hook(part.before, with_kwargs=True),
            mixer.register_forward_hook(part.after, with_kwargs=True, always_call=True),
        ]
    whole = _Whole(ranks, any(getattr(x, "windowed", False) for x in mixers))
    return [
        *handles,
        model.register_forward_pre_hook(whole.before, with_kwargs=True, prepend=True),
        model.register_forward_hook(whole.after, with_kwargs=True, always_call=True),
    ]


def part(
    mesh: Any, x: Tensor, lengths: Tensor | None = None, model: nn.Module | None = None
) -> tuple[Tensor, Tensor | None]:
    """This rank's part of some sequences, of nearly equal lengths.

    Args:
        mesh: as for `shard`.
        x: (batch, length, ...), the whole sequences, the same on all ranks of the dimension.
        lengths: (batch,) int64, or None.
        model: that will be given the parts, if it has windows, where the parts then end.

    Returns:
        (batch, some, ...), and how many elements of it count, (batch,) int64 or None.

    Raises:
        ValueError: if there are fewer elements, or windows, than ranks.
    """
    ranks = Ranks(_group(mesh))
    start, stop = place(x.shape[1], ranks.rank, ranks.count, model)
    here = None if lengths is None else (lengths - start).clamp(0, stop - start)
    return x[:, start:stop], here


def place(length: int, rank: int, count: int, model: nn.Module | None = None) -> tuple[int, int]:
    """The first element of a rank's part, and the one after its last.

    Raises:
        ValueError: if there are fewer elements than ranks, or places where all windows end.
    """
    if length < count:
        raise ValueError(
            f"length {length} can't be split over {count} ranks; expected at least one element each"
        )
    first, every = (1, 1) if model is None else closing(_mixers(model))
    edges = [0, *(first + _nearest(r * length // count - first, every) for r in range(1, count))]
    if edges != sorted(set(edges)) or edges[-1] >= length:
        raise ValueError(
            f"length {length} can't be split over {count} ranks where windows end: after {first} "
            f"elements, and every {every} from there on; expected one such place for each rank"
        )
    edges.append(length)
    return edges[rank], edges[rank + 1]


def _nearest(x: int, every: int) -> int:
    """The multiple that is nearest, at least 0."""
    return max(0, (x + every // 2) // every * every)


def add_up_gradients(model: nn.Module, mesh: Any) -> None:
    """Replace each parameter's gradient by the sum over all ranks of a mesh, by one collective.

    Args:
        model: whose parameters every rank holds in full.
        mesh: as for `shard`.
    """
    groups = [mesh.get_group(name) for name in mesh.mesh_dim_names]
    trained = [x for x in model.parameters() if x.requires_grad]
    gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in trained]
    row = torch.cat(
        [x.reshape(-1).float() if x.dtype.itemsize < 4 else x.reshape(-1) for x in gradients]
    )
    for group in groups:
        row = Ranks(group).add_up("gradients", row)
    for x, total in zip(trained, row.split([x.numel() for x in trained]), strict=True):
        x.grad = total.view_as(x).to(x.dtype).clone()


def _group(mesh: Any) -> Any:
    names = getattr(mesh, "mesh_dim_names", None)
    if names is None or SEQUENCE not in names:
        raise ValueError(
            f"mesh has the dimensions {names}; expected a DeviceMesh with one named {SEQUENCE!r}"
        )
    return mesh.get_group(SEQUENCE)


def _mixers(model: nn.Module) -> list[nn.Module]:
    """The outermost layers that look back."""
    if isinstance(model, SLiCE | Mixer):
        return [model]
    return [mixer for child in model.children() for mixer in _mixers(child)]


def _is_linear(mixer: nn.Module) -> bool:
    if isinstance(mixer, Mixer):
        return mixer.linear
    assert isinstance(mixer, SLiCE)
    first = next(mixer.parameters(), torch.empty(0))
    held_in = mixer.A.held_in(torch.get_default_dtype())
    structure, flow, weights = mixer.structure, mixer.flow, mixer.A(held_in)
    channels = mixer.drive.channels(mixer.channels)
    with suppress(ValueError), torch.no_grad():
        if mixer.log_ode is not None:
            assert mixer.basis is not None
            weights, channels = structure.lift_parameters(weights, mixer.basis), mixer.basis.size
            structure, flow = mixer.log_ode.lift(structure), mixer.log_ode.flow
        path = first.new_zeros(1, 1, channels, dtype=held_in)
        leaves_of(Made(structure, resolve(structure, flow), weights, path))
        return True
    return False


def scan_for(mixer: nn.Module, mesh: Any) -> Scan:
    """How a layer's recurrence is carried over the ranks that hold parts of its sequences.

    Args:
        mixer: a `SLiCE`, or a mixer with a state.
        mesh: as for `shard`.
    """
    group = _group(mesh)
    return Sharded(group) if _is_linear(mixer) else Relay(group)


class _Call:
    """The arguments of a layer's `forward`, however they were passed."""

    def __init__(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        names = ("x", "state", "lengths", "return_state")
        given = dict(zip(names, arguments, strict=False)) | named
        self.x: Any = given["x"]
        self.state, self.lengths = given.get("state"), given.get("lengths")
        self.return_state = given.get("return_state", False)
        if self.lengths is not None:
            self.lengths = torch.as_tensor(self.lengths, device=self.x.device)

    def with_state(self, state: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (self.x, state, self.lengths, True), {}


class _Linear:
    """Hooks that give a layer a sharded scan and, after the first rank, a state to go on from."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.held: list[tuple[bool, Scan | None]] = []

    def before(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        call = _Call(arguments, named)
        state, before = call.state, None
        if module.halo:
            x = call.x if isinstance(call.x, Tensor) else call.x.dense()
            call.x, *before = halo(self.ranks, x, call.lengths, module.halo)
        if not self.ranks.first:
            state = _going_on(module, call.x, before)
        self.held.append((call.return_state, module.scan))
        module.scan = Sharded(self.ranks.group)
        return call.with_state(state)

    def after(self, module: Any, arguments: Any, named: Any, outputs: Any) -> Any:
        if not self.held:  # the hook before has failed
            return None
        wanted, module.scan = self.held.pop()
        return outputs if wanted or outputs is None else outputs[0]


def _going_on(module: Any, x: Any, before: list[Tensor] | None) -> State | None:
    """A state after some elements; its hidden state is no matter, as it comes by the scan.

    Args:
        module: a layer.
        x: (batch, length, channels), this rank's part.
        before: the elements of the halo, (batch, size, channels), and how many count, (batch,).
    """
    if isinstance(module, SLiCE):
        return _started(module, x, None if before is None else before[0][:, -1])
    return None if before is None else module.forward(before[0], None, before[1], True)[1]


def _started(layer: SLiCE, x: Any, previous: Tensor | None) -> State:
    """A state under which no element is special."""
    real = layer.A.held_in(x.dtype)
    hidden = torch.zeros(x.shape[0], layer.structure.dim, dtype=real, device=x.device)
    tensors = {"hidden": hidden + _nothing_of_start(layer)}
    if layer.projective:
        tensors["log_norm"] = hidden[:, 0]
    if previous is not None:
        tensors["previous"] = previous
    if layer.log_ode is not None:
        assert layer.basis is not None
        opened = OpenWindow.empty(hidden.unsqueeze(1), layer.basis, layer.log_ode.window)
        tensors |= {"window": opened.signature, "filled": opened.filled}
    return State(tensors)


def _nothing_of_start(layer: SLiCE) -> Tensor:
    """Zero, made of what only the first rank's state starts from.

    So its parameters have a gradient on every rank, zero on these: engines that spread parameters
    expect one.
    """
    return 0 * torch.stack([x.sum() for x in layer.start.trained()]).sum()


class _Handed:
    """Hooks that give a layer the state of the rank before, and send its own on."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.wanted: list[bool] = []

    def before(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        call = _Call(arguments, named)
        given = None if call.state is None else call.state.tensors
        if isinstance(call.x, Tensor):
            call.x, tensors = enter(self.ranks, call.x, given, module.parameters())
        else:
            table, tensors = enter(self.ranks, call.x.table, given, module.parameters())
            call.x = Tabulated(table, call.x.index)
        self.wanted.append(call.return_state)
        if tensors is not None and isinstance(module, SLiCE) and not self.ranks.first:
            tensors["hidden"] = tensors["hidden"] + _nothing_of_start(module)
        if tensors is not None and getattr(module, "windowed", False) and not self.ranks.first:
            tensors |= {name: torch.zeros_like(tensors[name]) for name in ("window", "filled")}
        return call.with_state(None if tensors is None else State(tensors))

    def after(self, module: Any, arguments: Any, named: Any, outputs: Any) -> Any:
        wanted = self.wanted.pop() if self.wanted else False
        if outputs is None:
            return None
        y, state = outputs
        (y,) = leave(self.ranks, (y,), state.tensors)
        return (y, state) if wanted else y


class _Pooled(Pooling):
    """A pooling over all ranks."""

    def __init__(self, pool: Pooling, ranks: Ranks) -> None:
        self.pool, self.ranks = pool, ranks

    def __call__(
        self, x: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        x, tensors = enter(self.ranks, x, None if state is None else state.tensors)
        y, after = self.pool(x, None if tensors is None else State(tensors), lengths)
        (y,) = leave(self.ranks, (y,), after.tensors)
        _, told = from_last(self.ranks, (y,), {"pooled": y})
        return told["pooled"], after


class _Whole:
    """Hooks of the model: pooling over ranks while it is called, and its final state on all."""

    def __init__(self, ranks: Ranks, windowed: bool) -> None:
        self.ranks, self.windowed = ranks, windowed
        self.held: list[tuple[Any, bool]] = []

    def before(self, module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        pool, call = getattr(module, "pool", None), _Call(arguments, named)
        alone = _mixers(module) == [module] and call.lengths is None
        if call.return_state and self.windowed and not alone:
            raise ValueError(
                "return_state=True with windows: those that sequences leave open may lie on any "
                "rank; ask for the state of a layer alone, without lengths"
            )
        self.held.append((pool, call.return_state))
        if pool is not None:
            module.pool = _Pooled(pool, self.ranks)

    def after(self, module: Any, arguments: Any, named: Any, outputs: Any) -> Any:
        pool, wanted = self.held.pop() if self.held else (None, False)
        if pool is not None:
            module.pool = pool
        if not wanted or outputs is None:
            return outputs
        y, states = outputs
        return _final(self.ranks, y, states)


def _final(ranks: Ranks, y: Any, states: Any) -> Any:
    """The last rank's state on all ranks."""
    if isinstance(states, State):
        (y,), tensors = from_last(ranks, (y,), states.tensors)
        return y, State(tensors)
    after: list[Any] = []
    for state in states:
        y, state = _final(ranks, y, state)
        after.append(state)
    return y, States(after)
