"""How a model is trained, as plain data: every field is a number, a flag, a pair or None."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from slicekit.suggestions import unknown
from slicekit.training.rules import Flag, Pair, Perhaps, Real, Rule, Whole

NONE = "none"
"""How a table, which has no word for it, says None."""

RULES: dict[str, Rule] = {
    "steps": Whole(1),
    "batch": Whole(1),
    "seed": Whole(0),
    "lengths": Perhaps(Pair(Whole(1), ordered=True)),
    "mixed_lengths": Flag(),
    "rate": Real("(0, inf)"),
    "final_rate": Real("[0, inf)"),
    "warmup": Real("[0, 1)"),
    "decay": Real("[0, inf)"),
    "betas": Pair(Real("[0, 1)")),
    "eps": Real("(0, inf)"),
    "clip": Perhaps(Real("(0, inf)")),
    "penalty": Real("[0, inf)"),
    "consistency": Real("[0, inf)"),
    "consistent_states": Flag(),
    "consistent_clusters": Flag(),
    "isometry": Real("[0, inf)"),
    "growth": Real("[0, inf)"),
    "drift": Real("[0, inf)"),
    "pressure_first": Real("(0, 1]"),
    "pressure_at": Perhaps(Whole(1)),
    "pressure_steps": Whole(1),
    "pressure_above": Real("[0, 1)"),
    "average": Perhaps(Real("(0, 1)")),
    "grow_from": Perhaps(Whole(1)),
    "grow_share": Real("(0, 1]"),
    "grow_at": Perhaps(Real("(0, 1)")),
    "grow_by": Whole(1),
    "grow_factor": Real("[1, inf)"),
    "evaluate_every": Whole(1),
    "validation_lengths": Perhaps(Pair(Whole(1), ordered=True)),
    "validation_batches": Whole(1),
    "record_every": Whole(1),
    "checkpoint_every": Whole(1),
    "keep": Whole(1),
    "stop_at": Perhaps(Real("(0, 1]")),
    "patience": Perhaps(Whole(1)),
    "autocast": Flag(),
}


@dataclass(frozen=True)
class Settings:
    """How a model is trained.

    Args:
        steps: number of updates.
        batch: number of sequences of a step, over all processes.
        seed: of the data, of dropout and of the validation set.
        lengths: inclusive range to train on; None for the task's own.
        mixed_lengths: whether a batch mixes lengths; otherwise one is drawn for each batch.
        rate: the highest learning rate, reached after the warm-up.
        final_rate: the rate at the end of the cosine.
        warmup: share of the steps in which the rate grows linearly from 0.
        decay: AdamW's weight decay, on all parameters but those with "embedding" in their names.
        betas: AdamW's decays of the two moments.
        eps: AdamW's ε.
        clip: largest norm of the gradient, or None.
        penalty: weight of `model.regularisation()`, the paper's λ.
        consistency: weight of the share of the variance of the features (what the model's head is
            given) that their classes do not explain.
        consistent_states: whether the features are instead what the last block's mixer gives.
        consistent_clusters: whether a class may have several clusters, as states of an automaton
            that share a label have, and the variance is that which the clusters do not explain.
        isometry: weight that the distance of the layers' transitions from isometries has in the
            end; 0 for none.
        growth: weight that the growth of disturbances of the layers' states has in the end; 0 for
            none.
        drift: weight that changes of the states' size along a sequence have in the end; 0 for none.
        pressure_first: share of these weights that counts until the sequences have grown to
            pressure_at.
        pressure_at: longest length from which on the share grows, None for the longest of all.
        pressure_steps: how many steps it then takes to grow to 1.
        pressure_above: running accuracy below which it shrinks instead.
        average: decay of a moving average of the weights, which is then what is evaluated and kept.
        grow_from: longest length at the start of a curriculum, or None for all lengths at once
            (with grow_at: for the shortest).
        grow_share: share of the steps in which the longest length grows linearly to its end.
        grow_at: grow instead whenever the running accuracy passes this one.
        grow_by: how much it then grows at least.
        grow_factor: and how many times, at least.
        evaluate_every: steps from one validation to the next.
        validation_lengths: inclusive range to validate on; None for the task's own.
        validation_batches: how many batches of `batch` sequences a validation takes.
        record_every: steps from one training record in the metrics to the next.
        checkpoint_every: steps from one checkpoint to the next.
        keep: how many checkpoints are kept.
        stop_at: validation accuracy at which to stop.
        patience: validations without a better accuracy, or whatever the task's loss scores by,
            after which to stop.
        autocast: whether to compute in bfloat16 where torch holds that safe.

    Raises:
        TypeError: if a value is of the wrong kind.
        ValueError: if it is out of its range, or two values contradict each other.

    Example:
        >>> Settings(steps=100, lengths=(3, 20)).rate
        0.002
    """

    steps: int = 3000
    batch: int = 256
    seed: int = 0
    lengths: tuple[int, int] | None = None
    mixed_lengths: bool = True
    rate: float = 2e-3
    final_rate: float = 0.0
    warmup: float = 0.1
    decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = 1.0
    penalty: float = 0.0
    consistency: float = 0.0
    consistent_states: bool = False
    consistent_clusters: bool = False
    isometry: float = 0.0
    growth: float = 0.0
    drift: float = 0.0
    pressure_first: float = 1e-4
    pressure_at: int | None = None
    pressure_steps: int = 500
    pressure_above: float = 0.0
    average: float | None = None
    grow_from: int | None = None
    grow_share: float = 0.25
    grow_at: float | None = None
    grow_by: int = 2
    grow_factor: float = 1.0
    evaluate_every: int = 250
    validation_lengths: tuple[int, int] | None = None
    validation_batches: int = 4
    record_every: int = 10
    checkpoint_every: int = 250
    keep: int = 2
    stop_at: float | None = None
    patience: int | None = None
    autocast: bool = False

    def __post_init__(self) -> None:
        """Check every field, and bring it to its proper form."""
        for name, rule in RULES.items():
            object.__setattr__(self, name, rule(name, getattr(self, name)))
        if self.lengths is not None:
            check_growth(self, self.lengths)

    def as_table(self) -> dict[str, Any]:
        """Every field by name, for a TOML file; None is the word "none".

        >>> Settings().as_table()["clip"], Settings(clip=None).as_table()["clip"]
        (1.0, 'none')
        """
        plain = asdict(self)
        return {
            name: NONE if x is None else list(x) if isinstance(x, tuple) else x
            for name, x in plain.items()
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Settings":
        """Settings from a table as TOML gives it; what it leaves out has its default.

        Raises:
            TypeError: if a value is of the wrong kind.
            ValueError: if a key is unknown (the message suggests the nearest), or a value wrong.

        >>> Settings.from_table({"step": 10})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: unknown setting 'step', did you mean 'steps'? Choose from steps, batch, ...
        """
        names = [field.name for field in fields(cls)]
        for key in table:
            if key not in names:
                raise unknown("setting", key, names)
        values: dict[str, Any] = {key: None if x == NONE else x for key, x in table.items()}
        return cls(**values)


def check_growth(settings: Settings, lengths: tuple[int, int]) -> None:
    """Raise ValueError unless a curriculum starts within the lengths to train on."""
    start = settings.grow_from
    if start is not None and not lengths[0] <= start <= lengths[1]:
        raise ValueError(
            f"grow_from={start}; expected a length within those to train on, "
            f"{lengths[0]}..{lengths[1]}"
        )


def with_growth(
    table: dict[str, Any], given: Mapping[str, Any], lengths: Sequence[int]
) -> dict[str, Any]:
    """A recipe's settings, with its curriculum within the lengths that a user trains on.

    Args:
        table: all settings, those of the user among them.
        given: those of the user, which stay as they are.
        lengths: the two ends of the range.

    >>> with_growth({"grow_from": 20}, {}, (3, 10))
    {'grow_from': 10}
    """
    low, high = lengths
    if table["grow_from"] == NONE or "grow_from" in given:
        return table
    return table | {"grow_from": min(max(low, table["grow_from"]), high)}
