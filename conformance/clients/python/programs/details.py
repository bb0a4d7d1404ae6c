"""Details of workspaces and conversations, one function each; `settings["case"]` names it."""

import asyncio
import os
import uuid
from pathlib import Path

import httpx

from openhands.sdk import AsyncRemoteWorkspace, RemoteConversation, RemoteWorkspace, Tool
from openhands.sdk.conversation.exceptions import ConversationRunError, WebSocketConnectionError
from openhands.sdk.conversation.request import StartConversationRequest
from openhands.sdk.plugin import PluginSource
from openhands.sdk.workspace import LocalWorkspace

from .common import (
    agent,
    converse,
    create,
    creation,
    kinds,
    model,
    observations,
    sole_creation,
    status,
    wait_until,
    workspace,
)


def run(context):
    return globals()[context.settings["case"]](context)


def get(context, path):
    headers = {"X-Session-API-Key": context.key}
    return httpx.get(f"{context.url}{path}", headers=headers, timeout=60).json()


def bad_key(context):
    stranger = RemoteWorkspace(host=context.url, api_key="a-wrong-key", working_dir=context.directory)
    command = stranger.execute_command("touch trace", cwd=context.directory)
    upload = stranger.file_upload(b"bytes", Path(context.directory) / "trace")
    try:
        converse(context, workspace=stranger)
        refused = None
    except httpx.HTTPStatusError as error:
        refused = error.response.status_code
    found = get(context, "/api/conversations/search?limit=100")["items"]
    return {
        "command": [command.exit_code, "401" in command.stderr],
        "upload": upload.success,
        "refused": refused,
        "traces": os.listdir(context.directory),
        "conversations": [one["id"] for one in found if one["workspace"]["working_dir"] == context.directory],
    }


def without_blocking(context):
    async def main():
        async with AsyncRemoteWorkspace(
            host=context.url, api_key=context.key, working_dir=context.directory
        ) as place:
            both = await asyncio.gather(
                place.execute_command("sleep 1; echo one", cwd=context.directory),
                place.execute_command("echo two; git init -q", cwd=context.directory),
            )
            target = Path(context.directory) / "up.bin"
            local = Path(context.settings["scratch"]) / "down.bin"
            up = await place.file_upload(bytes(range(256)), target)
            down = await place.file_download(target, local)
            changes = await place.git_changes(context.directory)
            return {
                "outputs": [one.stdout.strip() for one in both],
                "files": [up.success, down.success, local.read_bytes() == bytes(range(256))],
                "changes": [str(change.path) for change in changes],
                "hasVersion": "version" in await place.get_server_info(),
            }

    return asyncio.run(main())


def scoped(context):
    conversation = converse(context)
    try:
        place = RemoteWorkspace(
            host=context.url,
            api_key=context.key,
            working_dir=context.directory,
            runtime_conversation_id=conversation.id,
        )
        pwd = place.execute_command("pwd")
        outside = place.execute_command("pwd", cwd="/")
        inside = place.file_upload(b"text", Path(context.directory) / "in.txt")
        out = place.file_upload(b"text", Path(context.directory).parent / "out.txt")
        return {
            "pwd": pwd.stdout.strip(),
            "outside": outside.exit_code,
            "files": [inside.success, out.success],
        }
    finally:
        conversation.close()


def request_once(context):
    own = uuid.uuid4()
    request = StartConversationRequest(
        agent=agent(context),
        workspace=LocalWorkspace(working_dir=context.directory),
        conversation_id=own,
        tags={"made": "once"},
    )
    with creation():
        first, second = (RemoteConversation.create(workspace(context), request, visualizer=None) for _ in range(2))
    first.send_message("Hello.")
    first.run(poll_interval=0.2)
    wait_until(lambda: status(second) == "finished", "the end of the run")
    ids = [one["id"] for one in get(context, "/api/conversations/search?limit=100")["items"]]
    for conversation in (first, second):
        conversation.close()
    return {"ids": [first.id == own, second.id == own], "stored": ids.count(str(own)), "tags": get(context, f"/api/conversations/{own}")["tags"]}


def of_a_profile(context):
    client = httpx.Client(base_url=context.url, headers={"X-Session-API-Key": context.key}, timeout=60)
    llm = {"model": "openai/gpt-4o", "api_key": "sk-profile", "base_url": f"{context.model_url}/v1", "num_retries": 0}
    saved = client.post("/api/profiles/f33", json={"llm": llm, "include_secrets": True})
    assert saved.is_success, saved.text
    made = client.post("/api/agent-profiles/f33-agent", json={"llm_profile_ref": "f33"})
    assert made.is_success, made.text
    profile = client.get("/api/agent-profiles/f33-agent").json()["profile"]
    request = StartConversationRequest(
        agent_profile_id=profile["id"], workspace=LocalWorkspace(working_dir=context.directory)
    )
    with creation():
        conversation = RemoteConversation.create(workspace(context), request, visualizer=None)
    conversation.send_message("Hello.")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    launched = conversation.state.refresh_from_server()["launched_agent_profile"]
    conversation.close()
    return {"model": conversation.agent.llm.model, "launched": launched["agent_profile_id"] == profile["id"]}


