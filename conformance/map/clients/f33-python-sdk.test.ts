import { endFamily, notApplicable, untested } from '../frame.ts'

/** Programs of the Python SDK; its calls without Python are in `conformance/wire/python-sdk.test.ts`. */
const noPython = 'the server runs no Python: tools of its own come from MCP servers and plugins'

untested('F33.workspace-exec', 'a command with its output and time limit')
untested('F33.workspace-bad-key', 'a wrong key is an error and leaves nothing')
untested('F33.workspace-background', 'a command in the background is read and stopped')
untested('F33.workspace-files', 'files are the same bytes both ways')
untested('F33.workspace-git', 'changes and differences of a repository')
untested('F33.workspace-settings', 'models, names of secrets and MCP servers')
untested('F33.async-workspace', 'the same without blocking')
untested('F33.workspace-runtime-scope', 'a workspace that belongs to a conversation')
notApplicable(
  'F33.workspace-runtime-lifecycle',
  'keys and containers of a conversation',
  'an agent server runs in its sandbox; sandboxes belong to the sandbox server',
)
untested('F33.conversation-create', 'an agent object makes a conversation')
untested('F33.conversation-create-request', 'a request makes a conversation once')
untested('F33.conversation-create-profile', 'an agent profile makes a conversation')
untested('F33.conversation-run', 'a blocking run returns at the end')
untested('F33.conversation-callbacks', 'callbacks see the events that are stored')
untested('F33.conversation-stats', 'numbers of the server')
untested('F33.conversation-stop-hook', 'a hook refuses the first stop')
untested('F33.client-tools', 'calls of tools of the client arrive with their types')
untested('F33.conversation-streaming', 'deltas arrive and are not stored')
untested('F33.conversation-token-callbacks', 'callbacks of tokens')
untested('F33.conversation-streaming-state', 'deltas are not among the events')
untested('F33.completion-logs', 'one log of each call of the model')
untested('F33.conversation-attach', 'a second program has the same history')
untested('F33.conversation-attach-large', 'a history of several pages')
untested('F33.conversation-state-reread', 'a second read is as the first')
untested('F33.conversation-ask-title', 'a side question, and titles')
untested('F33.conversation-fork', 'a fork with title and tags')
untested('F33.conversation-fork-branch', 'a fork at an event, and moves of its head')
untested('F33.conversation-plugins-tag', 'credentials of plugin addresses are masked')
untested('F33.conversation-confirmation', 'a run waits, and a call is rejected')
untested('F33.conversation-pause', 'a pause during a run, and the run goes on')
untested('F33.conversation-interrupt', 'an interrupt during a model call')
untested('F33.conversation-run-timeout', 'a run that takes too long goes on at the server')
untested('F33.conversation-run-join-long-tool', 'a second run joins a long call')
untested('F33.conversation-stuck', 'a loop of the agent is an error')
untested('F33.conversation-secrets', 'values and look-ups reach commands, masked')
untested('F33.conversation-run-error', 'a refused key is an error with its code')
untested('F33.ws-unavailable', 'without sockets the program fails, or goes on over REST')
untested('F33.conversation-reconnect', 'a program survives a restart of the server')
untested('F33.conversation-reconnect-callbacks', 'events during an outage reach the callbacks')
untested('F33.conversation-restart', 'a new program goes on after a restart')
notApplicable('F33.custom-tool-module', 'a tool of a Python module', noPython)
untested('F33.custom-tool-module-unimportable', 'a module that cannot be had is an error of the caller')
untested('F33.conversation-close', 'closing keeps or deletes the conversation')

endFamily('F33', 43)
