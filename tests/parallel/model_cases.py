"""What ranks do with sharded mixers and models; see test_models.py."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

import slicekit as sk
from slicekit import mixers
from slicekit.parallel import Ranks, Relay, add_up_gradients, halo, part, shard
from tests.mixers.market import MIXERS
from tests.parallel.scan_cases import _error, bounds

BATCH, LENGTH = 3, 17


def sequence_mesh(group: Any) -> DeviceMesh:
    """All ranks of a group along the sequence."""
    return DeviceMesh.from_group(group, "cpu", mesh_dim_names=("sequence",))


def compare(
    group: Any,
    make: Callable[[], nn.Module],
    x: Tensor,
    lengths: Tensor | None,
    pooled: bool,
    carried: bool = True,
) -> dict[str, float]:
    """Relative errors of outputs, final state (if `carried`) and gradients of a module in parts."""
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    edges = bounds(x.shape[1], count)
    part = slice(edges[rank], edges[rank + 1])

    def run(model: Any, x: Tensor, lengths: Tensor | None, share: float) -> Any:
        source = torch.Generator().manual_seed(3)
        y, state = model(x, lengths=lengths, return_state=True)
        tensors = [t for t in _tensors(state) if t.is_floating_point() and carried]
        total = sum(
            ((t * torch.randn(t.shape, generator=source)).sum() for t in tensors), y.sum() * 0
        )
        places = torch.arange(LENGTH).double().cos() if not pooled else torch.ones(1)
        return y, state, total * share, places

    torch.manual_seed(0)
    whole = make().double()
    y, state, total, places = run(whole, x, lengths, 1.0)
    valid = torch.ones(y.shape[:2], dtype=torch.bool)
    if lengths is not None and not pooled:
        valid = torch.arange(y.shape[1]) < lengths[:, None]
    weights = valid.double() * places if not pooled else torch.ones((*y.shape[:1], 1))
    weights = weights.unsqueeze(-1) if not pooled else weights
    (total + (y * weights).sum()).backward()

    torch.manual_seed(0)
    model = shard(make().double(), sequence_mesh(group))
    own = None if lengths is None else (lengths - part.start).clamp(0, part.stop - part.start)
    z, after, total, _ = run(model, x[:, part], own, 1 / count)
    if pooled:
        loss = total + (z * weights).sum() / count
        found = {"outputs": _error(z, y.detach())}
    else:
        seen = weights[:, part]
        loss = total + (z * seen).sum()
        mask = valid[:, part].unsqueeze(-1)
        found = {"outputs": _error(z * mask, (y[:, part] * mask).detach())}
    loss.backward()
    pairs = zip(_tensors(after), _tensors(state), strict=True) if carried else ()
    for i, (a, b) in enumerate(pairs):
        found[f"state {i}"] = _error(a.double(), b.detach().double())
    add_up_gradients(model, sequence_mesh(group))
    largest = max(float(p.grad.abs().max()) for p in whole.parameters() if p.grad is not None)
    for (name, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
        if q.grad is not None:
            assert p.grad is not None
            found[name] = float((p.grad - q.grad).abs().max()) / largest
    again = make()
    assert again.state_dict().keys() == model.state_dict().keys()
    return found


def _tensors(state: Any) -> list[Tensor]:
    if isinstance(state, sk.State):
        return list(state.tensors.values())
    return [x for own in state for x in _tensors(own)]


def mixer_errors(group: Any, names: list[str]) -> dict[str, float]:
    """The worst error of each mixer, with and without padding."""
    found = {}
    for name in names:
        torch.manual_seed(1)
        make = MIXERS[name]
        x = torch.randn(BATCH, LENGTH, make().channels).double()
        for lengths in (None, torch.tensor([LENGTH, 3, 9])):
            kind = name if lengths is None else f"{name}, padded"
            # What a cache holds of padding is nobody's business, and depends on the parts.
            carried = lengths is None or not name.startswith("attention")
            found[kind] = max(compare(group, make, x, lengths, False, carried).values())
    return found


def _slice(structure: Callable[[int], Any], **options: Any) -> Callable[[int], nn.Module]:
    return lambda width: sk.SLiCE(width, structure(width), **options)


def _model(mixer: Callable[[int], nn.Module], **options: Any) -> Callable[[], nn.Module]:
    known: dict[str, Any] = {"vocabulary": 7, "outputs": 5, "width": 8, "layers": 2} | options
    return lambda: sk.SequenceModel(mixer=mixer, **known)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "first-input": _model(_slice(lambda w: sk.BlockDiagonal(w, 4))),
    "drives": _model(_slice(sk.Dense, initial=sk.FirstInput(drives=True), affine=True)),
    "learned": _model(_slice(sk.Diagonal, initial=sk.Learned()), wiring=sk.Wiring.pre_norm()),
    "projective": _model(_slice(lambda w: sk.DiagonalDense(w, 3), projective=True)),
    "rotations": _model(_slice(lambda w: sk.Orthogonal(w, 4), initial=sk.Learned())),
    "low-rank": _model(_slice(lambda w: sk.JointDPLR(w, 2), flow=sk.Euler())),
    "handed-on": _model(_slice(lambda w: sk.WalshHadamard(w), projective=True)),
    "sparse": _model(_slice(lambda w: sk.Sparse(w, density=0.5), initial=sk.Learned())),
    "differences": _model(
        _slice(lambda w: sk.BlockDiagonal(w, 2), drive=sk.Differences(times=0.1, scale=0.2)),
        vocabulary=None,
        channels=3,
    ),
    "mean": _model(_slice(sk.Dense), pool=sk.Mean()),
    "last": _model(lambda w: mixers.Mamba(w, 4), pool=sk.Last()),
    "mixed": lambda: sk.SequenceModel(
        vocabulary=7,
        outputs=5,
        width=8,
        blocks=[
            sk.Block(mixers.GatedDeltaNet(8, heads=2), 8),
            sk.Block(mixers.LSTM(8, 8), 8),
            sk.Block(sk.SLiCE(8, sk.BlockDiagonal(8, 4)), 8),
        ],
    ),
}


def model_errors(group: Any, names: list[str]) -> dict[str, float]:
    """The worst error of each model, with and without padding."""
    found = {}
    for name in names:
        torch.manual_seed(1)
        shape = (BATCH, LENGTH)
        x = torch.randint(7, shape) if name != "differences" else torch.randn(*shape, 3).double()
        for lengths in (None, torch.tensor([LENGTH, 3, 9])):
            pooled = name in ("mean", "last")
            kind = name if lengths is None else f"{name}, padded"
            found[kind] = max(compare(group, MODELS[name], x, lengths, pooled).values())
    return found


def _log_ode(window: int, **options: Any) -> Callable[[int], nn.Module]:
    flow = sk.LogODE(2, window)
    drive = sk.Differences(times=0.1, scale=0.2)
    return _slice(lambda w: sk.BlockDiagonal(w, 2), drive=drive, flow=flow, **options)


def _blocks(*made: Callable[[int], nn.Module], **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        blocks = [sk.Block(own(4), 4) for own in made]
        return sk.SequenceModel(channels=3, outputs=5, width=4, blocks=blocks, **options)

    return make


PLAIN = _slice(lambda w: sk.BlockDiagonal(w, 2))
WINDOWS: dict[str, tuple[Callable[[], nn.Module], list[int]]] = {
    "windows": (_blocks(_log_ode(3), PLAIN), [1, 4, 13]),
    "projective": (_blocks(_log_ode(2, projective=True, initial=sk.Learned())), [2, 10]),
    "twice": (_blocks(_log_ode(2), _log_ode(3), pool=sk.Mean()), [7, 13]),
    "sparse": (
        _blocks(_slice(lambda w: sk.WalshHadamard(w), flow=sk.LogODE(1, 4)), pool=sk.Last()),
        [5, 9],
    ),
    "nrde": (_blocks(lambda w: mixers.NRDE(w, w, window=3, hidden=5), PLAIN), [4, 10]),
    "log-ncde": (_blocks(PLAIN, lambda w: mixers.LogNCDE(w, w, window=4, hidden=5)), [1, 9]),
}
"""Models with windows, and bounds that fall on their ends."""


def window_errors(group: Any, name: str) -> dict[str, float]:
    """Relative errors of outputs and gradients, with and without padding, by uneven bounds."""
    make, inner = WINDOWS[name]
    count, rank = dist.get_world_size(group), dist.get_rank(group)
    edges = [0, *inner[: count - 1], LENGTH]
    found: dict[str, float] = {}
    for lengths in (None, torch.tensor([LENGTH, 3, 9])):
        torch.manual_seed(1)
        x = torch.randn(BATCH, LENGTH, 3).double()
        torch.manual_seed(0)
        whole: Any = make().double()
        y = whole(x, lengths=lengths)
        pooled = y.ndim == 2
        counts = torch.full((BATCH,), LENGTH) if lengths is None else lengths
        seen = torch.arange(y.shape[1]) < whole.output_lengths(counts)[:, None]
        weights = (
            torch.ones(y.shape).double()
            if pooled
            else (seen * torch.arange(1, y.shape[1] + 1).double().cos())[..., None]
        )
        (y * weights).sum().backward()

        torch.manual_seed(0)
        model: Any = shard(make().double(), sequence_mesh(group))
        start, stop = edges[rank : rank + 2]
        own = None if lengths is None else (lengths - start).clamp(0, stop - start)
        z = model(x[:, start:stop], lengths=own)
        first, last = (n and int(whole.output_lengths(torch.tensor([n]))) for n in (start, stop))
        ahead = slice(None) if pooled else slice(first, last)
        share = weights / count if pooled else weights[:, ahead]
        (z * share).sum().backward()
        kind = "" if lengths is None else "padded "
        mask = torch.ones(1) if pooled else (share != 0)
        expected = y.detach() if pooled else y.detach()[:, ahead]
        found[f"{kind}outputs"] = _error(z * mask, expected * mask) if mask.any() else 0.0
        add_up_gradients(model, sequence_mesh(group))
        largest = max(float(p.grad.abs().max()) for p in whole.parameters() if p.grad is not None)
        for (at, p), q in zip(model.named_parameters(), whole.parameters(), strict=True):
            if q.grad is not None:
                assert p.grad is not None
                found[kind + at] = float((p.grad - q.grad).abs().max()) / largest
    return found


def window_states(group: Any) -> dict[str, float]:
    """A layer from a state inside a window to its final state."""
    torch.manual_seed(0)
    layer: Any = _log_ode(3)(4).double()
    x = torch.randn(BATCH, LENGTH, 4).double()
    _, before = layer(x[:, :3], return_state=True)
    y, after = layer(x[:, 3:], before, return_state=True)
    rank = dist.get_rank(group)
    shard(layer, sequence_mesh(group))
    start, stop = [3, 7, LENGTH][rank : rank + 2]
    z, found = layer(x[:, start:stop], before if rank == 0 else None, return_state=True)
    ahead = slice(0, 2) if rank == 0 else slice(2, None)
    errors = {"outputs": _error(z, y.detach()[:, ahead])}
    return errors | {
        name: _error(found[name].double(), after[name].detach().double()) for name in after.tensors
    }


def window_refusals(group: Any) -> list[str]:
    """What is said of bounds inside a window, of windows in time, and of states."""
    told = []
    mesh, rank = sequence_mesh(group), dist.get_rank(group)
    model = shard(WINDOWS["windows"][0](), mesh)
    time = sk.LogODE(1, sk.Duration(0.5))
    for refused in (
        lambda: model(torch.zeros(2, 5 + rank, 3)),
        lambda: model(torch.zeros(2, 4 if rank == 0 else 5, 3), return_state=True),
        lambda: shard(sk.SLiCE(3, sk.Dense(3), flow=time), mesh),
        lambda: part(mesh, torch.zeros(2, 4, 3), model=model),
    ):
        try:
            refused()
            told.append("nothing")
        except ValueError as error:
            told.append(str(error))
    return told


def halo_errors(group: Any) -> float:
    """Halos of three elements over parts of 1, 2, ... elements: values, and gradients by hand."""
    ranks = Ranks(group)
    edges = bounds(LENGTH, ranks.count)
    x = torch.arange(BATCH * LENGTH * 2).double().view(BATCH, LENGTH, 2).requires_grad_()
    start, stop = edges[ranks.rank : ranks.rank + 2]
    _, elements, counts = halo(ranks, x[:, start:stop], None, 3)
    expected = x.detach()[:, max(0, start - 3) : start]
    assert (counts == expected.shape[1]).all()
    assert torch.equal(elements.detach()[:, : expected.shape[1]], expected)
    elements.sum().backward()
    assert x.grad is not None
    dist.all_reduce(x.grad, group=group)
    wanted = torch.zeros(LENGTH)
    for edge in edges[1:-1]:
        wanted[max(0, edge - 3) : edge] += 1
    return float((x.grad - wanted[:, None]).abs().max())


def relayed(group: Any, projective: bool) -> dict[str, float]:
    """A structure whose transitions can't be sent, with states handed on."""
    from tests.market import STRUCTURES
    from tests.parallel.scan_cases import _weighed, answer
    from tests.scans.problems import Problem, Setting, with_gradients

    problem = Problem.make(STRUCTURES["dplr"], Setting(projective=projective, padded=True), LENGTH)
    edges, rank = bounds(LENGTH, dist.get_world_size(group)), dist.get_rank(group)
    whole = with_gradients(
        lambda leaves: answer(problem, leaves, slice(0, LENGTH), None, sk.Chunked()),
        problem.leaves,
    )
    part = slice(edges[rank], edges[rank + 1])
    return _weighed(problem, part, None, Relay(group), whole, dist.get_world_size(group))


