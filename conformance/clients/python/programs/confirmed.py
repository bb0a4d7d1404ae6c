"""Every action waits for a confirmation: one is rejected, one is accepted by another run."""

import os

from openhands.sdk.security.confirmation_policy import AlwaysConfirm, NeverConfirm
from openhands.sdk.security.llm_analyzer import LLMSecurityAnalyzer

from .common import converse, kinds, observations, status, wait_until


def run(context):
    conversation = converse(context)
    try:
        conversation.set_confirmation_policy(AlwaysConfirm())
        conversation.set_security_analyzer(LLMSecurityAnalyzer())
        conversation.send_message("Make a file.")
        conversation.run(poll_interval=0.2)
        waiting = status(conversation)
        conversation.reject_pending_actions("Not that one.")
        wait_until(
            lambda: conversation.state.events.reconcile() is not None and "UserRejectObservation" in kinds(conversation),
            "the rejection",
        )
        rejected = [e.rejection_reason for e in conversation.state.events if type(e).__name__ == "UserRejectObservation"]
        conversation.run(poll_interval=0.2)
        again = status(conversation)
        before = sorted(os.listdir(context.directory))
        # A run accepts what waits.
        conversation.set_confirmation_policy(NeverConfirm())
        conversation.run(poll_interval=0.2)
        wait_until(lambda: status(conversation) == "finished", "the end of the run")
        conversation.state.events.reconcile()
        return {
            "waiting": [waiting, again],
            "rejected": rejected,
            "before": before,
            "after": sorted(os.listdir(context.directory)),
            "observations": observations(conversation),
            "policy": type(conversation.state.confirmation_policy).__name__,
            "analyzer": type(conversation.state.security_analyzer).__name__,
        }
    finally:
        conversation.close()
