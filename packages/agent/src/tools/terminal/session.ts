/**
 * The terminal of a conversation: one shell, and calls that take turns with it.
 *
 * Problem: a call has to return, but its command may run for hours, say nothing, ask a question, start
 * background jobs or write 100 MB. Directory, variables and jobs live on between calls.
 *
 * Idea: a call starts a command or continues with the running one. It returns at the first of: the prompt,
 * the end of the shell, silence, a wait for input, its time limit, an interruption. It has the output since
 * the last call.
 *
 * Invariants:
 * - One command at a time: while one runs, another command is refused and not queued (`#dispatch`).
 * - A command is checked for its syntax before the shell gets it (`checkCommand`): the shell would wait for
 *   the rest of an incomplete one, and take the next command for it.
 * - All values of secrets are known before a command starts (`#start`): its output is redacted as it comes
 *   in, also in files. A command that names a secret without a value does not run.
 * - Output is returned once: `#takeOutput` puts a new capture in the place of the old one before it waits.
 * - A note is not redacted. It has our words, the command as received, and the directory; never output.
 * - Waits without output are longer each time (`waitFactors`), so that a model does not ask every minute. A
 *   call with `timeout` waits for that time, whatever the silence.
 * - An interrupted call stops its command before it returns (`shell.interrupt`).
 * - After `close` nothing runs: a shell that was starting meanwhile is closed again (`#ensureShell`).
 *
 * If you change this: two commands mixed in one shell, a secret in a file, or a program that outlives its
 * conversation. How a prompt is told from output that looks like one: `shell-prompt.ts`.
 */

import { join } from 'node:path'
import { raceAbort } from '@slipway/shared/async'
import { describeSandbox, looksRefused, needsPrivileges } from '../../workspace/command-sandbox.ts'
import { outputLimits } from '../core/output-limits.ts'
import type { ToolAction, ToolContext } from '../core/tool.ts'
import { checkCommand, shorten } from './check-command.ts'
import { keyName, keystrokes } from './keys.ts'
import { OutputCapture } from './output-capture.ts'
import { Shell, type WaitResult } from './shell.ts'
import type { ShellPrompt } from './shell-prompt.ts'

type Action = ToolAction<'TerminalAction'>

export interface TerminalParams {
  /** Silence after which the call of a command without a time limit returns. */
  readonly quietMs: number
  readonly shellPath: string
  readonly env: Readonly<Record<string, string>>
}

/** The result of a call. */
export interface CommandResult {
  /** Redacted. */
  readonly output?: string
  /** The file with all of a long output. */
  readonly savedTo?: string | undefined
  /** Precedes the output. */
  readonly prefix?: string
  /** The status, in brackets; not redacted. */
  readonly note: string
  readonly isError?: boolean
  /** -1 while a command runs, null when none ran. */
  readonly exitCode: number | null
  /** The time limit of the call was reached. */
  readonly isTimedOut?: boolean
  readonly prompt?: ShellPrompt | undefined
  /** The working directory of the shell, if known. */
  readonly directory?: string | undefined
}

const maxFileBytes = 100_000_000
/** Maximum wait for a command without its own time limit. */
const maxWaitMs = 600_000
/** Factors of `quietMs` for waits in a row without new output: by default 1, 2, 5 and 10 minutes. */
const waitFactors = [2, 4, 10, 20]
/** Silence before checking whether a command waits for input. */
const inputCheckMs = 1000
/** Disables pagers; a dumb terminal gets plain output from most programs. */
export const plainOutputEnv = {
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: 'cat',
  GH_PAGER: 'cat',
  LESS: '-FRX',
  TERM: 'dumb',
}
const continueHint =
  'Send an empty command to wait on (longer each time, or for `timeout` seconds), text with is_input to answer it, or C-c with is_input to stop it.'

export function startFailure(shellPath: string, isSandboxed: boolean): string {
  const place = isSandboxed ? ' in the sandbox: is bubblewrap installed? Nothing was executed' : ''
  return `The shell ${shellPath} cannot be started${place}.`
}

function refusedText(sandbox: string): string {
  return `Commands run in a sandbox: ${sandbox}. If the task needs more, make the call again with outside_sandbox: the user is asked first.`
}

const hiddenText =
  'Programs gain no privileges here, because the keys of the server are hidden from them. The operator can change that: SLIPWAY_COMMAND_SANDBOX=off.'

