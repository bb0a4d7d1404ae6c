/** The functions that `examples/` uses: output, requests, and the command of the agent server. */

export { listCommand } from './commands/conversations/conversations.ts'
export { printRun, usageLine } from './commands/conversations/follow-run.ts'
export { eventTable, type SearchQuery } from './commands/conversations/search.ts'
export { statusLine } from './commands/sandboxes/app-start.ts'
export { agentServerCommand } from './commands/server/sandbox-server.ts'
export { startConsole } from './console/console-start.ts'
export { openBrowser } from './console/open-browser.ts'
export type { Config } from './context/config.ts'
export {
  buildAgent,
  buildConfirmationSettings,
  buildLlm,
  type SelectedModel,
} from './conversation/agent-request.ts'
export { isInteractive, promptForConfirmation } from './conversation/confirmation-prompt.ts'
export { formatPendingAction, readPendingQuestion } from './conversation/pending-actions.ts'
export { getAppConversation, remoteEvents } from './conversation/remote-events.ts'
export { agentSource } from './conversation/source/agent-source.ts'
export { followStartTask } from './conversation/start-tasks.ts'
export { asObject } from './output/action-text.ts'
export { commandName } from './output/command-name.ts'
export { sanitizeLine } from './output/sanitize.ts'
export { paint, print, printNote } from './output/terminal.ts'
export { TranscriptRenderer } from './output/transcript.ts'
export { parseRawPage } from './parsing/raw-page.ts'
export { toReadableStream } from './parsing/to-readable-stream.ts'
