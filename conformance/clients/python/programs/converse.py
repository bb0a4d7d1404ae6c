"""A conversation from its creation to its statistics, with a hook that refuses the first end of the run."""

import os

from openhands.sdk import Conversation, RemoteConversation
from openhands.sdk.event import ConversationStateUpdateEvent
from openhands.sdk.hooks import HookConfig, HookDefinition, HookMatcher
from openhands.tools.preset.default import get_default_agent

from .common import creation, model, status, wait_until, workspace

# Refuses while the file is missing.
HOOK = 'test -e mended.txt || { echo "mended.txt is missing" >&2; exit 2; }'


def run(context):
    place = workspace(context)
    command = place.execute_command("pwd", cwd=context.directory)
    assert command.exit_code == 0 and command.stdout.strip() == context.directory, command
    received = []
    hooks = HookConfig(stop=[HookMatcher(matcher="*", hooks=[HookDefinition(command=HOOK, timeout=60)])])
    with creation():
        conversation = Conversation(
            agent=get_default_agent(llm=model(context), cli_mode=True),
            workspace=place,
            callbacks=[received.append],
            hook_config=hooks,
            tags={"made": "python"},
            max_iteration_per_run=30,
        )
    assert isinstance(conversation, RemoteConversation)
    try:
        conversation.send_message("Write hello.txt, then finish.")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        title = conversation.generate_title(max_length=40, llm=model(context, usage_id="title"))
        conversation.set_title("A title of Python")
        answer = conversation.ask_agent("What was written?")
        conversation.state.events.reconcile()
        events = conversation.state.events
        names = [type(event).__name__ for event in events]
        assert len({event.id for event in events}) == len(events)
        stops = [event for event in events if type(event).__name__ == "HookExecutionEvent"]
        info = conversation.state.refresh_from_server()
        metrics = conversation.conversation_stats.get_combined_metrics()
        assert [event.id for event in events[-2:]] == [event.id for event in list(events)[-2:]]
        return {
            "title": title,
            "savedTitle": info["title"],
            "tags": info["tags"],
            "answer": answer,
            "kinds": names,
            "blocked": [event.blocked for event in stops],
            "received": sorted({type(event).__name__ for event in received}),
            "status": str(conversation.state.execution_status.value),
            "files": sorted(os.listdir(context.directory)),
            "tokens": metrics.accumulated_token_usage.prompt_tokens,
            "hasState": any(isinstance(event, ConversationStateUpdateEvent) for event in received),
        }
    finally:
        conversation.close()
