"""Loads a plugin of a registered marketplace into a conversation."""

from openhands.sdk import Agent, AgentContext

from .common import converse, model


def run(context):
    market = {"name": "map-market", "source": context.settings["market"]}
    agent = Agent(llm=model(context), tools=[], agent_context=AgentContext(registered_marketplaces=[market]))
    conversation = converse(context, agent=agent)
    conversation.load_plugin("map-plugin@map-market")
    try:
        conversation.load_plugin("none@map-market")
        refused = ""
    except Exception as error:  # noqa: BLE001: its text is what the test reads
        refused = str(error)
    return {"id": str(conversation.id), "refused": refused}
