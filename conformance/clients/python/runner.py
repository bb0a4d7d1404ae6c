"""Runs the programs of this folder in one process, since importing the SDK takes seconds; each in its own thread, since
the SDK waits five seconds for each socket that it closes.

Each line of the input is a JSON object with an `id`, the name of a `program` and its settings; each is answered with one
line, `{"id": ..., "result": ...}` or `{"id": ..., "error": ...}`. While a program runs it may ask the test for something
with `{"id": ..., "ask": ...}`, which the test answers with `{"id": ..., "answer": ...}`.
"""

import importlib
import json
import logging
import os
import sys
import threading
import traceback
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

answers = os.fdopen(os.dup(1), "w")
# What the SDK prints must not be read as an answer.
os.dup2(2, 1)
sending = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with sending:
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
    id: int
    """Number of the request."""
    replies: SimpleQueue[Any]
    """What the test answers."""

    def ask(self, what: str) -> Any:
        """Asks the test for something; returns its answer."""
        send({"id": self.id, "ask": what})
        return self.replies.get()


def run(name: str, context: Context) -> None:
    try:
        program = importlib.import_module(f"programs.{name}")
        send({"id": context.id, "result": program.run(context)})
    except Exception:
        send({"id": context.id, "error": traceback.format_exc()})


def main() -> None:
    import openhands.sdk  # noqa: F401  the first import is part of the start
    import openhands.tools.preset.default  # noqa: F401

    logging.getLogger().setLevel(logging.WARNING)
    send({"id": 0, "result": "ready"})
    running: dict[int, Context] = {}
    while line := sys.stdin.readline():
        request = json.loads(line)
        if "answer" in request:
            running[request["id"]].replies.put(request["answer"])
            continue
        name = request.pop("program")
        context = Context(**request, replies=SimpleQueue())
        running[context.id] = context
        threading.Thread(target=run, args=(name, context), daemon=True).start()


main()
