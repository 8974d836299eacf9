"""Log-signatures with their basis: changed, put together, and gone on with."""

import pytest
import torch
from torch import Tensor

from slicekit.paths import LogSignatures, hall, log_signatures, lyndon


def steps_of(*shape: int) -> Tensor:
    """Increments of a random path, in double precision."""
    return torch.randn(shape, dtype=torch.float64) / 2


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_change_of_basis_keeps_the_expanded_form(depth: int) -> None:
    increments = steps_of(2, 6, 3)
    found = LogSignatures(log_signatures(increments, hall(3, depth), 3), hall(3, depth))
    changed = found.to(lyndon(3, depth))
    expected = log_signatures(increments, lyndon(3, depth), 3)
    assert torch.allclose(changed.coefficients, expected)
    assert torch.allclose(changed.expanded(), found.expanded())
    assert found.to(hall(3, depth)) is found
    shallow = found.to(lyndon(3, 1)).coefficients
    assert torch.allclose(shallow, log_signatures(increments, lyndon(3, 1), 3))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_increments_that_arrive_make_the_whole(depth: int) -> None:
    basis, increments = hall(3, depth), steps_of(2, 9, 3)
    now = LogSignatures.empty(basis, 2, dtype=torch.float64)
    for part in increments.split([1, 1, 4, 0, 3], dim=1):
        now = now.extend(part)
    assert torch.allclose(now.coefficients, log_signatures(increments, basis, 9)[:, 0])


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_interval_comes_from_pieces_and_from_prefixes(depth: int) -> None:
    basis, increments = lyndon(2, depth), steps_of(2, 10, 2)
    pieces = LogSignatures(log_signatures(increments, basis, 2), basis)
    stream = log_signatures(increments, basis, 10, stream=True)
    for first in range(6):
        for last in range(first, 6):
            part = increments[:, 2 * first : 2 * last]
            expected = log_signatures(part, basis, 10).sum(1)
            assert torch.allclose(pieces.interval(first, last).coefficients, expected)
            if 0 < first < last:
                later, earlier = (
                    LogSignatures(stream[:, 2 * end - 1], basis) for end in (last, first)
                )
                assert torch.allclose(later.since(earlier).coefficients, expected)


def test_what_does_not_fit_is_refused_in_words() -> None:
    found = LogSignatures(torch.zeros(2, 3), hall(2, 2))
    with pytest.raises(ValueError, match=r"coefficients has shape \(2, 4\); expected \(..., 3\)"):
        LogSignatures(torch.zeros(2, 4), hall(2, 2))
    with pytest.raises(ValueError, match=r"later is in lyndon\(2, 2\), but this is in hall"):
        found.compose(LogSignatures(torch.zeros(2, 3), lyndon(2, 2)))
    with pytest.raises(ValueError, match=r"basis is hall\(2, 3\); expected 2 channels"):
        found.to(hall(2, 3))
    with pytest.raises(ValueError, match=r"first=1, last=3; expected 0 <= first <= last <= 2"):
        found.interval(1, 3)
