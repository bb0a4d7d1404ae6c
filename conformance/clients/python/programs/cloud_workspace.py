"""A sandbox of a sandbox server, by its API key: settings, secrets, a command and a conversation, then its deletion."""

from openhands.sdk.secret import LookupSecret
from openhands.tools.preset.default import get_default_agent
from openhands.workspace import OpenHandsCloudWorkspace

from .common import converse, observations, status, wait_until


def run(context):
    with OpenHandsCloudWorkspace(cloud_api_url=context.url, cloud_api_key=context.key) as place:
        llm = place.get_llm()
        named = place.get_llm(profile_name="fast", temperature=0.5)
        secrets = place.get_secrets()
        assert all(isinstance(secret, LookupSecret) for secret in secrets.values())
        ran = place.execute_command("echo from; echo here >&2; exit 3")
        conversation = converse(
            context,
            agent=get_default_agent(llm=llm, cli_mode=True),
            workspace=place,
            secrets=secrets,
        )
        try:
            conversation.send_message("Use the token.")
            conversation.run(poll_interval=0.2)
            wait_until(lambda: status(conversation) == "finished", "the end of the run")
            conversation.state.events.reconcile()
            text = str([event.model_dump(mode="json") for event in conversation.state.events])
            return {
                "sandbox": place._sandbox_id,
                "key": place._session_api_key,
                "host": place.host,
                "conversation": str(conversation.id),
                "models": [[one.model, one.api_key.get_secret_value(), one.base_url] for one in (llm, named)],
                "temperature": named.temperature,
                "secrets": sorted(secrets),
                "command": [ran.exit_code, ran.stdout, ran.stderr],
                "observations": observations(conversation),
                "leaks": [one for one in ("canary", place._session_api_key) if one in text],
                "seen": context.ask(place.host),
            }
        finally:
            conversation.close()
