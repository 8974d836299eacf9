"""The mLSTM: against the package of its authors, transformers, and the equations of the paper."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from slicekit.mixers.headwise import UNSEEN
from slicekit.mixers.mlstm import MLSTM, matrix_memory
from tests.mixers.agreement import assert_agrees, shared_leaves
from tests.mixers.xlstm_peer import (
    assert_same,
    from_package,
    give_weights,
    mlstm_layer,
    mlstm_names,
    mlstm_pair,
)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-11), (torch.float32, 1e-3)])
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_authors_layer(bias: bool, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    ours, theirs = mlstm_pair(16, 4, 20, bias, dtype)
    assert_same(ours, theirs, mlstm_names, torch.randn(3, 20, 16, dtype=dtype), tolerance)


def test_it_goes_on_where_the_authors_layer_ends() -> None:
    """1000 elements for a layer of theirs that was made for 64; theirs made for 1064 agrees."""
    torch.manual_seed(0)
    short, long = mlstm_layer(8, 2, 64), mlstm_layer(8, 2, 1064).double()
    ours = MLSTM(8, 2).double()
    give_weights(ours, mlstm_names({k: p.detach() for k, p in long.named_parameters()}))
    x = torch.randn(1, 1064, 8, dtype=torch.float64)
    with pytest.raises(RuntimeError):
        short(x.float())
    first, state = ours(x[:, :64], return_state=True)
    y = torch.cat([first, ours(x[:, 64:], state)], 1)
    assert torch.allclose(y, long(x), rtol=0, atol=1e-11)


def problem(length: int = 32, dim: int = 6) -> dict[str, Any]:
    """A memory of 2 heads and a batch of 3, in the middle of its life."""
    batch, heads, dtype = 3, 2, torch.float64

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=dtype)

    found = {name: normal(batch, length, heads, dim) for name in ("queries", "keys", "values")}
    found |= {f"{name}_gate": 2 * normal(batch, length, heads) for name in ("input", "forget")}
    found |= {"memory": normal(batch, heads, dim, dim + 1), "stabiliser": normal(batch, heads)}
    return {name: x.requires_grad_() for name, x in found.items()}


def by_the_paper(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    input_gate: Tensor,
    forget_gate: Tensor,
    memory: Tensor,
    stabiliser: Tensor,
) -> tuple[Tensor, ...]:
    """Equations 19 to 27, which have no stabiliser: the state's memory is C exp(-m)."""
    scale = stabiliser.exp()[..., None, None]
    c, n = memory[..., :-1].mT * scale, memory[..., -1:] * scale
    found = []
    for t in range(keys.shape[1]):
        q, v = queries[:, t, :, :, None], values[:, t, :, :, None]
        k = keys[:, t, :, :, None]
        i = input_gate[:, t, :, None, None].exp()
        f = forget_gate[:, t, :, None, None].sigmoid()
        c = f * c + i * v @ k.mT
        n = f * n + i * k
        q = q / q.shape[-2] ** 0.5
        found.append((c @ q / (n.mT @ q).abs().clamp_min(1.0)).squeeze(-1))
    return torch.stack(found, 1), torch.cat([c.mT, n], -1)


def test_without_its_stabiliser_it_is_the_papers() -> None:
    torch.manual_seed(0)
    given = problem()

    def ours() -> tuple[Tensor, ...]:
        read, memory, m = matrix_memory(**given, eps=0.0)
        return read, memory * m.exp()[..., None, None]

    assert_agrees(ours, lambda: by_the_paper(**given), shared_leaves(**given), 1e-11)


def split(given: dict[str, Tensor]) -> dict[str, Any]:
    """Arguments as other implementations order them, heads before time."""
    order = ("queries", "keys", "values", "input_gate", "forget_gate")
    found: dict[str, Any] = {name: given[name].transpose(1, 2) for name in order}
    return found | {"c": given["memory"][..., :-1], "n": given["memory"][..., -1]}


def ours_of(given: dict[str, Any]) -> tuple[Tensor, ...]:
    read, memory, m = matrix_memory(**given)
    return read.transpose(1, 2), memory[..., :-1], memory[..., -1], m


def test_it_is_the_authors_chunkwise_form_with_its_states() -> None:
    backends = from_package("xlstm.blocks.mlstm.backends")
    torch.manual_seed(0)
    given = problem()

    def theirs() -> tuple[Tensor, ...]:
        s = split(given)
        read, (c, n, m) = backends.chunkwise_simple(
            *(s[name] for name in ("queries", "keys", "values")),
            s["input_gate"],
            s["forget_gate"],
            s["c"],
            s["n"],
            given["stabiliser"],
            chunk_size=8,
            return_last_state=True,
        )
        return read, c, n, m.flatten(2).squeeze(-1)

    assert_agrees(lambda: ours_of(given), theirs, shared_leaves(**given), 1e-11)


