"""The server is killed while a command runs, and started again: the client catches up and the run continues."""

from .common import converse, status, wait_until


def run(context):
    received = []
    conversation = converse(context, callbacks=[received.append])
    try:
        conversation.send_message("Wait, then finish.")
        conversation.run(blocking=False)
        wait_until(lambda: any(type(event).__name__ == "ActionEvent" for event in received), "the call")
        context.ask("kill")
        wait_until(lambda: not conversation.workspace.alive, "the end of the server")
        context.ask("start")
        wait_until(lambda: conversation.workspace.alive, "the new server")
        conversation.run(poll_interval=0.5, timeout=120)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        conversation.state.events.reconcile()
        stored = [event.id for event in conversation.state.events]
        lost = lambda: [
            type(event).__name__
            for event in conversation.state.events
            if event.id not in {one.id for one in received} and type(event).__name__ not in ("SystemPromptEvent",)
        ]
        wait_until(lambda: not lost(), f"what the callbacks missed: {lost()}")
        ids = [event.id for event in received if event.id in stored]
        return {
            "kinds": [type(event).__name__ for event in conversation.state.events],
            "twice": len(ids) - len(set(ids)),
            "status": status(conversation),
        }
    finally:
        conversation.close()
