"""``hybridjit switches``: the table of environment variables."""

from __future__ import annotations

import argparse

from .._core.config import switch_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no arguments."""


def run(args: argparse.Namespace) -> int:
    print(switch_table())
    return 0
