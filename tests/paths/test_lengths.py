"""Padding is exact: it is never read and drives nothing."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slicekit.paths import alike, mask_past_end, pad, valid_mask
from tests.paths.series import quick


@quick
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_the_mask_holds_as_many_elements_as_the_series(lengths: list[int]) -> None:
    mask = valid_mask(lengths, 6)
    assert mask.shape == (len(lengths), 6)
    assert mask.sum(dim=1).tolist() == lengths
    assert torch.equal(mask, mask.cummin(dim=1).values)


@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_padding_reaches_neither_values_nor_gradients(
    trailing: tuple[int, ...], poison: float
) -> None:
    lengths = torch.tensor([3, 0, 5])
    increments = torch.randn(3, 5, *trailing)
    increments[~valid_mask(lengths, 5)] = poison
    increments.requires_grad_()
    masked = mask_past_end(increments, lengths)
    (gradient,) = torch.autograd.grad((masked**2).sum(), increments)
    for row, length in enumerate(lengths.tolist()):
        assert torch.equal(masked[row, :length], increments[row, :length])
        assert torch.equal(gradient[row, :length], 2 * increments[row, :length])
        assert (masked[row, length:] == 0).all()
        assert (gradient[row, length:] == 0).all()


@quick
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_cutting_what_was_padded_gives_the_series_back(sizes: list[int]) -> None:
    series = [torch.randn(size, 2) for size in sizes]
    values, lengths = pad(series)
    assert values.shape == (len(sizes), max(sizes), 2)
    assert lengths.tolist() == sizes
    assert torch.equal(mask_past_end(values, lengths), values)
    for row, one in enumerate(series):
        assert torch.equal(values[row, : sizes[row]], one)


def test_gradients_flow_to_every_padded_series() -> None:
    series = [torch.randn(size, 2, dtype=torch.float64, requires_grad=True) for size in (3, 1)]
    assert torch.autograd.gradcheck(lambda *parts: pad(parts)[0], series)


def test_series_that_make_no_batch_are_named() -> None:
    one = torch.zeros(3, 2)
    with pytest.raises(ValueError, match=r"^series is empty; expected at least one tensor"):
        pad([])
    with pytest.raises(ValueError, match=r"^series\[0\] has shape \(3,\); expected \(length, chan"):
        pad([one[:, 0]])
    with pytest.raises(
        ValueError, match=r"^series\[1\] has shape \(3, 1\); expected \(length, 2\)"
    ):
        pad([one, one[:, :1]])
    with pytest.raises(TypeError, match=r"^series\[1\] has dtype torch.float64, but series\[0\]"):
        pad([one, one.double()])
    with pytest.raises(ValueError, match=r"^series\[1\] is on meta, but series\[0\] is on cpu"):
        pad([one, one.to("meta")])
    with pytest.raises(TypeError, match=r"^series\[1\] is a list; expected a torch.Tensor"):
        pad([one, [[1.0, 2.0]]])  # pyright: ignore[reportArgumentType]


def test_masks_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"^increments has shape \(3,\); expected \(batch, length"):
        mask_past_end(torch.zeros(3), [1, 2, 3])
    with pytest.raises(ValueError, match=r"^lengths has shape \(2,\); expected \(3,\)"):
        mask_past_end(torch.zeros(3, 4, 1), [1, 2])
    with pytest.raises(ValueError, match=r"^lengths has shape \(\); expected \(batch,\)"):
        valid_mask(torch.tensor(2), 4)
    with pytest.raises(ValueError, match=r"^lengths holds 5 at batch 0; expected 0..4"):
        valid_mask([5], 4)


@quick
@given(st.lists(st.integers(0, 10**6), max_size=40))
def test_like_lengths_hold_every_series_once_and_at_most_half_padding(lengths: list[int]) -> None:
    groups = [group.tolist() for group in alike(lengths)]
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        own = [lengths[i] for i in group]
        assert group == sorted(group) and max(own) * len(own) <= 2 * sum(own)
    assert len(groups) <= max(lengths, default=0).bit_length() + 1


def test_padding_that_would_be_enormous_is_refused_with_its_cost() -> None:
    series = [torch.ones(20_000, 1), *[torch.ones(1, 1)] * 2_000]
    with pytest.raises(
        ValueError, match=r"^2001 series .* are 40020000 values \(0\.1 GiB\) for the"
    ):
        pad(series)
    assert pad([series[0], *series[-50:]])[0].shape == (51, 20_000, 1)
