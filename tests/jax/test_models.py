"""Whole models: what torch saved JAX computes, whole and in parts, and the reverse."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import slicekit as sk
import slicekit.jax as sj
from slicekit import catalogue, tasks
from slicekit.jax.serialisation import named_arrays

MODELS: dict[str, Any] = {
    "tokens": lambda: sk.SequenceModel(
        vocabulary=5,
        outputs=(3, 2),
        width=4,
        layers=2,
        mixer=lambda width: sk.SLiCE(width, sk.Orthogonal(width, 2)),
    ),
    "deep": lambda: sk.SequenceModel(
        channels=3,
        outputs=2,
        width=4,
        layers=1,
        mixer=lambda width: sk.SLiCE(
            width, sk.DirectSum(sk.Sparse(4, density=0.4), sk.Diagonal(2)), projective=True
        ),
        wiring=sk.Wiring.pre_norm(2),
        pool=sk.Mean(),
    ),
    "series": lambda: sk.SequenceModel(
        channels=3,
        embed=False,
        outputs=2,
        width=4,
        blocks=[
            sk.SLiCE(
                3,
                sk.BlockDiagonal(blocks=[3, 1]),
                drive=sk.Differences(0.5),
                initial=sk.Learned(),
                affine=True,
                flow=sk.Euler(),
                scan=sk.Native(),
            )
        ],
        pool=sk.Last(),
    ),
}


def inputs(model: Any) -> torch.Tensor:
    if model.vocabulary is not None:
        return torch.randint(model.vocabulary, (3, 6))
    return torch.randn(3, 6, model.channels).double()


def arrays(x: Any) -> list[np.ndarray]:
    found = x if isinstance(x, list) else [x]
    return [np.asarray(y.detach() if isinstance(y, torch.Tensor) else y) for y in found]


def assert_same(found: Any, want: Any, tolerance: float = 1e-10) -> None:
    for a, b in zip(arrays(found), arrays(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_torch_computes_the_same_in_jax(name: str, tmp_path: Path) -> None:
    theirs = MODELS[name]().double().eval()
    sk.save(theirs, tmp_path / "model.safetensors")
    model = sj.load(tmp_path / "model.safetensors")
    x = inputs(theirs)
    given, lengths = jnp.asarray(x.numpy()), [6, 4, 1]
    whole = theirs(x)
    assert_same(jax.jit(lambda m, x: m(x))(model, given), whole)
    if theirs.pool is not None:
        padded = jax.jit(lambda m, x: m(x, lengths=jnp.array(lengths)))(model, given)
        assert_same(padded, theirs(x, lengths=lengths))

    @jax.jit
    def in_parts(model: Any, x: Any) -> Any:
        _, state = model(x[:, :5], return_state=True)
        return model.step(x[:, 5], state)[0]

    last = whole if theirs.pool is not None else [h[:, 5] for h in arrays(whole)]
    assert_same(in_parts(model, given), last)
    np.testing.assert_allclose(model.regularisation(), theirs.regularisation().detach(), rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_jax_computes_the_same_in_torch(name: str, tmp_path: Path) -> None:
    theirs = MODELS[name]().double().eval()
    sk.save(theirs, tmp_path / "model.safetensors")
    sj.save(sj.load(tmp_path / "model.safetensors"), tmp_path / "back.safetensors")
    again, x = sk.load(tmp_path / "back.safetensors"), inputs(theirs)
    assert_same(again(x), theirs(x), 0)


def test_gradients_in_every_parameter_are_those_of_torch(tmp_path: Path) -> None:
    theirs = MODELS["deep"]().double()
    sk.save(theirs, tmp_path / "model.safetensors")
    model = sj.load(tmp_path / "model.safetensors")
    x = inputs(theirs)
    (theirs(x) ** 2).sum().backward()
    want = {name: p.grad for name, p in theirs.named_parameters()}

    def loss(model: Any) -> Any:
        return (model(jnp.asarray(x.numpy())) ** 2).sum()

    found = named_arrays(jax.jit(jax.grad(loss, allow_int=True))(model))
    for name, gradient in want.items():
        assert gradient is not None
        np.testing.assert_allclose(found[name], gradient, rtol=1e-9, atol=1e-11, err_msg=name)


def test_single_precision_logits_agree(tmp_path: Path) -> None:
    torch.manual_seed(1)
    theirs = MODELS["tokens"]().eval()
    sk.save(theirs, tmp_path / "model.safetensors")
    x = inputs(theirs)
    model = sj.load(tmp_path / "model.safetensors")
    assert_same(jax.jit(lambda m, x: m(x))(model, jnp.asarray(x.numpy())), theirs(x), 1e-5)


@pytest.mark.parametrize(
    "name", ["orthogonal-slice", "projective-slice", "bd-slice:dim=16,block=4", "dplr-slice"]
)
def test_a_named_model_as_slicekit_train_stores_it_gives_the_same_logits(
    name: str, tmp_path: Path
) -> None:
    task = tasks.make("a5")
    theirs = catalogue.build(name, task, seed=0).eval()
    sk.save(theirs, tmp_path / "model.safetensors")
    model = sj.load(tmp_path / "model.safetensors")
    words = task.sample(2, (6, 6), torch.Generator().manual_seed(0)).inputs
    found = jax.jit(lambda m, x: m(x))(model, jnp.asarray(words.numpy()))
    assert_same(found, theirs(words), 1e-5)


def test_a_run_of_slicekit_train_goes_on_in_jax(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    from tests.cli.calls import succeed

    folder = tmp_path / "run"
    short = ("--steps", "4", "--batch", "4", "--length", "6", "--validation-batches", "1")
    succeed("train", "parity", "--model", "bd-slice:dim=16,block=4", *short, "--out", folder)
    stored = folder / "model.safetensors"
    theirs, model = sk.load(stored).eval(), sj.load(stored)
    tokens = torch.randint(2, (3, 9))
    want = theirs(tokens).detach().numpy()
    found = jax.jit(lambda m, x: m(x))(model, jnp.asarray(tokens.numpy()))
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_dropout_is_at_work_with_a_key() -> None:
    model = sj.SequenceModel(
        channels=2,
        outputs=2,
        width=4,
        mixer=lambda width, key: sj.SLiCE(width, sj.Diagonal(width), key=key),
        dropout=0.5,
        key=jax.random.key(0),
    )
    x = jnp.ones((1, 3, 2), next(iter(named_arrays(model).values())).dtype)
    run = jax.jit(lambda model, key: model(x, key=key))
    once, again = run(model, jax.random.key(1)), run(model, jax.random.key(2))
    assert not np.array_equal(once, again)
    assert not np.array_equal(once, jax.jit(lambda model: model(x))(model))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    sk.save(MODELS["series"](), path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="does not fit its digest"):
        sj.load(path)
    path.write_bytes(bytes(content[:100]))
    with pytest.raises(ValueError, match="damaged or truncated"):
        sj.load(path)
    with pytest.raises(FileNotFoundError, match="no model at"):
        sj.load(tmp_path / "none")


def test_double_precision_is_not_lost_in_silence(tmp_path: Path) -> None:
    sk.save(MODELS["series"]().double(), tmp_path / "model.safetensors")
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ValueError, match="holds float64"):
        sj.load(tmp_path / "model.safetensors")


def test_what_jax_does_not_have_is_named(tmp_path: Path) -> None:
    from slicekit.mixers import LSTM

    sk.save(LSTM(2, 3), tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="it holds a LSTM, which is not in"):
        sj.load(tmp_path / "model.safetensors")


def log_linear(structure: Any, field: dict[str, np.ndarray], matrices: np.ndarray) -> None:
    """The authors' recurrence, written out: I + Σ_k λ_k Ā^k, mean of the states, linear map."""
    random = np.random.default_rng(0)
    dim, channels = structure.dim, len(matrices)
    maps = {
        "start.weight": random.normal(size=(dim, channels)),
        "start.bias": random.normal(size=dim),
        "head.weight": random.normal(size=(2, dim)),
        "head.bias": random.normal(size=2),
    }
    model = sj.from_log_linear_cde(field | maps, structure, depth=2, window=2)
    x = random.normal(size=(1, 5, channels)) * 0.3
    h = maps["start.weight"] @ x[0, 0] + maps["start.bias"]
    states = [h]
    for first, second in (x[0, 1:3] - x[0, 0:2], x[0, 3:5] - x[0, 2:4]):
        step = np.einsum("c,cij->ij", first + second, matrices)
        for i in range(channels):
            for j in range(i + 1, channels):
                area = (first[i] * second[j] - first[j] * second[i]) / 2
                step = step + area * (matrices[j] @ matrices[i] - matrices[i] @ matrices[j])
        h = h + step @ h
        states.append(h)
    want = maps["head.weight"] @ np.mean(states, 0) + maps["head.bias"]
    found = jax.jit(lambda model, x: model(x))(model, jnp.asarray(x))
    np.testing.assert_allclose(found[0], want, rtol=1e-10)


