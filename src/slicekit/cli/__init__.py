"""The command line: parsing of arguments and display, nothing else.

It needs the extra [cli] (typer and rich). This file imports without them, so that `main` can say
what to install.
"""

import sys
from importlib.util import find_spec

NEEDS = ("typer", "rich")


def main() -> None:
    """Run the command `slicekit`; without its extra, name what to install and exit with 2."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        print(
            f"slicekit: the command line needs {' and '.join(missing)}: "
            "pip install 'slicekit[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(2)
    from slicekit.cli.threads import wait_asleep

    wait_asleep()
    from slicekit.cli.app import run

    run()
