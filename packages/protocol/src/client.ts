// What clients need at run time: none of it loads schemas, which take longer to load than a short command
// runs.
export { type ExportFormatName, exportFormats } from './agent-server/conversations/export-formats.ts'
export { must } from './core/assert.ts'
export { parseInstant } from './core/instant.ts'
export { noAnswerHeader } from './core/no-answer-header.ts'
export { Problem } from './core/problem.ts'
export { buildRoutePath } from './core/route-path.ts'
export { parseCursor } from './events/cursor-text.ts'
export { eventKinds } from './events/kinds.ts'
export { defaultSource, eventSources } from './events/sources.ts'
export { messageTexts } from './message-texts.ts'
export { agentServerPaths, sandboxServerPaths } from './route-paths.ts'
export { unlimited } from './sandbox-server/unlimited.ts'