def long_history(context):
    conversation = converse(context)
    for number in range(230):
        conversation.send_message(f"message {number}")
    with creation():
        joined = RemoteConversation.attach(workspace(context), conversation.id, visualizer=None)
    texts = [
        event.llm_message.content[0].text
        for event in joined.state.events
        if type(event).__name__ == "MessageEvent" and event.source == "user"
    ]
    for one in (conversation, joined):
        one.close()
    return texts == [f"message {number}" for number in range(230)]


def read_twice(context):
    conversation = converse(context)
    conversation.send_message("Hello.")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    first, second = (conversation.state.refresh_from_server() for _ in range(2))
    typed = conversation.state.agent.model_dump(mode="json")
    again = conversation.state.agent.model_dump(mode="json")
    conversation.close()
    return {"same": first == second, "typed": typed == again, "tool": conversation.state.agent.tools[0].name}


def late(context):
    conversation = converse(context)
    conversation.send_message("Wait.")
    try:
        conversation.run(poll_interval=0.2, timeout=1)
        error = None
    except ConversationRunError as raised:
        error = type(raised.original_exception).__name__
    after = status(conversation)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    conversation.close()
    return {"error": error, "after": after}


def joined_run(context):
    conversation = converse(context)
    conversation.send_message("Wait.")
    conversation.run(blocking=False)
    wait_until(lambda: "ActionEvent" in kinds(conversation), "the call")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    conversation.state.events.reconcile()
    result = {"calls": kinds(conversation).count("ActionEvent"), "observations": observations(conversation)}
    conversation.close()
    return result


def failed_run(context):
    conversation = converse(context)
    conversation.send_message("Go.")
    try:
        conversation.run(poll_interval=0.2, timeout=100)
        result = None
    except ConversationRunError as raised:
        error = raised.conversation_error
        result = {"code": error.code if error else None, "text": str(raised)}
    after = status(conversation)
    conversation.close()
    return {"error": result, "status": after}


def logs(context):
    folder = Path(context.settings["scratch"]) / "completions"
    llm = model(context, log_completions=True, log_completions_folder=str(folder))
    conversation = converse(context, agent=agent(context).model_copy(update={"llm": llm}))
    conversation.send_message("Go.")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    wait_until(lambda: folder.exists() and len(list(folder.iterdir())) >= 2, "the logs")
    conversation.close()
    return len(list(folder.iterdir()))


def restarted(context):
    conversation = converse(context)
    own = conversation.id
    conversation.send_message("Go.")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    conversation.state.events.reconcile()
    before = kinds(conversation)
    conversation.close()
    context.ask("restart")
    again = converse(context, conversation_id=own)
    kept = kinds(again) == before
    again.send_message("Go on.")
    again.run(poll_interval=0.2)
    wait_until(lambda: status(again) == "finished", "the end of the second run")
    again.state.events.reconcile()
    grown = len(kinds(again)) > len(before)
    again.close()
    return {"kept": kept, "grown": grown}


def closed(context):
    kept = converse(context)
    gone = converse(context, delete_on_close=True)
    for conversation in (kept, gone, kept):
        conversation.close()
    headers = {"X-Session-API-Key": context.key}
    paths = [f"{context.url}/api/conversations/{one.id}" for one in (kept, gone)]
    return [httpx.get(path, headers=headers, timeout=60).status_code for path in paths]


def plugin_tag(context):
    token = context.settings["token"]
    source = PluginSource(source=f"https://map-user:{token}@example.invalid/map/plugin.git", ref="main")
    conversation = converse(context, plugins=[source], tags={"made": "plugins"})
    is_shown = token in str(conversation.state.refresh_from_server())
    conversation.close()
    return {"id": str(conversation.id), "isShown": is_shown}


def without_sockets(context):
    with sole_creation():
        os.environ["OPENHANDS_REMOTE_WS_READY_TIMEOUT"] = "1"
        try:
            try:
                create(context).close()
                error = None
            except WebSocketConnectionError as raised:
                error = type(raised).__name__
            os.environ["OPENHANDS_REMOTE_WS_READY_REQUIRED"] = "false"
            conversation = create(context)
        finally:
            os.environ.pop("OPENHANDS_REMOTE_WS_READY_TIMEOUT")
            os.environ.pop("OPENHANDS_REMOTE_WS_READY_REQUIRED", None)
    conversation.send_message("Go.")
    # The program waits half a minute for the socket after the server has finished.
    conversation.run(poll_interval=0.2, timeout=120)
    stored = [one["id"] for one in get(context, f"/api/conversations/{conversation.id}/events/search?limit=100")["items"]]
    result = {
        "error": error,
        "status": status(conversation),
        "sameEvents": [event.id for event in conversation.state.events] == stored,
        "observations": observations(conversation),
    }
    conversation.close()
    return result


def unknown_module(context):
    from . import ghost_tool  # noqa: F401: registers a tool that the server does not have

    try:
        converse(context, "terminal", "map_ghost").close()
        refused, text = None, ""
    except httpx.HTTPStatusError as error:
        refused, text = error.response.status_code, error.response.text
    conversation = converse(context)
    conversation.send_message("Hello.")
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    conversation.close()
    return {"refused": refused, "detail": text, "others": status(conversation)}
