"""What the programs share: a model, an agent, a workspace, and waiting."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr

from openhands.sdk import LLM, Agent, Conversation, RemoteConversation, Tool, Workspace


def model(context: Any, **settings: Any) -> LLM:
    return LLM(
        usage_id=settings.pop("usage_id", "agent"),
        model="openai/gpt-4o",
        base_url=f"{context.model_url}/v1",
        api_key=SecretStr("sk-python-canary"),
        num_retries=0,
        **settings,
    )


def agent(context: Any, *tools: str, **settings: Any) -> Agent:
    return Agent(llm=model(context, **settings), tools=[Tool(name=name) for name in tools or ("terminal",)])


def workspace(context: Any) -> Any:
    return Workspace(host=context.url, api_key=context.key, working_dir=context.directory)


_places = 64
_creations = threading.Semaphore(_places)


@contextmanager
def creation() -> Iterator[None]:
    """Held while a conversation is created, by any number of programs."""
    with _creations:
        yield


@contextmanager
def sole_creation() -> Iterator[None]:
    """Held by one program alone, while it changes how the SDK creates conversations."""
    for _ in range(_places):
        _creations.acquire()
    try:
        yield
    finally:
        _creations.release(_places)


def converse(context: Any, *tools: str, **settings: Any) -> RemoteConversation:
    """A conversation with a socket and no visualizer."""
    with creation():
        return create(context, *tools, **settings)


def create(context: Any, *tools: str, **settings: Any) -> RemoteConversation:
    """`converse` for a program that holds a creation."""
    settings.setdefault("delete_on_close", False)
    stream = settings.pop("stream", False)
    own_agent = settings.pop("agent", None) or agent(context, *tools, stream=stream)
    own_workspace = settings.pop("workspace", None) or workspace(context)
    conversation = Conversation(agent=own_agent, workspace=own_workspace, visualizer=None, **settings)
    assert isinstance(conversation, RemoteConversation)
    return conversation


def status(conversation: RemoteConversation) -> str:
    return conversation.state.refresh_from_server()["execution_status"]


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Waits until a condition holds and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.05)
    return value


def kinds(conversation: RemoteConversation) -> list[str]:
    """The kinds of all events but state updates: the client's list also has those that are sent and not stored."""
    names = [type(event).__name__ for event in conversation.state.events]
    return [name for name in names if name != "ConversationStateUpdateEvent"]


def observations(conversation: RemoteConversation) -> list[str]:
    """The texts of all observations."""
    return [
        "".join(part.text for part in event.observation.to_llm_content)
        for event in conversation.state.events
        if type(event).__name__ == "ObservationEvent"
    ]
