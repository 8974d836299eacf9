"""A table and an index stand for the array they make."""

from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from slicekit.paths import Tabulated, mask_past_end
from tests.paths.series import quick


@st.composite
def tabulated(draw: st.DrawFn) -> Tabulated:
    """Any sizes, the empty vocabulary included; identities among the tokens."""
    sizes = [st.integers(0, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6)]
    vocabulary, channels, batch, length = draw(st.tuples(*sizes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    table = torch.randn(vocabulary, channels, generator=generator, dtype=torch.float64)
    return Tabulated(table, torch.randint(-1, vocabulary, (batch, length), generator=generator))


def written_out(tokens: Tabulated) -> Tensor:
    """The array, by a loop."""
    zero = torch.zeros(tokens.shape[2]).to(tokens.table)
    rows = [
        torch.stack([tokens.table[token] if token >= 0 else zero for token in series])
        for series in tokens.index.tolist()
    ]
    return torch.stack(rows)


@quick
@given(tabulated())
def test_dense_is_the_array_it_stands_for(tokens: Tabulated) -> None:
    dense = tokens.dense()
    assert torch.equal(dense, written_out(tokens))
    assert dense.shape == tokens.shape
    assert dense.dtype == tokens.dtype == torch.float64
    assert dense.device == tokens.device
    assert tokens.vocabulary == len(tokens.table)


@quick
@given(tabulated())
def test_a_map_of_the_table_is_the_map_of_the_array(tokens: Tabulated) -> None:
    def linear(x: Tensor) -> Tensor:
        return torch.cat([2 * x, -x], dim=-1)

    assert torch.equal(tokens.map(linear).dense(), linear(tokens.dense()))


@quick
@given(tabulated())
def test_the_identity_stays_the_identity(tokens: Tabulated) -> None:
    identity = tokens.index < 0
    dense = tokens.map(lambda table: table.exp()).dense()
    assert (dense[identity] == 0).all()
    assert torch.equal(dense[~identity], tokens.dense()[~identity].exp())


@quick
@given(tabulated(), st.data())
def test_masking_is_masking_the_array(tokens: Tabulated, data: st.DataObject) -> None:
    batch, length, _ = tokens.shape
    lengths = data.draw(st.lists(st.integers(0, length), min_size=batch, max_size=batch))
    assert torch.equal(tokens.masked(lengths).dense(), mask_past_end(tokens.dense(), lengths))


@quick
@given(tabulated(), st.integers(-6, 6), st.none() | st.integers(-6, 6))
def test_a_part_is_a_slice_of_the_array(tokens: Tabulated, start: int, stop: int | None) -> None:
    assert torch.equal(tokens.part(start, stop).dense(), tokens.dense()[:, start:stop])


@quick
@given(tabulated())
def test_the_identity_can_be_a_row_of_its_own(tokens: Tabulated) -> None:
    table, index = tokens.with_identity()
    assert table.shape == (tokens.vocabulary + 1, tokens.shape[2])
    assert torch.equal(table[index], tokens.dense())


def test_gradients_flow_to_the_table() -> None:
    table = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[0, -1, 0, 2], [2, 2, -1, -1]])

    def dense(table: Tensor) -> Tensor:
        return Tabulated(table, index).map(torch.tanh).masked([4, 1]).dense()

    assert torch.autograd.gradcheck(dense, table)
    assert torch.autograd.gradgradcheck(dense, table)