def test_the_authors_parameters_give_their_logits() -> None:
    random = np.random.default_rng(1)
    blocks = random.normal(size=(3, 2 * 2 * 2))
    dense = np.zeros((3, 4, 4))
    dense[:, :2, :2], dense[:, 2:, 2:] = blocks.reshape(3, 2, 2, 2).swapaxes(0, 1)
    log_linear(sj.BlockDiagonal(4, 2), {"vf_A": blocks}, dense)


@pytest.mark.filterwarnings("ignore:LogODE")
def test_the_authors_sparse_and_low_rank_parameters_too() -> None:
    random = np.random.default_rng(2)
    indices = np.array([[0, 0, 1], [1, 2, 2], [0, 1, 1], [2, 0, 0]])
    data, dense = random.normal(size=4), np.zeros((3, 3, 3))
    dense[tuple(indices.T)] = data
    log_linear(sj.Sparse(3, density=0.2), {"data": data, "indices": indices}, dense)
    d, u, v = (random.normal(size=shape) for shape in ((3, 3), (3, 3, 1), (3, 3, 1)))
    dense = np.einsum("ci,ij->cij", d, np.eye(3)) + u @ v.swapaxes(1, 2)
    log_linear(sj.DPLR(3, 1), {"diagonal": d, "left": u, "right": v}, dense)


def test_the_authors_arrays_are_checked() -> None:
    with pytest.raises(ValueError, match=r"missing head.bias, head.weight"):
        sj.from_log_linear_cde({"vf_A": 0, "x": 0}, sj.Dense(2), depth=1, window=1)
    with pytest.raises(TypeError, match="expected one of Dense"):
        sj.from_log_linear_cde({}, sj.Orthogonal(2, 2), depth=1, window=1)
