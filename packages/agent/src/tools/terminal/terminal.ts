import { hostname, userInfo } from 'node:os'
import { dirname } from 'node:path'
import { invalidInput } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { toolUser } from '@slipway/shared/tool-files'
import { defineTool } from '../core/define-tool.ts'
import { type ToolAction, type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { type CommandResult, type TerminalParams, TerminalSession } from './session.ts'

type Action = ToolAction<'TerminalAction'>

/**
 * The terminal of a conversation: one bash, started with the first command. Parameters:
 * `no_change_timeout_seconds` (above 0, default 30), `shell_path` (a bash, default `bash`) and `env` (texts
 * by name); `username` and `terminal_type` are ignored. Throws a Problem for invalid parameters.
 */
export const openTerminal: ToolFactory = (context, params) => {
  const parsed = parseTerminalParams(params)
  const session = new TerminalSession(context, parsed)
  /** A separate shell: what was allowed is one command, not what is typed into it later. */
  const outside = new TerminalSession(context, parsed, true)
  return defineTool({
    kind: 'Terminal',
    check: actionIssue,
    resources: () => ['terminal:session'],
    run: async (action, signal, { isOutside = false } = {}) =>
      toolResult(context, action, await (isOutside ? outside : session).run(action, signal)),
    failureMembers: (action, reason) =>
      toolResult(context, action, { note: reason, isError: true, exitCode: null }),
    isOccupied: async () => (await session.isOccupied()) || (await outside.isOccupied()),
    close: async () => void (await Promise.all([session.close(), outside.close()])),
  })
}

/** The parameters of a terminal; throws a Problem for invalid ones. */
export function parseTerminalParams(params: Readonly<Record<string, unknown>>): TerminalParams {
  const { no_change_timeout_seconds: quietSeconds = null, shell_path: path = null, env = null } = params
  if (quietSeconds !== null && !(typeof quietSeconds === 'number' && quietSeconds > 0))
    throw invalidInput(['params', 'no_change_timeout_seconds'], 'Input should be a number greater than 0')
  if (path !== null && (typeof path !== 'string' || path === '' || path.includes('\0')))
    throw invalidInput(['params', 'shell_path'], 'Input should be the path of a bash')
  if (env !== null && !isStringRecord(env))
    throw invalidInput(['params', 'env'], 'Input should be an object of strings')
  return { quietMs: (quietSeconds ?? 30) * 1000, shellPath: path ?? 'bash', env: env ?? {} }
}

function isStringRecord(value: unknown): value is Record<string, string> {
  const isText = ([name, text]: [string, unknown]) =>
    typeof text === 'string' && !`${name}${text}`.includes('\0')
  return isRecord(value) && Object.entries(value).every(isText)
}

/** What is wrong with an action that its schema accepts. */
function actionIssue({ command, is_input, reset }: Action): string | undefined {
  if (reset && is_input)
    return 'reset and is_input cannot be given together: a new shell has nothing that reads input.'
  return command.includes('\0') ? 'The command contains a NUL character.' : undefined
}

/** The output and the note about it are separate text blocks. All texts are redacted. */
function toolResult(context: ToolContext, action: Action, result: CommandResult) {
  const { output = '', prefix = '', note, savedTo, exitCode, prompt, directory } = result
  const redact = (value: string) => context.secrets.redact(value)
  const displayed = prefix + output
  const redactedNote = redact(note)
  return {
    content: [...(displayed === '' ? [] : [textBlock(displayed)]), textBlock(redactedNote)],
    is_error: result.isError ?? false,
    command: redact(action.reset ? `[RESET] ${action.command}`.trim() : action.command),
    exit_code: exitCode,
    timeout: result.isTimedOut ?? false,
    metadata: {
      exit_code: exitCode ?? -1,
      pid: prompt?.pid ?? -1,
      ...systemIdentity(),
      working_dir: redact(directory ?? context.workspace.directory),
      ...(prompt?.python !== undefined && { py_interpreter_path: redact(prompt.python) }),
      prefix,
      suffix: redactedNote,
    },
    ...(savedTo !== undefined && { full_output_save_dir: dirname(savedTo) }),
  }
}

function systemIdentity(): { username?: string; hostname: string } {
  try {
    return { username: toolUser()?.name ?? userInfo().username, hostname: hostname() }
  } catch {
    // In containers, a user id often has no name.
    return { hostname: hostname() }
  }
}
