"""A task from one function: what it returns is completed, checked, and named if it is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from slicekit.tasks import Batch, Task, from_function
from tests.tasks.every import same, seeded

TOKENS = torch.tensor([[1, 2, 3], [3, 2, 0]])


def returning(value: Any) -> Task:
    return from_function(lambda *_: value, vocabulary=4, outputs=4, name="mine")


def sampled(value: Any) -> Batch:
    return returning(value).sample(2, (2, 3), seeded(0))


def test_everything_is_labelled_unless_the_function_says_otherwise() -> None:
    batch = sampled((TOKENS, TOKENS))
    assert batch.supervised.all()
    assert batch.lengths.tolist() == [3, 3]
    lengths = torch.tensor([3, 2])
    assert same(
        sampled((TOKENS, TOKENS, None, lengths)), Batch.every_position(TOKENS, TOKENS, lengths)
    )


def test_the_ways_to_say_the_same() -> None:
    supervised = torch.tensor([[False, False, True], [False, True, False]])
    targets = TOKENS.where(supervised, 0)
    whole = Batch(TOKENS, targets, supervised, torch.tensor([3, 2]))
    assert same(sampled(whole), whole)
    assert same(sampled([TOKENS, targets, supervised, [3, 2]]), whole)
    three = sampled((TOKENS, targets, supervised))
    assert torch.equal(three.supervised, supervised) and three.lengths.tolist() == [3, 3]


def test_what_does_not_count_is_replaced_by_zero() -> None:
    supervised = torch.tensor([[True, False, False], [True, True, False]])
    inputs = torch.tensor([[1, 2, 3], [3, 2, -1]], dtype=torch.int32)
    targets = torch.tensor([[1, -100, -100], [3, 2, -100]], dtype=torch.int16)
    batch = sampled((inputs, targets, supervised, torch.tensor([3, 2])))
    assert batch.inputs.tolist() == [[1, 2, 3], [3, 2, 0]]
    assert batch.targets.tolist() == [[1, 0, 0], [3, 2, 0]]


def test_the_function_gets_what_sample_gets() -> None:
    seen: list[Any] = []

    def mine(batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Any:
        seen.append((batch, lengths, generator))
        tokens = torch.randint(2, (batch, lengths[1]), generator=generator)
        return tokens, tokens

    task = from_function(mine, vocabulary=2, outputs=2, train_lengths=(2, 5))
    generator = seeded(5)
    task.sample(3, (2, 5), generator, "validation")
    assert seen == [(3, (2, 5), generator)]
    assert (task.name, task.train_lengths, task.test_lengths) == ("mine", (2, 5), (40, 256))
    with pytest.raises(NotImplementedError, match=r"^the task mine has no oracle$"):
        task.oracle([0])


class Callable3:
    def __call__(self, batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Any:
        tokens = torch.zeros(batch, lengths[1], dtype=torch.int64)
        return tokens, tokens


def test_an_object_that_can_be_called_will_do() -> None:
    task = from_function(Callable3(), vocabulary=2, outputs=2, oracle=lambda tokens: [0])
    assert task.name == "Callable3"
    assert task.oracle([1]) == [0]
    assert task.sample(2, (2, 3), seeded(0)).inputs.shape == (2, 3)


ALL = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (None, TypeError, "it is a NoneType; expected a Batch, (inputs, targets)"),
        (TOKENS, TypeError, "it is a Tensor; expected a Batch"),
        ((TOKENS,), TypeError, "it is a tuple of 1; expected a Batch"),
        ((TOKENS,) * 5, TypeError, "it is a tuple of 5; expected a Batch"),
        (([[1, 2]], TOKENS), TypeError, "inputs is a list; expected a torch.Tensor"),
        ((TOKENS[:1], TOKENS[:1]), ValueError, "inputs has shape (1, 3); expected (2, length)"),
        ((TOKENS, TOKENS[:, :2]), ValueError, "targets has shape (2, 2); expected (2, 3)"),
        ((TOKENS[:, :0], TOKENS[:, :0]), ValueError, "inputs has shape (2, 0); expected at least"),
        ((TOKENS.float(), TOKENS), TypeError, "inputs has dtype torch.float32; expected integers"),
        ((TOKENS, TOKENS.bool()), TypeError, "targets has dtype torch.bool; expected integers"),
        (
            (TOKENS + 1, TOKENS),
            ValueError,
            "inputs holds 4 at sequence 0, position 2; expected 0..3",
        ),
        ((TOKENS, TOKENS - 1), ValueError, "targets holds -1 at sequence 1, position 2; expected"),
        ((TOKENS, TOKENS, TOKENS), TypeError, "supervised has dtype torch.int64; expected torch.b"),
        ((TOKENS, TOKENS, ALL[:1]), ValueError, "supervised has shape (1, 3); expected (2, 3)"),
        ((TOKENS, TOKENS, ~ALL), ValueError, "supervised holds no position; expected at least one"),
        ((TOKENS, TOKENS, ALL, [3, 4]), ValueError, "lengths holds 4 at batch 1; expected 0..3"),
        ((TOKENS, TOKENS, ALL, [3]), ValueError, "lengths has shape (1,); expected (2,)"),
        (
            (TOKENS, TOKENS, ALL, [3, 2]),
            ValueError,
            "supervised holds position 2 of sequence 1; expected none past its length 2",
        ),
    ],
)
def test_what_is_no_batch_is_named(returned: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        sampled(returned)
    assert str(caught.value).startswith(f"what the function mine returned: {message}")


@pytest.mark.parametrize(("asked", "met"), [((2, 3), True), ((4, 9), False), ((1, 2), False)])
def test_sequences_have_the_lengths_that_were_asked_for(asked: tuple[int, int], met: bool) -> None:
    """Or an evaluation at length 1,024 would report what is so at length 3."""
    task = returning((TOKENS, TOKENS))
    if met:
        assert task.sample(2, asked, seeded(0)).lengths.tolist() == [3, 3]
        return
    with pytest.raises(ValueError, match=f"sequence 0 has length 3; expected .* {asked[1]}, as"):
        task.sample(2, asked, seeded(0))


def test_errors_of_the_function_itself_come_through() -> None:
    def broken(batch: int, lengths: tuple[int, int], generator: torch.Generator) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        from_function(broken, vocabulary=2, outputs=2).sample(1, (3, 3), seeded(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: from_function(f, vocabulary=0, outputs=2), "vocabulary=0; expected at least 1"),
        (lambda f: from_function(f, vocabulary=2, outputs=-1), "outputs=-1; expected at least 1"),
        (
            lambda f: from_function(f, vocabulary=2, outputs=2, train_lengths=(4, 2)),
            r"train_lengths=\(4, 2\); expected",
        ),
    ],
)
def test_bad_settings_are_named(make: Callable[[Any], Task], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        make(Callable3())


def test_what_is_no_function_is_named() -> None:
    wrong: Any = "mine"
    with pytest.raises(TypeError, match=r"^function='mine' is a str; expected a function$"):
        from_function(wrong, vocabulary=2, outputs=2)
