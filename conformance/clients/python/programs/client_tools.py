"""A tool that the client has, and a conversation that another program joins."""

import uuid

from openhands.sdk import RemoteConversation
from openhands.sdk.tool.client_tool import ClientToolSpec

from .common import agent, converse, creation, kinds, status, wait_until, workspace

SPEC = ClientToolSpec(
    name="show_banner",
    description="Shows a banner to the user.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)


def run(context):
    shown = []

    def on_event(event):
        if type(event).__name__ == "ActionEvent" and event.tool_name == "show_banner":
            shown.append(event.action.model_dump().get("text"))

    conversation = converse(context, client_tools=[SPEC], callbacks=[on_event])
    try:
        conversation.send_message("Show a banner.")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        wait_until(lambda: shown, "the call")
        conversation.state.events.reconcile()
        with creation():
            joined = RemoteConversation.attach(workspace(context), conversation.id, visualizer=None)
        again = converse(context, conversation_id=conversation.id, agent=agent(context))
        own = uuid.uuid4()
        named = converse(context, conversation_id=own, delete_on_close=True)
        result = {
            "shown": shown,
            "joined": kinds(joined) == kinds(conversation),
            "again": again.id == conversation.id and kinds(again) == kinds(conversation),
            "named": named.id == own,
        }
        for other in (joined, again, named):
            other.close()
        path = f"/api/conversations/{own}"
        return {**result, "deleted": conversation.workspace.client.get(path).status_code}
    finally:
        conversation.close()
