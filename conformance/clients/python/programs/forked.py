"""Forks of a conversation: whole, with a title and tags, and up to an event; and a head that moves."""

from .common import converse, kinds, status, wait_until


def finish(conversation, message):
    conversation.send_message(message)
    conversation.run(poll_interval=0.2)
    wait_until(lambda: status(conversation) == "finished", "the end of the run")
    conversation.state.events.reconcile()


def run(context):
    source = converse(context)
    opened = [source]
    try:
        finish(source, "Run a command.")
        before = kinds(source)
        fork = source.fork(title="A fork")
        opened.append(fork)
        copied = kinds(fork)
        finish(fork, "Go on.")
        source.state.events.reconcile()
        tagged = source.fork(title="An experiment", tags={"purpose": "a/b"})
        opened.append(tagged)
        message = next(event for event in source.state.events if type(event).__name__ == "MessageEvent")
        part = source.fork(from_event_id=message.id)
        opened.append(part)
        part_kinds = kinds(part)
        source.navigate_to(message.id)
        return {
            "isNew": fork.id != source.id,
            "copied": copied == before,
            "grown": len(kinds(fork)) > len(before),
            "sourceUnchanged": kinds(source) == before,
            "title": fork.state.refresh_from_server()["title"],
            "tags": tagged.state.refresh_from_server()["tags"],
            "partKinds": part_kinds,
            "head": source.state.refresh_from_server()["leaf_event_id"] == message.id,
        }
    finally:
        for conversation in opened:
            conversation.close()
