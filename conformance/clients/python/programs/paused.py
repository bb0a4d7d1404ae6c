"""A run is paused between steps and resumed; another is interrupted within a command."""

from .common import converse, kinds, status, wait_until


def run(context):
    conversation = converse(context)
    try:
        conversation.send_message("Wait twice.")
        conversation.run(blocking=False)
        wait_until(lambda: "ActionEvent" in kinds(conversation), "the first call")
        conversation.pause()
        wait_until(lambda: status(conversation) == "paused", "the pause")
        paused = status(conversation)
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        conversation.send_message("Wait long.")
        conversation.run(blocking=False)
        calls = kinds(conversation).count("ActionEvent")
        wait_until(lambda: kinds(conversation).count("ActionEvent") > calls, "the long call")
        conversation.interrupt()
        wait_until(lambda: status(conversation) == "paused", "the interruption")
        conversation.state.events.reconcile()
        return {"paused": paused, "kinds": kinds(conversation)}
    finally:
        conversation.close()