def test_tabulated_compiles_whole() -> None:
    table = torch.randn(3, 2, requires_grad=True)
    index = torch.tensor([[0, -1, 0, 2], [2, 2, -1, -1]])

    def inside(table: Tensor, index: Tensor, lengths: Tensor) -> Tensor:
        tokens = Tabulated(table, index).map(torch.tanh).masked(lengths)
        return tokens.part(1).dense()

    def through(tokens: Tabulated) -> Tabulated:
        return tokens.map(torch.tanh)

    lengths = torch.tensor([4, 1])
    compiled = torch.compile(inside, backend="aot_eager", fullgraph=True)
    expected, actual = inside(table, index, lengths), compiled(table, index, lengths)
    assert torch.equal(actual, expected)
    (expected_gradient,) = torch.autograd.grad(expected.square().sum(), table)
    (actual_gradient,) = torch.autograd.grad(actual.square().sum(), table)
    torch.testing.assert_close(actual_gradient, expected_gradient)

    compiled = torch.compile(through, backend="aot_eager", fullgraph=True)
    tokens = Tabulated(table, index)
    assert torch.equal(compiled(tokens).dense(), through(tokens).dense())


def test_tabulated_maps_over_batches() -> None:
    tables = torch.randn(5, 3, 2)
    index = torch.randint(-1, 3, (5, 2, 4))
    mapped = torch.func.vmap(lambda table, index: Tabulated(table, index).dense())(tables, index)
    for table, one, dense in zip(tables, index, mapped, strict=True):
        assert torch.equal(dense, Tabulated(table, one).dense())


def test_indices_out_of_range_are_located() -> None:
    index = torch.zeros(2, 5, dtype=torch.int64)
    index[0, 3] = 61
    message = "^index holds 61 at batch 0, position 3; expected -1..59 for a table of 60 rows$"
    with pytest.raises(ValueError, match=message):
        Tabulated(torch.zeros(60, 8), index)
    index[0, 3] = -2
    with pytest.raises(ValueError, match=r"^index holds -2 at batch 0, position 3"):
        Tabulated(torch.zeros(60, 8), index)


def test_arguments_that_do_not_fit_are_named() -> None:
    table, index = torch.zeros(60, 8), torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"^table has shape \(60,\); expected \(vocabulary, chan"):
        Tabulated(table[:, 0], index)
    with pytest.raises(TypeError, match=r"^table has dtype torch.int64; expected a floating"):
        Tabulated(table.long(), index)
    with pytest.raises(ValueError, match=r"^index has shape \(2,\); expected \(batch, length\)"):
        Tabulated(table, index[:, 0])
    with pytest.raises(TypeError, match=r"^index has dtype torch.int32; expected torch.int64$"):
        Tabulated(table, index.int())
    with pytest.raises(ValueError, match=r"^index is on meta, but table is on cpu"):
        Tabulated(table, index.to("meta"))
    with pytest.raises(
        ValueError, match=r"^function\(table\) has shape \(59, 8\); expected \(60, "
    ):
        Tabulated(table, index).map(lambda table: table[1:])
    with pytest.raises(ValueError, match=r"^lengths holds 6 at batch 1; expected 0..5"):
        Tabulated(table, index).masked([5, 6])


def test_tabulated_is_frozen_and_equal_only_to_itself() -> None:
    table, index = torch.zeros(2, 1), torch.zeros(1, 3, dtype=torch.int64)
    tokens = Tabulated(table, index)
    with pytest.raises(FrozenInstanceError):
        tokens.table = table  # pyright: ignore[reportAttributeAccessIssue]
    assert tokens == tokens
    assert tokens != Tabulated(table, index)


def test_a_map_that_leaves_the_floating_numbers_is_refused() -> None:
    tokens = Tabulated(torch.ones(2, 1), torch.tensor([[0, 1]]))
    with pytest.raises(TypeError, match=r"function\(table\) has dtype torch.int64"):
        tokens.map(Tensor.long)


def test_what_follows_from_checked_tokens_is_not_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = Tabulated(torch.ones(2, 1), torch.tensor([[0, 1, -1]]))

    def read(*_: object) -> None:
        raise AssertionError("the index is read again")

    monkeypatch.setattr("slicekit.paths.tabulated.check_range", read)
    derived = tokens.map(torch.exp).part(1).masked([1])
    assert derived.index.tolist() == [[1, -1]]
    assert torch.equal(derived.table, torch.ones(2, 1).exp())
