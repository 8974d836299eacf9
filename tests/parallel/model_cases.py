"""What ranks do with sharded mixers and models; see test_models.py."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

import slicekit as sk
from slicekit import mixers
from slicekit.parallel import Ranks, Relay, add_up_gradients, halo, shard
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
