"""A `fit` that is done or not: one that fails or is interrupted leaves its estimator as it was."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

Given = ParamSpec("Given")
Estimator = TypeVar("Estimator")


def all_or_nothing(
    fit: Callable[Concatenate[Estimator, Given], object],
) -> Callable[Concatenate[Estimator, Given], Estimator]:
    """A method `fit` that sets all that it finds out at once, at its end.

    It works on another object with the same parameters, whose attributes the estimator then takes.
    """

    @wraps(fit)
    def fit_and_take(self: Estimator, /, *given: Given.args, **options: Given.kwargs) -> Estimator:
        fitted = object.__new__(type(self))
        vars(fitted).update(vars(self))
        fit(fitted, *given, **options)
        self.__dict__ = fitted.__dict__
        return self

    return fit_and_take
