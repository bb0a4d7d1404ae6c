"""Runs the programs of this folder in one process, since importing the SDK takes seconds.

Each line of the input is a JSON object with the name of a `program` and its settings; each is answered with one line,
`{"result": ...}` or `{"error": ...}`. While a program runs it may ask the test for something with `{"ask": ...}`,
which the test answers with one line.
"""

import contextlib
import importlib
import json
import logging
import os
import sys
import traceback
from dataclasses import dataclass
from typing import Any

answers = os.fdopen(os.dup(1), "w")
# What the SDK prints must not be read as an answer.
os.dup2(2, 1)


def send(message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


@dataclass
class Context:
    """What a program runs with."""

    url: str
    """Address of the server."""
    key: str
    """Session key of the server."""
    model_url: str
    """Address of the model provider, without `/v1`."""
    directory: str
    """An empty directory for the program."""
    settings: dict[str, Any]
    """Further settings of one program."""

    def ask(self, what: str) -> Any:
        """Asks the test for something; returns its answer."""
        send({"ask": what})
        return json.loads(sys.stdin.readline())


def main() -> None:
    import openhands.sdk  # noqa: F401  the first import is part of the start
    import openhands.tools.preset.default  # noqa: F401

    logging.getLogger().setLevel(logging.WARNING)
    send({"result": "ready"})
    while line := sys.stdin.readline():
        request = json.loads(line)
        name = request.pop("program")
        try:
            program = importlib.import_module(f"programs.{name}")
            with contextlib.redirect_stdout(sys.stderr):
                result = program.run(Context(**request))
            send({"result": result})
        except Exception:
            send({"error": traceback.format_exc()})


main()
