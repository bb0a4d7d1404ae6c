import { readFileSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import {
  actionParameters,
  invalidInput,
  type Observation,
  parseAction,
  toolDefinitions,
} from '@slipway/protocol'
import { failureText } from '../core/file-access.ts'
import { type Tool, type ToolAction, type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { type CommandResult, type TerminalParams, TerminalSession } from './session.ts'

type Action = ToolAction<'TerminalAction'>

/**
 * The terminal of a conversation: one bash on a terminal of its own, started with the first command. Parameters:
 * `no_change_timeout_seconds` (above 0, default 30), `shell_path` (a bash, default `bash`), `env` (texts by name);
 * `username` and `terminal_type` say nothing here. Throws a Problem for parameters of another shape.
 */
export const openTerminal: ToolFactory = (context, params) => {
  const session = new TerminalSession(context, parseParams(params))
  const toObservation = (action: Action, answer: CommandResult) => createObservation(context, action, answer)
  const tool: Tool<Action> = {
    name: 'terminal',
    definition: { ...toolDefinitions.TerminalTool, description: terminalDescription() },
    parameters: actionParameters('TerminalAction'),
    parse: (args) => {
      const parsed = parseAction('TerminalAction', args)
      const issue = 'action' in parsed ? actionIssue(parsed.action) : undefined
      return issue === undefined ? parsed : { error: issue }
    },
    resources: () => ['terminal:session'],
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        return toObservation(action, await session.run(action, signal))
      } catch (error) {
        const reason = signal.aborted ? undefined : failureText(error)
        if (reason === undefined) throw error
        return toObservation(action, { note: reason, isError: true, exitCode: null })
      }
    },
    close: () => session.close(),
  }
  return [tool]
}

function terminalDescription(): string {
  return readFileSync(join(import.meta.dirname, 'terminal.md'), 'utf8').trim()
}

function parseParams(params: Readonly<Record<string, unknown>>): TerminalParams {
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
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.entries(value).every(
    ([name, text]) => typeof text === 'string' && !`${name}${text}`.includes('\0'),
  )
}

/** What is wrong with an action that its schema lets pass. */
function actionIssue({ command, is_input, reset }: Action): string | undefined {
  if (reset && is_input)
    return 'reset and is_input cannot be given together: a new shell has nothing that reads input.'
  if (command.includes('\0')) return 'The command contains a NUL character.'
  return undefined
}

/** The output is a text of its own, what we say about it another: readers tell them apart. Secrets are masked in all. */
function createObservation(context: ToolContext, action: Action, answer: CommandResult): Observation {
  const { output = '', prefix = '', note, savedTo, exitCode, prompt, directory } = answer
  const redact = (value: string) => context.secrets.redact(value)
  const displayed = prefix + output
  const redactedNote = redact(note)
  return {
    content: [...(displayed === '' ? [] : [textBlock(displayed)]), textBlock(redactedNote)],
    is_error: answer.isError ?? false,
    command: redact(action.reset ? `[RESET] ${action.command}`.trim() : action.command),
    exit_code: exitCode,
    timeout: answer.isTimedOut ?? false,
    metadata: {
      exit_code: exitCode ?? -1,
      pid: prompt?.pid ?? -1,
      ...systemIdentity(),
      working_dir: redact(directory ?? context.workspace.directory),
      ...(prompt?.python === undefined ? {} : { py_interpreter_path: redact(prompt.python) }),
      prefix,
      suffix: redactedNote,
    },
    ...(savedTo === undefined ? {} : { full_output_save_dir: join(savedTo, '..') }),
    kind: 'TerminalObservation',
  }
}

function systemIdentity(): { username?: string; hostname: string } {
  try {
    return { username: userInfo().username, hostname: hostname() }
  } catch {
    // A user id without a name is common in containers.
    return { hostname: hostname() }
  }
}