def asked_alone(group: Any) -> dict[str, float]:
    """Gradients of parameters alone, which no state leads to: of a relay, and of an LSTM."""
    edges, rank = bounds(LENGTH, dist.get_world_size(group)), dist.get_rank(group)
    part = slice(edges[rank], edges[rank + 1])
    torch.manual_seed(1)
    x = torch.randn(BATCH, LENGTH, 3).double()
    structure, start = sk.DPLR(4, 1), torch.randn(BATCH, 4).double()
    drawn = {k: p.double().requires_grad_() for k, p in structure.init(3).items()}
    whole, own = mixers.LSTM(3, 4).double(), mixers.LSTM(3, 4).double()
    own.load_state_dict(whole.state_dict())
    shard(own, sequence_mesh(group))

    def solved(steps: slice, scan: Any) -> Tensor:
        return sk.solve(structure, drawn, x[:, steps], start, scan=scan)[0]

    found = {}
    for name, outputs, trained, expected, weights in (
        ("relay", solved(part, Relay(group)), drawn.values(), solved(slice(None), None), None),
        ("lstm", own(x[:, part]), own.parameters(), whole(x), whole.parameters()),
    ):
        pairs = zip(
            torch.autograd.grad(outputs.pow(3).sum(), [*trained]),
            torch.autograd.grad(expected.pow(3).sum(), [*(weights or trained)]),
            strict=True,
        )
        for number, (share, gradient) in enumerate(pairs):
            share = share.contiguous()
            dist.all_reduce(share, group=group)
            found[f"{name} {number}"] = _error(share, gradient)
    return found
