import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import {
  type BackgroundTerminalAction,
  type BackgroundTerminalObservation,
  backgroundTerminalAction,
  backgroundTerminalTool,
} from '@slipway/protocol'
import { raceAbort } from '@slipway/shared/async'
import { defineOpenKindTool } from '../core/open-kind-tool.ts'
import { outputLimits } from '../core/output-limits.ts'
import { type ToolContext, type ToolFactory, textBlock } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { checkCommand, shorten } from './check-command.ts'
import { keystrokes } from './keys.ts'
import { OutputLog } from './output-log.ts'
import { plainOutputEnv, startFailure, type TerminalParams } from './session.ts'
import { Shell } from './shell.ts'
import { parseTerminalParams } from './terminal.ts'

/** Terminals of a conversation at the same time. */
const maxTerminals = 8
/** Silence before checking whether a command waits for input. */
const inputCheckMs = 1000
/** Wait of a call without a time limit: long enough to notice that a program asks. */
const defaultWaitMs = 2000
/** Looks in a row that find nothing new wait longer each time: each costs a request. */
const emptyWaitsMs = [defaultWaitMs, 60_000, 120_000, 300_000]
const maxWaitMs = 600_000

/**
 * Commands in their own terminals, each with an id: they run on while the agent does something else, and
 * end with the conversation. Takes the parameters of the terminal.
 */
export const openBackgroundTerminal: ToolFactory = (context, params) => {
  const terminals = new BackgroundTerminals(context, parseTerminalParams(params))
  return defineOpenKindTool<BackgroundTerminalAction, BackgroundTerminalObservation>({
    definition: backgroundTerminalTool,
    schema: backgroundTerminalAction,
    resources: ({ id }) => (id ? [`terminal:${id}`] : []),
    run: (action, signal) => terminals.run(action, signal),
    failureMembers: ({ id }) => ({ id: id ?? null }),
    isOccupied: () => terminals.isOccupied(),
    close: () => terminals.close(),
  })
}

interface BackgroundTerminal {
  readonly id: string
  readonly shell: Shell
  readonly log: OutputLog
  command: string
  exitCode: number | null
  /** The end of its output when it was seen to wait for input. */
  waitingAt: number | undefined
  /** The end of the output of the last result. */
  cursor: number
  /** Looks in a row that found nothing new. */
  emptyLooks: number
}

class BackgroundTerminals {
  readonly #context: ToolContext
  readonly #params: TerminalParams
  /** By id; oldest first. */
  readonly #terminals = new Map<string, BackgroundTerminal>()
  /** Being opened. */
  #opening = 0
  #isClosed = false

  constructor(context: ToolContext, params: TerminalParams) {
    this.#context = context
    this.#params = params
  }

  async run(action: BackgroundTerminalAction, signal: AbortSignal): Promise<BackgroundTerminalObservation> {
    switch (action.operation) {
      case 'start':
        return await this.#start(action, signal)
      case 'output': {
        const terminal = this.#find(action)
        terminal.shell.flush()
        return await this.#look(terminal, action, signal)
      }
      case 'input': {
        const terminal = this.#find(action)
        if (!terminal.shell.isBusy)
          throw new ToolError(`The command of terminal ${terminal.id} has ended: nothing reads input.`)
        Object.assign(terminal, { waitingAt: undefined, emptyLooks: 0 })
        terminal.shell.type(keystrokes(action.command ?? ''))
        return await this.#output(terminal, action, defaultWaitMs, signal)
      }
      case 'kill': {
        const terminal = this.#find(action)
        const wasBusy = terminal.shell.isBusy
        terminal.shell.flush()
        await this.#remove(terminal)
        if (wasBusy) terminal.exitCode = 137
        return this.#result(terminal, action, wasBusy ? 'Killed' : 'Closed')
      }
      case 'list':
        return this.#list()
    }
  }

