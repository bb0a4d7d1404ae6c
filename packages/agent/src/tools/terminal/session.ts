import { join } from 'node:path'
import type { ToolAction, ToolContext } from '../core/tool.ts'
import { refusal, shortened } from './check-command.ts'
import { keyName, keystrokes } from './keys.ts'
import { Capture } from './output-capture.ts'
import { type Pause, Shell } from './shell.ts'
import type { Prompt } from './shell-prompt.ts'

type Action = ToolAction<'TerminalAction'>

export interface SessionParams {
  /** Silence after which a command without a time limit is given back. */
  readonly quietMs: number
  readonly shellPath: string
  readonly env: Readonly<Record<string, string>>
}

/** What a call comes to. */
export interface Answer {
  /** What was written, masked. */
  readonly output?: string
  /** The file with all of a long output. */
  readonly savedTo?: string | undefined
  /** Stands before the output. */
  readonly prefix?: string
  /** What there is to say about it, in brackets; not masked. */
  readonly note: string
  readonly isError?: boolean
  /** -1 while a command runs, null when none was run. */
  readonly exitCode: number | null
  /** The time limit of the call was reached. */
  readonly isTimedOut?: boolean
  readonly prompt?: Prompt | undefined
  /** Where the shell is, as far as is known. */
  readonly directory?: string | undefined
}

const maxChars = 30_000
const maxFileBytes = 100_000_000
/** A command without a time limit of its own is given back after this at the latest, however much it writes. */
const longestMs = 600_000
/** Silence after which it is looked whether a command waits for input. */
const inputMs = 1000
/** No program is to wait for keys in a pager; a dumb terminal gets plain output from most. */
const plainEnv = {
  PAGER: 'cat',
  GIT_PAGER: 'cat',
  MANPAGER: 'cat',
  SYSTEMD_PAGER: 'cat',
  GH_PAGER: 'cat',
  LESS: '-FRX',
  TERM: 'dumb',
}
const howToGoOn =
  'Send an empty command to wait on, text with is_input to answer it, or C-c with is_input to stop it.'

/** The shell of a conversation from call to call: at most one command runs in it, and each call gives what is new of it. */
export class Session {
  readonly #context: ToolContext
  readonly #params: SessionParams
  #shell: Shell | undefined
  #capture: Capture
  /** The command that runs, as it was given. */
  #running = ''
  #isClosed = false

  constructor(context: ToolContext, params: SessionParams) {
    this.#context = context
    this.#params = params
    this.#capture = this.#newCapture()
  }

  async run(action: Action, signal: AbortSignal): Promise<Answer> {
    const answer = await this.#answer(action, signal)
    return { ...answer, directory: this.#shell?.prompt.directory }
  }

  /** Ends the shell and everything that was started in it. Nothing can be run any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#endShell()
  }

  async #answer(action: Action, signal: AbortSignal): Promise<Answer> {
    if (action.reset) return await this.#reset(action, signal)
    const isBusy = this.#shell?.isBusy ?? false
    if (action.command === '' || action.is_input)
      return isBusy ? await this.#goOn(action, signal) : await this.#idle()
    return isBusy ? await this.#refuse() : await this.#start(action, signal)
  }

  async #reset(action: Action, signal: AbortSignal): Promise<Answer> {
    await this.#endShell()
    const said = `The terminal was reset: a new shell in ${this.#context.workspace.directory}.`
    if (action.command === '')
      return (await this.#ready()) ?? { note: `[${said}]`, exitCode: 0, prompt: this.#shell?.prompt }
    const answer = await this.#start(action, signal)
    return { ...answer, prefix: `[${said}]\n` }
  }

  async #start(action: Action, signal: AbortSignal): Promise<Answer> {
    const { workspace } = this.#context
    const shell = { workspace, path: this.#params.shellPath }
    const why = await refusal(action.command, shell, signal)
    if (why !== undefined) return { note: why, isError: true, exitCode: null }
    const failure = await this.#ready()
    if (failure !== undefined) return failure
    const { secrets } = this.#context
    // The values that may come out have to be known before the first output is written to a file.
    const [variables] = await unlessAborted(
      Promise.all([secrets.named(action.command), secrets.resolve()]),
      signal,
    )
    await this.#shell?.set(variables)
    this.#running = action.command
    await this.#shell?.run(action.command)
    return await this.#wait(action, signal)
  }

  async #goOn(action: Action, signal: AbortSignal): Promise<Answer> {
    if (action.is_input && action.command !== '') this.#shell?.type(keystrokes(action.command))
    const key = action.is_input ? keyName(action.command) : undefined
    const answer = await this.#wait(action, signal)
    const sent = key === undefined ? '' : `, after ${key}`
    const isEmpty = answer.output === undefined || answer.output === ''
    const prefix = isEmpty
      ? `[No new output of the command that was running${sent}.]`
      : `[Output of the command that was running${sent}, since the last time:]\n`
    return { ...answer, prefix }
  }

  /** Nothing runs; what came from the background is told all the same. */
  async #idle(): Promise<Answer> {
    const captured = this.#hasOutput() ? await this.#take() : undefined
    const note = '[No command is running: there is nothing to wait for or to type into.]'
    return {
      ...captured,
      ...(captured === undefined ? {} : { prefix: '[Output of background jobs:]\n' }),
      note,
      isError: true,
      exitCode: null,
    }
  }

