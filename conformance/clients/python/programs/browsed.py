"""The browser tools open a page of this machine."""

from .common import converse, kinds, observations, status, wait_until


def run(context):
    import openhands.tools.browser_use  # noqa: F401  its events have types of their own

    conversation = converse(context, "browser_tool_set")
    try:
        conversation.send_message("Open the page.")
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run", 120)
        conversation.state.events.reconcile()
        return {"observations": observations(conversation), "kinds": kinds(conversation)}
    finally:
        conversation.close()