  async isOccupied(): Promise<boolean> {
    const shells = [...this.#terminals.values()].map(({ shell }) => shell.isOccupied())
    return this.#opening > 0 || (await Promise.all(shells)).includes(true)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#terminals.values()].map((terminal) => this.#remove(terminal)))
  }

  async #start(
    action: BackgroundTerminalAction,
    signal: AbortSignal,
  ): Promise<BackgroundTerminalObservation> {
    const { workspace, secrets } = this.#context
    const { command } = action
    if (!command || command.includes('\0')) throw new ToolError('start needs a command.')
    const refusal = await checkCommand(command, { workspace, path: this.#params.shellPath }, signal)
    if (refusal !== undefined) throw new ToolError(refusal)
    const [variables] = await raceAbort(
      Promise.all([secrets.findMentioned(command), secrets.resolveAll()]),
      signal,
    )
    const missing = secrets.lookupFailure(command)
    if (missing !== undefined) throw new ToolError(`${missing} The command was not executed.`)
    const terminal = action.id ? this.#find(action) : await this.#open()
    try {
      if (terminal.shell.isBusy)
        throw new ToolError(
          `Terminal ${terminal.id} still runs: ${shorten(secrets.redact(terminal.command))}. Start without an id, or kill it first.`,
        )
      await terminal.shell.setVariables(variables)
      terminal.cursor = terminal.log.total
      Object.assign(terminal, { command, exitCode: null, waitingAt: undefined, emptyLooks: 0 })
      await terminal.shell.run(command)
      return await this.#output(terminal, action, defaultWaitMs, signal)
    } finally {
      // The model never learns its id.
      if (signal.aborted && !action.id) await this.#remove(terminal)
    }
  }

  async #open(): Promise<BackgroundTerminal> {
    if (this.#terminals.size + this.#opening >= maxTerminals) {
      const ended = [...this.#terminals.values()].find(({ shell }) => !shell.isBusy)
      if (ended === undefined)
        throw new ToolError(`${maxTerminals} terminals are open, and all are busy: kill one first.`)
      await this.#remove(ended)
    }
    const { workspace, directory, secrets } = this.#context
    const { shellPath, env } = this.#params
    // Random, so that an id of an earlier start of the server is never that of another command.
    const id = randomBytes(3).toString('hex')
    const log = new OutputLog((text) => secrets.redact(text))
    this.#opening++
    const shell = await Shell.start({
      workspace,
      path: shellPath,
      env: { ...plainOutputEnv, ...env },
      directory: join(directory, 'terminals', id),
      onText: (text) => log.write(text),
    }).finally(() => this.#opening--)
    if (shell === undefined) throw new ToolError(startFailure(shellPath, workspace.sandbox !== undefined))
    const state = { command: '', exitCode: null, waitingAt: undefined, cursor: 0, emptyLooks: 0 }
    const terminal = { id, shell, log, ...state }
    this.#terminals.set(id, terminal)
    if (this.#isClosed) {
      await this.#remove(terminal)
      throw new ToolError('The conversation is closed.')
    }
    return terminal
  }

  #find({ id }: BackgroundTerminalAction): BackgroundTerminal {
    const terminal = this.#terminals.get(id ?? '')
    if (terminal !== undefined) return terminal
    const known = [...this.#terminals.keys()].join(', ')
    throw new ToolError(
      `There is no terminal ${id ?? 'without an id'}; terminals end when the conversation is closed. ${known === '' ? 'None is open.' : `Open: ${known}.`}`,
    )
  }

  async #remove(terminal: BackgroundTerminal): Promise<void> {
    this.#terminals.delete(terminal.id)
    await terminal.shell.close()
  }

  /** What is new; when nothing is, after waiting for output too, longer each time. */
  async #look(
    terminal: BackgroundTerminal,
    action: BackgroundTerminalAction,
    signal: AbortSignal,
  ): Promise<BackgroundTerminalObservation> {
    const from = action.cursor ?? terminal.cursor
    const hasNews = () => from < terminal.log.total
    const waitMs = hasNews() ? 0 : (emptyWaitsMs[terminal.emptyLooks] ?? maxWaitMs)
    const result = await this.#output(terminal, action, waitMs, signal)
    terminal.emptyLooks = hasNews() ? 0 : terminal.emptyLooks + 1
    return result
  }

  /** The output after waiting for the end of the command, or for a question of it. */
  async #output(
    terminal: BackgroundTerminal,
    action: BackgroundTerminalAction,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<BackgroundTerminalObservation> {
    const { shell } = terminal
    const timeoutMs = typeof action.timeout === 'number' ? action.timeout * 1000 : waitMs
    const endsWithOutput = typeof action.timeout !== 'number' && waitMs > defaultWaitMs
    const outcome = await shell.wait({ timeoutMs, inputMs: inputCheckMs, endsWithOutput }, signal)
    if (outcome.kind === 'prompt') terminal.exitCode = outcome.prompt.exitCode
    if (outcome.kind === 'ended') terminal.exitCode = outcome.exitCode
    shell.flush()
    if (outcome.kind === 'input') terminal.waitingAt = terminal.log.total
    if (shell.hasExited) await this.#remove(terminal)
    return this.#result(terminal, action)
  }

  #result(
    terminal: BackgroundTerminal,
    action: BackgroundTerminalAction,
    ending = 'Ended',
  ): BackgroundTerminalObservation {
    const { id, log, exitCode } = terminal
    const from = action.cursor ?? terminal.cursor
    const { text, start, end, total } = log.read(from, outputLimits.background_terminal)
    terminal.cursor = end
    const dropped = start > from ? [`[${start - from} older characters are no longer stored.]`] : []
    const rest = end < total ? ` ${total - end} more characters wait: ask for output again.` : ''
    const status = this.#status(terminal)
    const state = {
      running: 'Still running',
      waiting_for_input: 'It waits for input: answer with input',
      ended: `${ending} with exit code ${exitCode}`,
    }[status]
    const note = `[Terminal ${id}. ${state}. The cursor is ${end}.${rest}]`
    const texts = [...dropped, ...(text === '' ? [] : [text.replace(/\n$/, '')]), note]
    return {
      content: texts.map(textBlock),
      is_error: false,
      id,
      status,
      exit_code: exitCode,
      cursor: end,
      kind: 'BackgroundTerminalObservation',
    }
  }

  #status({
    shell,
    log,
    waitingAt,
    exitCode,
  }: BackgroundTerminal): 'running' | 'waiting_for_input' | 'ended' {
    if (!shell.isBusy || exitCode !== null) return 'ended'
    return waitingAt === log.total ? 'waiting_for_input' : 'running'
  }

  #list(): BackgroundTerminalObservation {
    const { secrets } = this.#context
    const lines = [...this.#terminals.values()].map((terminal) => {
      terminal.exitCode ??= terminal.shell.isBusy ? null : terminal.shell.prompt.exitCode
      const code = terminal.exitCode === null ? '' : ` with exit code ${terminal.exitCode}`
      const command = shorten(secrets.redact(terminal.command).replace(/\s+/g, ' '))
      const unread = terminal.log.total - terminal.cursor
      return `${terminal.id} ${this.#status(terminal)}${code}, ${unread} new characters: ${command}`
    })
    const text = lines.length === 0 ? 'No terminal is open.' : lines.join('\n')
    return { content: [textBlock(text)], is_error: false, kind: 'BackgroundTerminalObservation' }
  }
}
