"""The tokens of a streamed reply, and the end of a run as the socket reports it."""

import logging

from .common import converse, kinds, status, wait_until


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def run(context):
    pieces = []
    records = Records()
    logger = logging.getLogger("openhands.sdk.conversation.impl.remote_conversation")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(records)
    conversation = converse(context, stream=True, token_callbacks=[pieces.append])
    try:
        conversation.send_message("Say something.")
        # Only the socket ends this run in time: polling begins after the first interval.
        conversation.run(poll_interval=50)
        wait_until(lambda: pieces, "tokens")
        text = "".join(
            piece if isinstance(piece, str) else (piece.choices[0].delta.content or "") for piece in pieces
        )
        path = f"/api/conversations/{conversation.id}/events/search?limit=100"
        stored = conversation.workspace.client.get(path).json()["items"]
        return {
            "text": text,
            "pieces": len([piece for piece in pieces if piece]),
            "kinds": kinds(conversation),
            "stored": sum("Delta" in one["kind"] for one in stored),
            "status": status(conversation),
            "byTheSocket": any("via post-run WebSocket" in text for text in records.texts),
        }
    finally:
        logger.removeHandler(records)
        logger.setLevel(level)
        conversation.close()