/** The shell of a conversation, for the calls of its terminal tool. */
export class TerminalSession {
  readonly #context: ToolContext
  readonly #params: TerminalParams
  readonly #isOutside: boolean
  #shell: Shell | undefined
  #capture: OutputCapture
  /** The running command, as received. */
  #running = ''
  /** Waits in a row that brought no output. */
  #emptyWaits = 0
  /** The working directory that the last note has named; at first that of the workspace. */
  #reportedDirectory: string
  #isClosed = false

  /** `isOutside`: not in the sandbox of the workspace. */
  constructor(context: ToolContext, params: TerminalParams, isOutside = false) {
    this.#context = context
    this.#params = params
    this.#isOutside = isOutside
    this.#reportedDirectory = context.workspace.directory
    this.#capture = this.#newCapture()
  }

  async run(action: Action, signal: AbortSignal): Promise<CommandResult> {
    const answer = await this.#dispatch(action, signal)
    return { ...answer, directory: this.#shell?.prompt.directory }
  }

  /** A command runs in it, also in the background. */
  async isOccupied(): Promise<boolean> {
    return (await this.#shell?.isOccupied()) ?? false
  }

  /** Ends the shell and everything started in it. Nothing can run afterwards. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#closeShell()
  }

  async #dispatch(action: Action, signal: AbortSignal): Promise<CommandResult> {
    if (action.reset) return await this.#reset(action, signal)
    const isBusy = this.#shell?.isBusy ?? false
    if (action.command === '' || action.is_input)
      return isBusy ? await this.#continueCommand(action, signal) : await this.#idleResult()
    return isBusy ? await this.#rejectBusy() : await this.#start(action, signal)
  }

  async #reset(action: Action, signal: AbortSignal): Promise<CommandResult> {
    await this.#closeShell()
    const notice = `The terminal was reset: a new shell in ${this.#context.workspace.directory}.`
    if (action.command === '')
      return (await this.#ensureShell()) ?? { note: `[${notice}]`, exitCode: 0, prompt: this.#shell?.prompt }
    const answer = await this.#start(action, signal)
    return { ...answer, prefix: `[${notice}]\n` }
  }

  async #start(action: Action, signal: AbortSignal): Promise<CommandResult> {
    const { workspace, secrets } = this.#context
    const shell = { workspace, path: this.#params.shellPath }
    const refusal = await checkCommand(action.command, shell, signal)
    if (refusal !== undefined) return { note: refusal, isError: true, exitCode: null }
    const failure = await this.#ensureShell()
    if (failure !== undefined) return failure
    const [variables] = await raceAbort(
      Promise.all([secrets.findMentioned(action.command), secrets.resolveAll()]),
      signal,
    )
    const missing = secrets.lookupFailure(action.command)
    if (missing !== undefined)
      return { note: `${missing} The command was not executed.`, isError: true, exitCode: null }
    await this.#shell?.setVariables(variables)
    this.#running = action.command
    this.#emptyWaits = 0
    await this.#shell?.run(action.command)
    return await this.#wait(action, signal)
  }

  async #continueCommand(action: Action, signal: AbortSignal): Promise<CommandResult> {
    const isWait = action.command === ''
    if (!isWait) this.#shell?.type(keystrokes(action.command))
    const key = action.is_input ? keyName(action.command) : undefined
    const factor = isWait ? (waitFactors[this.#emptyWaits] ?? waitFactors.at(-1) ?? 1) : 1
    const answer = await this.#wait(action, signal, factor * this.#params.quietMs)
    this.#emptyWaits = isWait && !answer.output ? this.#emptyWaits + 1 : 0
    const source = `of the command that was running${key === undefined ? '' : `, after ${key}`}`
    const prefix = answer.output ? `[Output ${source}, since the last time:]\n` : `[No new output ${source}.]`
    return { ...answer, prefix }
  }

  /** No command runs; output of background jobs is returned. */
  async #idleResult(): Promise<CommandResult> {
    this.#shell?.flush()
    const note = '[No command is running: there is nothing to wait for or to type into.]'
    const result = { note, isError: true, exitCode: null }
    if (this.#capture.isEmpty) return result
    return { ...(await this.#takeOutput()), prefix: '[Output of background jobs:]\n', ...result }
  }

  async #rejectBusy(): Promise<CommandResult> {
    const captured = await this.#takeOutput()
    const note = `[Not run: this command is still running: ${shorten(this.#running)}. ${continueHint}]`
    return { ...captured, note, isError: true, exitCode: -1 }
  }

  async #wait(action: Action, signal: AbortSignal, quietMs = this.#params.quietMs): Promise<CommandResult> {
    const shell = this.#shell
    if (shell === undefined) throw new Error('The terminal has no shell.')
    const limits =
      typeof action.timeout === 'number'
        ? { timeoutMs: action.timeout * 1000, inputMs: inputCheckMs }
        : { timeoutMs: maxWaitMs, quietMs, inputMs: inputCheckMs }
    const pause = await shell.wait(limits, signal)
    if (pause.kind === 'aborted') await shell.interrupt()
    const captured = await this.#takeOutput()
    if (shell.hasExited) {
      await this.#closeShell()
      if (this.#isClosed) return { ...captured, note: '[The terminal was closed.]', exitCode: -1 }
    }
    const result = this.#pauseResult(pause, action, quietMs)
    const reason = result.exitCode === 0 ? undefined : this.#refusal(captured.output)
    return { ...captured, ...result, ...(reason && { note: `${result.note}\n[${reason}]` }) }
  }

  /** Why a command failed, when its output looks as if its walls were the reason. */
  #refusal(output: string): string | undefined {
    const { sandbox, isHiding } = this.#context.workspace
    if (sandbox !== undefined && !this.#isOutside)
      return looksRefused(output) ? refusedText(describeSandbox(sandbox)) : undefined
    return isHiding && needsPrivileges(output) ? hiddenText : undefined
  }

  #pauseResult(pause: WaitResult, action: Action, quietMs: number): CommandResult {
    if (pause.kind === 'prompt') {
      const { prompt } = pause
      const { exitCode, directory } = prompt
      const moved = directory === this.#reportedDirectory ? '' : `. Working directory: ${directory}`
      this.#reportedDirectory = directory
      return { note: `[Exit code ${exitCode}${moved}]`, exitCode, prompt }
    }
    if (pause.kind === 'ended') {
      const { directory } = this.#context.workspace
      const note = `[The shell itself ended, with exit code ${pause.exitCode}. The next command gets a new one in ${directory}; variables and background jobs are gone.]`
      return { note, exitCode: pause.exitCode }
    }
    if (pause.kind === 'aborted') return { note: '[Interrupted.]', exitCode: -1 }
    const reasons = {
      timeout: ` after ${action.timeout ?? maxWaitMs / 1000} seconds`,
      input: ': it waits for input',
      quiet: `; nothing was written for ${quietMs / 1000} seconds`,
    }
    const note = `[Still running${reasons[pause.kind]}. ${continueHint}]`
    return { note, exitCode: -1, isTimedOut: pause.kind === 'timeout' && typeof action.timeout === 'number' }
  }

  /** Starts the shell if needed; returns the failure otherwise. */
  async #ensureShell(): Promise<CommandResult | undefined> {
    if (this.#isClosed) throw new Error('The terminal is closed.')
    if (this.#shell?.hasExited) await this.#closeShell()
    const { workspace, directory } = this.#context
    this.#shell ??= await Shell.start({
      workspace,
      path: this.#params.shellPath,
      env: { ...plainOutputEnv, ...this.#params.env },
      directory: join(directory, this.#isOutside ? 'terminal-outside' : 'terminal'),
      isOutside: this.#isOutside,
      onText: (part) => this.#capture.write(part),
    })
    if (this.#isClosed) await this.#closeShell()
    if (this.#shell !== undefined) return undefined
    const isSandboxed = workspace.sandbox !== undefined && !this.#isOutside
    const note = `[${startFailure(this.#params.shellPath, isSandboxed)}]`
    return { note, isError: true, exitCode: null }
  }

  async #closeShell(): Promise<void> {
    await this.#shell?.close()
    this.#shell = undefined
    await this.#takeOutput()
  }

  async #takeOutput(): Promise<{ output: string; savedTo: string | undefined }> {
    this.#shell?.flush()
    const capture = this.#capture
    this.#capture = this.#newCapture()
    const { text: output, savedTo } = await capture.end()
    return { output: output.replace(/\n+$/, ''), savedTo }
  }

  #newCapture(): OutputCapture {
    return new OutputCapture({
      directory: join(this.#context.directory, 'outputs'),
      maxChars: outputLimits.terminal,
      maxFileBytes,
      redact: (value) => this.#context.secrets.redact(value),
      onBackpressure: (isFull) => this.#shell?.setPaused(isFull),
    })
  }
}
