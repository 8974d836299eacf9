"""Whole models: tokens and series, at every position or pooled, in one go or element by element."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from slicekit import (
    Block,
    Differences,
    FirstInput,
    Last,
    Learned,
    Mean,
    Orthogonal,
    SequenceModel,
    SLiCE,
    Wiring,
)
from slicekit.layers import Pooling
from tests.layers.reference import (
    assert_near,
    every_split,
    gradients,
    run_parts,
    run_steps,
)
from tests.market import STRUCTURES

WIDTH, VOCABULARY, CHANNELS, BATCH, LENGTH = 4, 5, 3, 3, 5

POOLS: dict[str, Pooling | None] = {"positions": None, "mean": Mean(), "last": Last()}
KINDS = {"tokens": {"vocabulary": VOCABULARY}, "series": {"channels": CHANNELS}}
MIXERS = {
    "diagonal": lambda width: SLiCE(width, STRUCTURES["diagonal"]),
    "orthogonal": lambda width: SLiCE(width, Orthogonal(width, 4), initial=Learned()),
    "differences": lambda width: SLiCE(
        width,
        STRUCTURES["joint-dplr"],
        drive=Differences(times=0.5),
        initial=FirstInput(drives=True),
        projective=True,
    ),
}

every_pool = pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_mixer = pytest.mark.parametrize("mixer", MIXERS)


def make_model(kind: str = "tokens", mixer: str = "diagonal", **rest: Any) -> SequenceModel:
    settings: dict[str, Any] = {"outputs": 2, "width": WIDTH, "layers": 2, **KINDS[kind], **rest}
    return SequenceModel(mixer=MIXERS[mixer], **settings).double()


def make_sequences(kind: str, batch: int = BATCH, length: int = LENGTH) -> Tensor:
    if kind == "tokens":
        return torch.randint(VOCABULARY, (batch, length))
    return torch.randn(batch, length, CHANNELS, dtype=torch.float64)


def by_hand(model: SequenceModel, x: Tensor) -> Tensor:
    """Embedding, blocks and head, one after the other, on unpadded sequences."""
    if isinstance(model.embedding, nn.Embedding):
        h = model.embedding.weight[x]
    else:
        h = model.embedding(x)
    for block in model.blocks:
        h = block(h)
    h = h if model.pool is None else h.mean(1) if model.pool == Mean() else h[:, -1]
    (head,) = model.heads
    assert isinstance(head, nn.Linear)
    return model.norm(h) @ head.weight.t() + head.bias


@every_kind
@every_mixer
@every_pool
def test_a_model_is_its_parts_one_after_the_other(
    kind: str, mixer: str, pool: Pooling | None
) -> None:
    model, x = make_model(kind, mixer, pool=pool), make_sequences(kind)
    y, expected = model(x), by_hand(model, x)
    assert y.shape == ((BATCH, 2) if pool else (BATCH, LENGTH, 2))
    assert_near(
        {"outputs": y, **gradients(y, model)}, {"outputs": expected, **gradients(expected, model)}
    )


def test_the_last_norm_stands_between_the_stack_and_the_head() -> None:
    model, x = make_model("series", wiring=Wiring.pre_norm()), make_sequences("series")
    assert isinstance(model.norm, nn.RMSNorm)
    nn.init.normal_(model.norm.weight)
    torch.testing.assert_close(model(x), by_hand(model, x))


@every_kind
@every_mixer
@every_pool
def test_parts_and_steps_through_the_stack_are_the_whole(
    kind: str, mixer: str, pool: Pooling | None
) -> None:
    """A pooled model gives, after each part, what it would give for everything so far."""
    model, x = make_model(kind, mixer, pool=pool), make_sequences(kind)
    whole, final = model(x, return_state=True)
    expected = {"outputs": whole, **gradients(whole, model)}
    cuts = [run_parts(model, x, sizes) for sizes in every_split(LENGTH)[::5]]
    outputs, last = run_steps(model, x)
    steps = outputs if pool else [y.unsqueeze(1) for y in outputs]
    for parts, state in [*cuts, (steps, last)]:
        y = parts[-1] if pool else torch.cat(parts, 1)
        assert_near({"outputs": y, **gradients(y, model)}, expected)
        for own, wanted in zip(state, final, strict=True):
            assert_near(own.tensors, wanted.tensors)


@every_kind
@every_mixer
@every_pool
def test_a_padded_batch_is_its_sequences_alone(kind: str, mixer: str, pool: Pooling | None) -> None:
    model, x = make_model(kind, mixer, pool=pool), make_sequences(kind)
    lengths = [2, 5, 1]
    for row, length in zip(x, lengths, strict=True):
        row[length:] = -100 if kind == "tokens" else torch.nan
    together = model(x, lengths=lengths)
    rows = zip(x, lengths, strict=True)
    alone = [model(row[None, :length]) for row, length in rows]
    pairs = zip(together, lengths, strict=True)
    y = together if pool else torch.cat([row[:length] for row, length in pairs])
    expected = torch.cat(alone) if pool else torch.cat([one[0] for one in alone])
    found = gradients(y, model)
    assert all(g.isfinite().all() for g in found.values())
    assert_near({"outputs": y, **found}, {"outputs": expected, **gradients(expected, model)})


@every_pool
def test_padded_parts_go_on_from_where_each_sequence_ended(pool: Pooling | None) -> None:
    model, x = make_model("series", "differences", pool=pool), make_sequences("series")
    lengths = torch.tensor([2, 5, 4])
    first, state = model(x[:, :3], lengths=lengths.clamp_max(3), return_state=True)
    second, state = model(x[:, 3:], state, (lengths - 3).clamp_min(0), return_state=True)
    for b, length in enumerate(lengths.tolist()):
        alone, final = model(x[b : b + 1, :length], return_state=True)
        early, late = min(length, 3), max(length - 3, 0)
        y = second[b] if pool else torch.cat([first[b, :early], second[b, :late]])
        assert_near({"outputs": y}, {"outputs": alone[0]})
        for own, wanted in zip(state.select(torch.tensor([b])), final, strict=True):
            assert_near(own.tensors, wanted.tensors)


@every_pool
def test_several_heads_read_the_same_features(pool: Pooling | None) -> None:
    model, x = make_model(outputs=(2, 7), pool=pool), make_sequences("tokens")
    found, state = model(x, return_state=True)
    assert isinstance(found, list)
    body = {k: v for k, v in model.state_dict().items() if not k.startswith("heads")}
    for head, y in zip(model.heads, found, strict=True):
        single = make_model(outputs=y.shape[-1], pool=pool)
        single.load_state_dict(body | {f"heads.0.{k}": v for k, v in head.state_dict().items()})
        torch.testing.assert_close(single(x), y)
    stepped, _ = model.step(x[:, 0], state)
    assert [y.shape for y in stepped] == [(BATCH, 2), (BATCH, 7)]


def test_one_head_in_a_tuple_is_still_a_list() -> None:
    (found,) = make_model(outputs=(2,))(make_sequences("tokens"))
    assert found.shape == (BATCH, LENGTH, 2)


@pytest.mark.parametrize(
    ("wiring", "given", "expected"),
    [
        (Wiring(), None, nn.Identity),
        (Wiring.pre_norm(), None, nn.RMSNorm),
        (Wiring(), True, nn.LayerNorm),
        (Wiring.pre_norm(), False, nn.Identity),
    ],
)
def test_a_norm_precedes_the_head_of_a_pre_norm_stack(
    wiring: Wiring, given: bool | None, expected: type[nn.Module]
) -> None:
    assert isinstance(make_model(wiring=wiring, final_norm=given).norm, expected)


def test_a_deep_pre_norm_stack_stays_finite_and_trains_all_its_layers() -> None:
    model = make_model(mixer="orthogonal", layers=24, wiring=Wiring.pre_norm())
    x = make_sequences("tokens", length=20)
    y = model(x)
    assert y.isfinite().all() and y.std() < 10
    y.square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all() and parameter.grad.count_nonzero() > 0, name


def test_blocks_of_ones_own_make_a_model_as_well() -> None:
    made = [Block(MIXERS["diagonal"](WIDTH), WIDTH) for _ in range(2)]
    model = SequenceModel(channels=CHANNELS, outputs=2, width=WIDTH, blocks=made).double()
    x = make_sequences("series")
    assert list(model.blocks) == made
    torch.testing.assert_close(model(x), by_hand(model, x))


def test_regularisation_adds_up_all_layers() -> None:
    model = make_model(layers=3)
    layers = [m for m in model.modules() if isinstance(m, SLiCE)]
    assert len(layers) == 3
    expected = torch.stack([layer.regularisation() for layer in layers]).sum()
    torch.testing.assert_close(model.regularisation(), expected)


class Silent(nn.Module):
    """A mixer without a penalty."""

    outputs = WIDTH

    def forward(self, x: Tensor, state: Any, lengths: Any, return_state: bool) -> Any:
        return x, None


def test_regularisation_of_mixers_without_a_penalty_is_zero() -> None:
    model = SequenceModel(channels=2, outputs=1, width=WIDTH, mixer=lambda width: Silent())
    assert model(torch.zeros(1, 2, 2)).shape == (1, 2, 1)
    assert model.regularisation().item() == 0


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("length", [1, LENGTH], ids=["dense", "tabulated"])
def test_tokens_may_be_integers_of_any_size(dtype: torch.dtype, length: int) -> None:
    model, x = make_model(), make_sequences("tokens", length=length)
    assert torch.equal(model(x.to(dtype)), model(x))
    assert torch.equal(model.step(x[:, 0].to(dtype))[0], model.step(x[:, 0])[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_tokens_that_are_no_integers_are_refused(dtype: torch.dtype) -> None:
    model, x = make_model(), make_sequences("tokens").to(dtype)
    with pytest.raises(TypeError, match=rf"x has dtype {dtype}; expected integer tokens"):
        model(x)
    with pytest.raises(TypeError, match=r"expected integer tokens"):
        model.step(x[:, 0])


@pytest.mark.parametrize("token", [-1, VOCABULARY, -100])
def test_a_token_out_of_range_is_named_with_its_place(token: int) -> None:
    model, x = make_model(), make_sequences("tokens")
    x[1, 3] = token
    message = rf"x holds {token} at batch 1, position 3; expected 0\.\.4 for a vocabulary of 5"
    with pytest.raises(ValueError, match=message):
        model(x)
    with pytest.raises(ValueError, match=rf"x holds {token} at batch 1; expected"):
        model.step(x[:, 3])
    with pytest.raises(ValueError, match=message):
        model(x, lengths=[5, 4, 5])
    assert model(x, lengths=[5, 3, 5]).isfinite().all()


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("tokens", (3,), r"x has shape \(3,\); expected \(batch, length\)"),
        ("tokens", (3, 5, 1), r"x has shape \(3, 5, 1\); expected \(batch, length\)"),
        ("series", (3, 5), r"x has shape \(3, 5\); expected \(batch, length, 3\)"),
        ("series", (3, 5, 2), r"x has shape \(3, 5, 2\); expected \(batch, length, 3\)"),
        ("tokens", (3, 0), r"x has length 0"),
        ("series", (3, 0, 3), r"x has length 0"),
    ],
)
def test_an_unfit_shape_is_named(kind: str, shape: tuple[int, ...], expected: str) -> None:
    dtype = torch.int64 if kind == "tokens" else torch.float64
    with pytest.raises(ValueError, match=expected):
        make_model(kind)(torch.zeros(shape, dtype=dtype))


@every_kind
def test_an_unfit_shape_of_one_element_is_named(kind: str) -> None:
    x = make_sequences(kind)
    with pytest.raises(ValueError, match=r"x has shape .*; expected \(batch,"):
        make_model(kind).step(x)


def test_a_state_of_another_model_is_refused() -> None:
    x = make_sequences("tokens")
    _, state = make_model(layers=1)(x, return_state=True)
    with pytest.raises(ValueError, match=r"state has 1 parts; expected 3 for this model"):
        make_model(layers=2, pool=Mean())(x, state)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"channels": 3}, ValueError, r"vocabulary=5, channels=3; expected exactly one"),
        ({"vocabulary": None}, ValueError, r"vocabulary=None, channels=None; expected exactly one"),
        ({"vocabulary": 0}, ValueError, r"vocabulary=0; expected at least 1"),
        ({"width": 0}, ValueError, r"width=0; expected at least 1"),
        ({"layers": 0}, ValueError, r"layers=0; expected at least 1"),
        ({"outputs": 0}, ValueError, r"outputs=0; expected at least 1"),
        ({"outputs": (2, -1)}, ValueError, r"outputs=-1; expected at least 1"),
        ({"outputs": ()}, ValueError, r"outputs=\(\); expected at least one size"),
        ({"outputs": [2]}, TypeError, r"outputs=\[2\] is a list"),
        ({"dropout": 1.5}, ValueError, r"dropout=1.5; expected a probability"),
        ({"mixer": None}, ValueError, r"expected exactly one of mixer and blocks"),
        ({"blocks": []}, ValueError, r"expected exactly one of mixer and blocks"),
        ({"mixer": None, "blocks": []}, ValueError, r"blocks is empty; expected at least one"),
    ],
)
def test_unfit_settings_are_named(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    fit = {"vocabulary": 5, "outputs": 2, "width": WIDTH, "mixer": MIXERS["diagonal"]}
    with pytest.raises(error, match=message):
        SequenceModel(**(fit | settings))
