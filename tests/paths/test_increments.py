"""Increments are the path, seen step by step."""

import pytest
import torch
from hypothesis import given
from torch import Tensor

from slicekit.paths import Causal, Filling, LastValue, Linear, increments, with_time
from tests.paths.series import Series, quick, series

NAN = float("nan")
POLICIES: list[Filling | None] = [None, Linear(), LastValue(), Causal()]


@quick
@given(series())
def test_increments_sum_back_to_the_path(drawn: Series) -> None:
    path = with_time(drawn.values, drawn.times)
    steps = increments(drawn.values, drawn.times)
    torch.testing.assert_close(path[:, :1] + steps.cumsum(dim=1), path)
    assert (steps[:, 0] == 0).all()
    from_origin = increments(drawn.values, drawn.times, origin=True)
    torch.testing.assert_close(from_origin.cumsum(dim=1), path)
    assert torch.equal(from_origin[:, 1:], steps[:, 1:])


@quick
@given(series())
def test_time_only_adds_a_channel(drawn: Series) -> None:
    steps = increments(drawn.values, drawn.times)
    assert torch.equal(steps[..., 1:], increments(drawn.values))
    assert torch.equal(steps[..., :1], increments(drawn.times[..., None]))
    shared = increments(drawn.values, drawn.times[0])
    assert torch.equal(shared, increments(drawn.values, drawn.times[:1].expand_as(drawn.times)))


@pytest.mark.parametrize("policy", [Linear(), LastValue(), Causal()])
@quick
@given(drawn=series())
def test_gaps_are_filled_first(policy: Filling, drawn: Series) -> None:
    filled = policy.fill(drawn.with_gaps, drawn.times)
    steps = increments(drawn.with_gaps, drawn.times, gaps=policy)
    assert torch.equal(steps, increments(filled, drawn.times))


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@quick
@given(drawn=series())
def test_lengths_are_truncation(policy: Filling | None, origin: bool, drawn: Series) -> None:
    values = drawn.values if policy is None else drawn.with_gaps
    poisoned = values.masked_fill(drawn.padding[..., None], torch.nan)
    times = drawn.times.masked_fill(drawn.padding, -torch.inf)
    steps = increments(poisoned, times, origin=origin, gaps=policy, lengths=drawn.lengths)
    assert (steps[drawn.padding] == 0).all()
    for row, length in enumerate(drawn.lengths.tolist()):
        if length > 0:
            alone = increments(
                values[row : row + 1, :length],
                drawn.times[row : row + 1, :length],
                origin=origin,
                gaps=policy,
            )
            assert torch.equal(steps[row, :length], alone[0])


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_gradients(policy: Filling | None, origin: bool) -> None:
    values = torch.randn(2, 5, 2, dtype=torch.float64, requires_grad=True)
    times = torch.tensor([0.5, 0.6, 1.0, 1.5, 3.0], dtype=torch.float64, requires_grad=True)
    missing = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)[..., None]

    def steps(values: Tensor, times: Tensor) -> Tensor:
        seen = values if policy is None else values.masked_fill(missing, torch.nan)
        return increments(seen, times, origin=origin, gaps=policy, lengths=[5, 3])

    assert torch.autograd.gradcheck(steps, (values, times))


def test_padding_reaches_no_gradient() -> None:
    values = torch.tensor([[[1.0], [2.0], [NAN], [torch.inf]]], requires_grad=True)
    steps = increments(values, lengths=[2])
    (gradient,) = torch.autograd.grad((steps**2).sum(), values)
    assert torch.equal(gradient.squeeze(), torch.tensor([-2.0, 2.0, 0.0, 0.0]))


def test_large_timestamps_lose_nothing() -> None:
    values = torch.zeros(2, 3, 1)
    expected = torch.tensor([0.0, 1.0, 3.0]).expand(2, 3)
    seconds = torch.tensor([0, 1, 4]) + 1_700_000_000
    assert torch.equal(increments(values, seconds)[..., 0], expected)
    assert torch.equal(increments(values, seconds.double())[..., 0], expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_dtype_is_that_of_the_values(dtype: torch.dtype) -> None:
    values = torch.zeros(2, 3, 1, dtype=dtype)
    assert increments(values).dtype == dtype
    assert increments(values, torch.arange(3)).dtype == dtype
    assert increments(values, torch.arange(3.0).double()).dtype == dtype


def test_one_observation_has_one_increment() -> None:
    values = torch.tensor([[[2.0]]])
    assert increments(values).tolist() == [[[0.0]]]
    assert increments(values, torch.tensor([3.0]), origin=True).tolist() == [[[3.0, 2.0]]]


def test_increments_compile_whole_and_map_over_batches() -> None:
    values, times = torch.randn(4, 2, 6, 3), torch.arange(6.0)
    lengths = torch.tensor([[6, 0], [1, 2], [3, 4], [5, 6]])

    def steps(values: Tensor, times: Tensor, lengths: Tensor) -> Tensor:
        return increments(values, times, gaps=LastValue(), lengths=lengths)

    pairs = zip(values, lengths, strict=True)
    expected = torch.stack([steps(part, times, length) for part, length in pairs])
    mapped = torch.func.vmap(steps, in_dims=(0, None, 0))(values, times, lengths)
    assert torch.equal(mapped, expected)
    compiled = torch.compile(steps, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(values[0], times, lengths[0]), expected[0])


def test_nan_is_no_gap_unless_the_caller_says_so() -> None:
    values = torch.zeros(2, 3, 2)
    values[1, 2, 0] = NAN
    message = r"^values holds NaN at batch 1, position 2, channel 0; .* gaps=Linear\(\), LastValue"
    with pytest.raises(ValueError, match=message):
        increments(values)
    with pytest.raises(ValueError, match=message):
        increments(values, lengths=[0, 3])
    assert (increments(values, lengths=[3, 2]) == 0).all()


def test_infinities_are_no_gaps() -> None:
    values = torch.tensor([[[torch.inf], [0.0], [-torch.inf]]])
    assert torch.equal(increments(values)[0, 1:, 0], torch.tensor([-torch.inf, -torch.inf]))


def test_arguments_that_do_not_fit_are_named() -> None:
    values = torch.zeros(2, 3, 1)
    with pytest.raises(
        ValueError, match=r"^values has shape \(2, 0, 1\); expected a length of at "
    ):
        increments(values[:, :0])
    with pytest.raises(ValueError, match=r"^values has shape \(2, 3\); expected \(batch, length, "):
        increments(values[..., 0])
    with pytest.raises(TypeError, match=r"^values has dtype torch.int64; expected a floating"):
        increments(values.long())
    with pytest.raises(ValueError, match=r"^times has shape \(2,\); expected \(3,\) or \(2, 3\)$"):
        increments(values, torch.arange(2))
    with pytest.raises(TypeError, match=r"^times is a float; expected a torch.Tensor$"):
        increments(values, 0.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^times must increase strictly: 0 at position 2 comes"):
        increments(values, torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match=r"^lengths holds 4 at batch 1; expected 0..3"):
        increments(values, lengths=[3, 4])
