import { readFileSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import { actionParameters, invalid, type Observation, parseAction, toolDefinitions } from '@slipway/protocol'
import { failureText } from '../core/file-access.ts'
import { type OpenTools, type Tool, type ToolAction, type ToolContext, text } from '../core/tool.ts'
import { type Answer, Session, type SessionParams } from './session.ts'

type Action = ToolAction<'TerminalAction'>

/**
 * The terminal of a conversation: one bash on a terminal of its own, started with the first command. Parameters:
 * `no_change_timeout_seconds` (above 0, default 30), `shell_path` (a bash, default `bash`), `env` (texts by name);
 * `username` and `terminal_type` say nothing here. Throws a Problem for parameters of another shape.
 */
export const openTerminal: OpenTools = (context, params) => {
  const session = new Session(context, readParams(params))
  const observe = (action: Action, answer: Answer) => observation(context, action, answer)
  const tool: Tool<Action> = {
    name: 'terminal',
    definition: { ...toolDefinitions.TerminalTool, description: description() },
    parameters: actionParameters('TerminalAction'),
    parse: (args) => {
      const parsed = parseAction('TerminalAction', args)
      const fault = 'action' in parsed ? faultOf(parsed.action) : undefined
      return fault === undefined ? parsed : { error: fault }
    },
    resources: () => ['terminal:session'],
    run: async (action, signal) => {
      try {
        signal.throwIfAborted()
        return observe(action, await session.run(action, signal))
      } catch (error) {
        const why = signal.aborted ? undefined : failureText(error)
        if (why === undefined) throw error
        return observe(action, { note: why, isError: true, exitCode: null })
      }
    },
    close: () => session.close(),
  }
  return [tool]
}

function description(): string {
  return readFileSync(join(import.meta.dirname, 'terminal.md'), 'utf8').trim()
}

function readParams(params: Readonly<Record<string, unknown>>): SessionParams {
  const { no_change_timeout_seconds: quiet = null, shell_path: path = null, env = null } = params
  if (quiet !== null && !(typeof quiet === 'number' && quiet > 0))
    throw invalid(['params', 'no_change_timeout_seconds'], 'Input should be a number greater than 0')
  if (path !== null && (typeof path !== 'string' || path === '' || path.includes('\0')))
    throw invalid(['params', 'shell_path'], 'Input should be the path of a bash')
  if (env !== null && !isTexts(env)) throw invalid(['params', 'env'], 'Input should be an object of strings')
  return { quietMs: (quiet ?? 30) * 1000, shellPath: path ?? 'bash', env: env ?? {} }
}

function isTexts(value: unknown): value is Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.entries(value).every(
    ([name, text]) => typeof text === 'string' && !`${name}${text}`.includes('\0'),
  )
}

/** What is wrong with an action that its schema lets pass. */
function faultOf({ command, is_input, reset }: Action): string | undefined {
  if (reset && is_input)
    return 'reset and is_input cannot be given together: a new shell has nothing that reads input.'
  if (command.includes('\0')) return 'The command contains a NUL character.'
  return undefined
}

/** The output is a text of its own, what we say about it another: readers tell them apart. Secrets are masked in all. */
function observation(context: ToolContext, action: Action, answer: Answer): Observation {
  const { output = '', prefix = '', note, savedTo, exitCode, prompt, directory } = answer
  const mask = (value: string) => context.secrets.mask(value)
  const shown = prefix + output
  const said = mask(note)
  return {
    content: [...(shown === '' ? [] : [text(shown)]), text(said)],
    is_error: answer.isError ?? false,
    command: mask(action.reset ? `[RESET] ${action.command}`.trim() : action.command),
    exit_code: exitCode,
    timeout: answer.isTimedOut ?? false,
    metadata: {
      exit_code: exitCode ?? -1,
      pid: prompt?.pid ?? -1,
      ...identity(),
      working_dir: mask(directory ?? context.workspace.directory),
      ...(prompt?.python === undefined ? {} : { py_interpreter_path: mask(prompt.python) }),
      prefix,
      suffix: said,
    },
    ...(savedTo === undefined ? {} : { full_output_save_dir: join(savedTo, '..') }),
    kind: 'TerminalObservation',
  }
}

function identity(): { username?: string; hostname: string } {
  try {
    return { username: userInfo().username, hostname: hostname() }
  } catch {
    // A user id without a name is common in containers.
    return { hostname: hostname() }
  }
}