  async #refuse(): Promise<Answer> {
    const captured = await this.#take()
    const note = `[Not run: this command is still running: ${shortened(this.#running)}. ${howToGoOn}]`
    return { ...captured, note, isError: true, exitCode: -1 }
  }

  async #wait(action: Action, signal: AbortSignal): Promise<Answer> {
    const shell = this.#shell
    if (shell === undefined) throw new Error('The terminal has no shell.')
    const patience =
      typeof action.timeout === 'number'
        ? { timeoutMs: action.timeout * 1000 }
        : { timeoutMs: longestMs, quietMs: this.#params.quietMs, inputMs }
    const pause = await shell.wait(patience, signal)
    if (pause.kind === 'aborted') await shell.interrupt()
    const captured = await this.#take()
    if (shell.isOver) {
      await this.#endShell()
      if (this.#isClosed) return { ...captured, note: '[The terminal was closed.]', exitCode: -1 }
    }
    return { ...captured, ...this.#outcome(pause, action) }
  }

  #outcome(pause: Pause, action: Action): Answer {
    const { directory } = this.#context.workspace
    switch (pause.kind) {
      case 'prompt': {
        const { exitCode, directory: now } = pause.prompt
        return { note: `[Exit code ${exitCode}. Working directory: ${now}]`, exitCode, prompt: pause.prompt }
      }
      case 'ended': {
        const note = `[The shell itself ended, with exit code ${pause.exitCode}. The next command gets a new one in ${directory}; variables and background jobs are gone.]`
        return { note, exitCode: pause.exitCode }
      }
      case 'aborted':
        return { note: '[Interrupted.]', exitCode: -1 }
      case 'timeout': {
        const seconds = action.timeout ?? longestMs / 1000
        return {
          note: `[Still running after ${seconds} seconds. ${howToGoOn}]`,
          exitCode: -1,
          isTimedOut: typeof action.timeout === 'number',
        }
      }
      case 'input':
        return { note: `[Still running: it waits for input. ${howToGoOn}]`, exitCode: -1 }
      case 'quiet':
        return {
          note: `[Still running; nothing was written for ${this.#params.quietMs / 1000} seconds. ${howToGoOn}]`,
          exitCode: -1,
        }
    }
  }

  /** A shell that can take a command; otherwise why there is none. */
  async #ready(): Promise<Answer | undefined> {
    if (this.#isClosed) throw new Error('The terminal is closed.')
    if (this.#shell?.isOver) await this.#endShell()
    const { workspace, directory } = this.#context
    this.#shell ??= await Shell.start({
      workspace,
      path: this.#params.shellPath,
      env: { ...plainEnv, ...this.#params.env },
      directory: join(directory, 'terminal'),
      onText: (part) => this.#capture.write(part),
    })
    if (this.#isClosed) await this.#endShell()
    if (this.#shell !== undefined) return undefined
    return { note: `[The shell ${this.#params.shellPath} cannot be started.]`, isError: true, exitCode: null }
  }

  async #endShell(): Promise<void> {
    await this.#shell?.end()
    this.#shell = undefined
    await this.#take()
  }

  #hasOutput(): boolean {
    this.#shell?.flush()
    return !this.#capture.isEmpty
  }

  /** What was written since the last time. */
  async #take(): Promise<{ output: string; savedTo: string | undefined }> {
    this.#shell?.flush()
    const capture = this.#capture
    this.#capture = this.#newCapture()
    const { text: output, savedTo } = await capture.end()
    return { output: output.replace(/\n+$/, ''), savedTo }
  }

  #newCapture(): Capture {
    return new Capture({
      directory: this.#outputs(),
      maxChars,
      maxFileBytes,
      mask: (value) => this.#context.secrets.mask(value),
      onFull: (isFull) => this.#shell?.hold(isFull),
    })
  }

  #outputs(): string {
    return join(this.#context.directory, 'outputs')
  }
}

/** What the work gives; rejects as soon as the signal aborts, and leaves the work to itself then. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    signal.throwIfAborted()
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
    // Whichever lost is of no interest any more.
    aborted.promise.catch(() => {})
    work.catch(() => {})
  }
}