def transformers_xlstm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """transformers' own mLSTM, which it hides where the xlstm package is installed."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is a peer; PEERS=1 make test installs it"
    )
    monkeypatch.setattr(transformers.utils, "is_xlstm_available", lambda: False)
    path = Path(transformers.__file__).parent / "models" / "xlstm" / "modeling_xlstm.py"
    name = "transformers.models.xlstm.modeling_native"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_it_is_the_recurrence_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = transformers_xlstm(monkeypatch)
    torch.manual_seed(0)
    given = problem()

    def theirs() -> tuple[Tensor, ...]:
        s = split(given)
        read, (c, n, m) = module.mlstm_recurrent_sequence_native(
            query=s["queries"],
            key=s["keys"],
            value=s["values"],
            igate=s["input_gate"],
            fgate=s["forget_gate"],
            c_initial=s["c"],
            n_initial=s["n"],
            m_initial=given["stabiliser"].unsqueeze(-1),
            return_last_states=True,
            dtype_state=torch.float64,
        )
        return read, c, n, m.squeeze(-1)

    assert_agrees(lambda: ours_of(given), theirs, shared_leaves(**given), 1e-11)


def test_a_large_head_is_the_same_whole_and_in_parts() -> None:
    """300 elements of a head of 128 run in chunks of products, parts of 100 one by one."""
    torch.manual_seed(0)
    given = problem(300, dim=128)
    carried = {name: given[name] for name in ("memory", "stabiliser")}
    along = {name: x for name, x in given.items() if name not in carried}

    def in_parts() -> tuple[Tensor, ...]:
        memory, m, found = carried["memory"], carried["stabiliser"], []
        for first in range(0, 300, 100):
            part: dict[str, Any] = {n: x[:, first : first + 100] for n, x in along.items()}
            read, memory, m = matrix_memory(**part, memory=memory, stabiliser=m)
            found.append(read)
        return torch.cat(found, 1), memory, m

    assert_agrees(lambda: matrix_memory(**given), in_parts, shared_leaves(**given), 1e-9)


def test_what_is_past_the_end_leaves_memory_and_stabiliser_alone() -> None:
    torch.manual_seed(0)
    given = problem(9)
    _, memory, m = matrix_memory(**given, lengths=torch.tensor([0, 4, 9]))
    assert torch.equal(memory[0], given["memory"][0])
    assert torch.equal(m[0], given["stabiliser"][0])
    carried = ("memory", "stabiliser")
    cut = {name: x[1:2] if name in carried else x[1:2, :4] for name, x in given.items()}
    _, expected, expected_m = matrix_memory(**cut)
    assert torch.allclose(memory[1], expected[0], rtol=1e-13, atol=0)
    assert torch.allclose(m[1], expected_m[0], rtol=1e-13, atol=0)


def test_an_empty_first_part_stays_unseen() -> None:
    mixer = MLSTM(8, multiple=8)
    x = torch.randn(2, 5, 8)
    _, state = mixer(x, lengths=torch.tensor([0, 0]), return_state=True)
    assert (state["stabiliser"] == UNSEEN).all() and (state["hidden"] == 0).all()
    assert torch.equal(mixer(x, state), mixer(x))


@pytest.mark.parametrize("input_bias", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("forget_bias", [-1e4, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_gates_give_finite_gradients(
    input_bias: float, forget_bias: float, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    mixer = MLSTM(8, heads=2, multiple=8).to(dtype)
    with torch.no_grad():
        mixer.gates.bias[:2] = input_bias
        mixer.gates.bias[2:] = forget_bias
        mixer.gates.weight.normal_(std=5.0)
    x = torch.randn(3, 12, 8, dtype=dtype, requires_grad=True)
    y, state = mixer(x, lengths=torch.tensor([12, 0, 5]), return_state=True)
    total = y.square().sum() + state["hidden"].square().sum()
    found = torch.autograd.grad(total, [x, *mixer.parameters()])
    assert all(g.isfinite().all() for g in (y, *found))


def test_closed_forget_gates_see_the_last_element_only() -> None:
    torch.manual_seed(0)
    mixer = MLSTM(8, heads=2, kernel=1, multiple=8).double()
    with torch.no_grad():
        mixer.gates.bias[2:] = -1e4
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    alone = torch.cat([mixer(x[:, t : t + 1]) for t in range(6)], 1)
    assert torch.allclose(mixer(x), alone, rtol=1e-12, atol=1e-14)


def test_a_long_sequence_stays_finite() -> None:
    mixer = MLSTM(4, heads=2, multiple=8)
    x = torch.randn(1, 16384, 4, requires_grad=True)
    y = mixer(x)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    assert y.isfinite().all() and gradient.isfinite().all()


def test_it_is_initialised_as_the_authors_do_it() -> None:
    torch.manual_seed(0)
    theirs = mlstm_layer(48, 4, 8)
    expected = mlstm_names(dict(theirs.named_parameters()))
    give_weights(MLSTM(48), expected)  # the shapes are the same
    for name, found in MLSTM(48).named_parameters():
        wanted = expected[name] + ("norm" in name)
        if name == "gates.bias":
            assert torch.equal(found[4:], wanted[4:])
        elif wanted.std() == 0:
            assert torch.equal(found, wanted)
        else:
            assert torch.isclose(found.std(), wanted.std(), rtol=0.15), name
