"""The word problem of a finite group: which element is the product so far?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from slicekit.tasks.base import Batch, Task
from slicekit.tasks.groups import Group, compose, named_group
from slicekit.tasks.monoids import prefix_products
from slicekit.tasks.ranges import check_split, draw_lengths


class WordProblem(Task):
    """Track the state of a finite group.

    A word is x_1 x_2 ... x_L with every x_i drawn uniformly from the letters, which are elements of
    the group G. The target at each position is the running product

        y_i = e · x_1 · x_2 · ... · x_i,        so y_i = y_{i-1} · x_i and y_0 = e.

    Tokens and classes are the numbers 0..|G|-1 of the elements, see `slicekit.tasks.groups`. Every
    position is supervised. The identity has the number 0, which also stands in the padding.

    Args:
        group: a `Group`, or the name of one: a5, s5, a4xz5 or z60.
        letters: numbers of the elements that occur in words; all of them by default. The vocabulary
            stays that of the group.
        train_lengths: inclusive range to train on.
        validation_lengths: inclusive range to choose a model on.
        test_lengths: inclusive range to report.

    Raises:
        ValueError: if the group's name is unknown, or a letter or a range is out of bounds.

    Example:
        In Z60, a clock of 60 minutes, products are sums:

        >>> task = WordProblem("z60")
        >>> task.oracle([50, 5, 7])
        [50, 55, 2]
        >>> batch = task.sample(1, (4, 4), torch.Generator().manual_seed(0))
        >>> bool((batch.targets == batch.inputs.cumsum(1) % 60).all())
        True
    """

    family = "words"

    def __init__(
        self,
        group: Group | str = "a5",
        *,
        letters: Sequence[int] | None = None,
        train_lengths: tuple[int, int] = (3, 40),
        validation_lengths: tuple[int, int] = (40, 128),
        test_lengths: tuple[int, int] = (20, 5120),
    ) -> None:
        """Look the group up, and keep the settings."""
        super().__init__(
            train_lengths=train_lengths,
            validation_lengths=validation_lengths,
            test_lengths=test_lengths,
        )
        self.group = named_group(group) if isinstance(group, str) else group
        self.name = self.group.name
        self.vocabulary = self.outputs = self.group.order
        self.letters = _check_letters(letters, self.group)

    def sample(
        self,
        batch: int,
        lengths: tuple[int, int],
        generator: torch.Generator,
        split: str = "train",
    ) -> Batch:
        """Random words with all their running products; the splits have one distribution."""
        check_split(split)
        drawn = draw_lengths(batch, lengths, generator)
        choice = torch.randint(len(self.letters), (batch, lengths[1]), generator=generator)
        return self.labelled(self.letters[choice], drawn)

    def labelled(self, words: Tensor, lengths: Tensor) -> Batch:
        """A batch of given words.

        Args:
            words: (batch, length) int64, elements of the group.
            lengths: (batch,) int64.

        >>> WordProblem("z60").labelled(torch.tensor([[30, 40, 1]]), torch.tensor([2])).targets
        tensor([[30, 10,  0]])
        """
        return Batch.every_position(words, prefix_products(self.group.table, words), lengths)

    def oracle(self, tokens: Sequence[int]) -> list[int | None]:
        """The running products: permutations one after the other, or steps through the table."""
        for token in tokens:
            if not 0 <= token < self.outputs:
                raise ValueError(f"tokens holds {token}; expected 0..{self.outputs - 1}")
        permutations = self.group.permutations
        targets: list[int | None] = []
        if permutations is None:
            table, state = self.group.table.tolist(), 0
            for token in tokens:
                state = table[state][token]
                targets.append(state)
            return targets
        number = {permutation: index for index, permutation in enumerate(permutations)}
        position = permutations[0]
        for token in tokens:
            position = compose(position, permutations[token])
            targets.append(number[position])
        return targets


def _check_letters(letters: Sequence[int] | None, group: Group) -> Tensor:
    if letters is None:
        return torch.arange(group.order)
    given = sorted(set(letters))
    if not given or given[0] < 0 or given[-1] >= group.order:
        raise ValueError(
            f"letters={list(letters)}; expected at least one element of the group {group.name}, "
            f"0..{group.order - 1}"
        )
    return torch.tensor(given)
