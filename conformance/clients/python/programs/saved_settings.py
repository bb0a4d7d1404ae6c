"""Settings that the server keeps, with its secrets hidden or encrypted, and a model made from them."""

import httpx

from openhands.sdk.workspace.remote.base import RemoteWorkspace
from openhands.tools.preset.default import get_default_agent

from .common import converse, status, wait_until


def run(context):
    client = httpx.Client(base_url=context.url, headers={"X-Session-API-Key": context.key}, timeout=30)
    llm = {
        "model": "openai/gpt-4o",
        "api_key": "sk-settings-canary",
        "base_url": f"{context.model_url}/v1",
        "num_retries": 0,
    }
    answer = client.patch("/api/settings", json={"agent_settings_diff": {"llm": llm}})
    assert answer.status_code == 200, answer.text
    settings = answer.json()
    encrypted = client.get("/api/settings", headers={"X-Expose-Secrets": "encrypted"}).json()
    place = RemoteWorkspace(host=context.url, api_key=context.key, working_dir=context.directory)
    own = place.get_llm()
    warm = place.get_llm(temperature=0.5)
    conversation = converse(context, agent=get_default_agent(llm=own, cli_mode=True), workspace=place)
    try:
        conversation.send_message("What is two and two?")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        return {
            "shown": settings["agent_settings"]["llm"]["api_key"],
            "isSet": settings["llm_api_key_is_set"],
            "encrypted": encrypted["agent_settings"]["llm"]["api_key"][:6],
            "model": own.model,
            "key": own.api_key.get_secret_value(),
            "temperature": warm.temperature,
            "mcp": place.get_mcp_config(),
            "info": sorted(set(place.get_server_info()) & {"version", "uptime", "idle_time"}),
        }
    finally:
        conversation.close()
        client.close()
