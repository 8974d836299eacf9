"""Errors as one line on standard error: exit code 2 for bad usage, 1 for work that failed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from slicekit.cli import display
from slicekit.parallel.failures import LostRank
from slicekit.training.checkpoints import DamagedCheckpoint
from slicekit.training.processes import is_first
from slicekit.training.reports import Diverged


class Failed(Exception):
    """Work that failed though it was asked for in the right way; the message says what to do."""

    exit_code = 1


class BadUsage(Failed):
    """What the user should ask for in another way."""

    exit_code = 2


class OneLineErrors(TyperGroup):
    """Commands whose errors are one line on stderr, and told by the first of several processes."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command, and exit unless asked to return."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except Failed as error:
            _tell(_joined(str(error)))
            sys.exit(error.exit_code)
        except Exception as error:
            # typer does not export the base class of its usage errors.
            if not hasattr(error, "format_message"):
                raise
            _tell(_usage(error))
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


def _tell(line: str) -> None:
    if is_first():
        print(display.harmless(line), file=sys.stderr)


def _joined(message: str) -> str:
    return " ".join(message.split())


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "slicekit"
    message = _joined(error.format_message()).rstrip(".")
    return f"{path}: {message}. See: {path} --help"


@contextmanager
def one_line(command: str) -> Iterator[None]:
    """Bring the errors that the library raises for its users to one line each.

    Args:
        command: which one raises them.

    Raises:
        BadUsage: for what the user can ask for in another way.
        Failed: for the rest.
    """
    try:
        yield
    except (DamagedCheckpoint, Diverged, LostRank) as error:
        if isinstance(error, LostRank) and not is_first():  # the first may be the one that is lost
            print(f"slicekit {command}, another process: {_joined(str(error))}", file=sys.stderr)
        raise Failed(f"slicekit {command}: {error}") from error
    except BrokenPipeError:
        raise
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        raise _bad_usage(command, error) from error
    except OSError as error:
        raise Failed(f"slicekit {command}: {error}") from error
    except (ImportError, TypeError, ValueError) as error:
        raise _bad_usage(command, error) from error
    except (MemoryError, RuntimeError) as error:
        if _out_of_memory(error):
            why = "there is not enough memory for models or batches of that size"
            raise Failed(f"slicekit {command}: {why}: {_joined(str(error))[:200]}") from error
        if is_first():
            raise
        # Several processes fail together; what this one has to add is rarely more than that.
        print(f"slicekit {command}, another process: {_joined(str(error))}", file=sys.stderr)
        raise typer.Exit(1) from error


def _out_of_memory(error: BaseException) -> bool:
    """Whether memory was refused, by Python or by one of torch's allocators."""
    told = ("can't allocate memory", "not enough memory", "out of memory", "Invalid buffer size")
    return isinstance(error, MemoryError) or any(words in str(error) for words in told)


def _bad_usage(command: str, error: Exception) -> BadUsage:
    message = _joined(str(error)).rstrip(".")
    return BadUsage(f"slicekit {command}: {message}. See: slicekit {command} --help")
