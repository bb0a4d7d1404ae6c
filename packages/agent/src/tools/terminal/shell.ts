import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { maxTimerMs } from '@slipway/shared/time'
import { makeDirectory, rm, writeFile } from '@slipway/shared/tool-files'
import { foregroundProcessGroup, isAwaitingInput, killProcessGroup } from '../../workspace/processes.ts'
import type { Terminal, Workspace } from '../../workspace/workspace.ts'
import { Screen } from './screen.ts'
import {
  commandLine,
  PromptReader,
  type ShellPrompt,
  startupFile,
  variablesFile,
  variablesLine,
} from './shell-prompt.ts'

interface ShellOptions {
  readonly workspace: Workspace
  /** The program, a bash: a path or a name. */
  readonly path: string
  readonly env: Readonly<Record<string, string>>
  /** For files of the shell; it is emptied first. */
  readonly directory: string
  /** Not in the sandbox of the workspace. */
  readonly isOutside?: boolean
  /** Called with the text of the terminal, without commands. */
  readonly onText: (text: string) => void
}

/** Why waiting for a command ended. `quiet`: no output for `quietMs`; `ended`: the shell itself ended. */
export type WaitResult =
  | { readonly kind: 'prompt'; readonly prompt: ShellPrompt }
  | { readonly kind: 'ended'; readonly exitCode: number }
  | { readonly kind: 'quiet' | 'input' | 'timeout' | 'aborted' }

interface WaitLimits {
  /** Milliseconds without output. Default: no limit. */
  readonly quietMs?: number
  /** Milliseconds without output before checking whether the command waits for input. Default: no check. */
  readonly inputMs?: number
  /** Output ends the wait too, as `quiet`, at the first check for input after it. */
  readonly endsWithOutput?: boolean
  /** Total milliseconds. */
  readonly timeoutMs: number
}

const startMs = 20_000
const variablesMs = 10_000

/** A long-running bash on its own terminal: one command at a time, and input for it. */
export class Shell {
  /** Whether a command runs. */
  isBusy = false
  readonly #options: ShellOptions
  readonly #terminal: Terminal
  readonly #reader: PromptReader
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  readonly #screen = new Screen()
  #lineNumber = 0
  #isReady = false
  #lastOutput = 0
  /** The outcome of the current line. */
  #outcome: Extract<WaitResult, { kind: 'prompt' | 'ended' }> | undefined
  #exitCode: number | undefined
  /** Its process group, which has the terminal while no command runs. */
  #group: number
  #wake: (() => void) | undefined
  /** The last prompt. */
  prompt: ShellPrompt = { line: undefined, exitCode: -1, pid: -1, python: undefined, directory: '' }

  private constructor(options: ShellOptions, terminal: Terminal, nonce: string) {
    this.#options = options
    this.#terminal = terminal
    this.#group = terminal.pty.pid
    this.#reader = new PromptReader(nonce)
    // Opened without an encoding, the terminal emits Buffers.
    terminal.pty.onData((data) => this.#handleData(data as unknown as Buffer))
    terminal.pty.onExit(({ exitCode, signal }) => this.#handleExit(signal ? 128 + signal : exitCode))
  }

  /** Undefined when the program does not exist or is not a bash that becomes ready in time. */
  static async start(options: ShellOptions): Promise<Shell | undefined> {
    const { workspace, path, env, directory, isOutside = false } = options
    const nonce = randomBytes(16).toString('hex')
    await rm(directory, { recursive: true, force: true })
    await makeDirectory(directory, 0o700)
    const startup = join(directory, 'startup')
    await writeFile(startup, startupFile(directory, nonce), { mode: 0o600 })
    const args = ['--noprofile', '--rcfile', startup, '--noediting', '-i']
    const size = { columns: 256, rows: 64 }
    const terminal = await workspace.openTerminal(path, args, { env, ...size, isOutside })
    const shell = new Shell(options, terminal, nonce)
    const pause = await shell.wait({ timeoutMs: startMs })
    await rm(startup, { force: true })
    if (pause.kind === 'prompt') {
      // In a sandbox, the process of the terminal is not the shell.
      shell.#group = (await foregroundProcessGroup(terminal.pty.pid)) ?? terminal.pty.pid
      return shell
    }
    await shell.close()
    return undefined
  }

  get hasExited(): boolean {
    return this.#exitCode !== undefined
  }

  /** A command runs, also in the background or as a daemon. */
  async isOccupied(): Promise<boolean> {
    return !this.hasExited && (this.isBusy || (await this.#terminal.hasPrograms(this.#group)))
  }

  /** Exports variables, invisibly for the terminal, the history and the process list. */
  async setVariables(variables: Readonly<Record<string, string>>): Promise<void> {
    const text = variablesFile(variables)
    if (text === '') return
    const file = join(this.#options.directory, 'variables')
    await writeFile(file, text, { mode: 0o600 })
    try {
      this.#sendLine(variablesLine(this.#lineNumber + 1))
      await this.wait({ timeoutMs: variablesMs })
    } finally {
      await rm(file, { force: true })
    }
  }

  /** Starts a command; only when the shell is not busy. */
  async run(command: string): Promise<void> {
    await writeFile(join(this.#options.directory, 'command'), command, { mode: 0o600 })
    this.#sendLine(commandLine(this.#lineNumber + 1))
  }

  /** Types into the running command. */
  type(keys: string): void {
    if (this.#exitCode === undefined) this.#terminal.pty.write(keys)
  }

  /** Pauses reading the terminal, which blocks programs that write to it, until called with false. */
  setPaused(isPaused: boolean): void {
    if (this.#exitCode === undefined) this.#terminal.pty[isPaused ? 'pause' : 'resume']()
  }

  /** Passes the current, incomplete line to `onText`. */
  flush(): void {
    this.#options.onText(this.#screen.flush())
  }

  /** Waits for the running command; returns at once when there is none. */
  async wait(limits: WaitLimits, signal?: AbortSignal): Promise<WaitResult> {
    const { quietMs = Number.POSITIVE_INFINITY, inputMs = Number.POSITIVE_INFINITY } = limits
    const { timeoutMs, endsWithOutput = false } = limits
    const start = performance.now()
    this.#lastOutput = start
    let nextInputCheck = inputMs
    const wake = () => this.#wake?.()
    signal?.addEventListener('abort', wake)
    try {
      for (;;) {
        if (this.#outcome !== undefined) return this.#outcome
        if (signal?.aborted) return { kind: 'aborted' }
        const now = performance.now()
        const silence = now - this.#lastOutput
        if (now - start >= timeoutMs) return { kind: 'timeout' }
        if (silence >= quietMs) return { kind: 'quiet' }
        if (silence < inputMs) nextInputCheck = inputMs
        else if (silence >= nextInputCheck) {
          nextInputCheck = silence + inputMs
          if (await this.#isAwaitingInput()) return { kind: 'input' }
          if (endsWithOutput && this.#lastOutput > start) return { kind: 'quiet' }
          continue
        }
        await this.#sleep(Math.min(start + timeoutMs - now, Math.min(quietMs, nextInputCheck) - silence))
      }
    } finally {
      signal?.removeEventListener('abort', wake)
    }
  }

  /**
   * Stops the running command: by Ctrl-C, then by killing the foreground process group, then by ending the
   * shell.
   */
  async interrupt(): Promise<void> {
    this.type('\x03')
    const returnsWithin = async (ms: number) => (await this.wait({ timeoutMs: ms })).kind !== 'timeout'
    if (await returnsWithin(500)) return
    // After a kill, the shell runs the next program of a list.
    for (let round = 0; round < 5; round++) {
      const group = await foregroundProcessGroup(this.#terminal.pty.pid)
      if (group === undefined || group === this.#group) break
      killProcessGroup(group)
      this.type('\x03')
      if (await returnsWithin(200)) return
    }
    await this.close()
  }

  /** Kills the shell and everything started in it, background processes included. */
  async close(): Promise<void> {
    await this.#terminal.close()
    this.setPaused(false)
    this.#handleExit(137)
    await rm(this.#options.directory, { recursive: true, force: true })
  }

  /** Whether the program waits for input; false when it wrote output during the check. */
  async #isAwaitingInput(): Promise<boolean> {
    const lastOutput = this.#lastOutput
    return (
      (await isAwaitingInput(this.#terminal.pty.pid)) &&
      this.#outcome === undefined &&
      this.#lastOutput === lastOutput
    )
  }

  #sendLine(line: string): void {
    this.#lineNumber++
    this.isBusy = true
    this.#outcome = this.#exitCode === undefined ? undefined : { kind: 'ended', exitCode: this.#exitCode }
    this.type(line)
  }

  #handleData(data: Buffer): void {
    this.#lastOutput = performance.now()
    for (const part of this.#reader.read(data)) {
      if (!Buffer.isBuffer(part)) this.#handlePrompt(part)
      else this.#emitText(this.#decoder.decode(part, { stream: true }))
    }
  }

  #emitText(text: string): void {
    const lines = this.#screen.write(text)
    // Output before the first prompt belongs to no command.
    if (lines !== '' && this.#isReady) this.#options.onText(lines)
  }

  #handlePrompt(prompt: ShellPrompt): void {
    this.#emitText(this.#decoder.decode())
    this.prompt = prompt
    if (this.#isReady && prompt.line !== this.#lineNumber) return
    if (!this.#isReady) this.#screen.flush()
    this.#isReady = true
    this.isBusy = false
    this.#outcome = { kind: 'prompt', prompt }
    this.#wake?.()
  }

  #handleExit(exitCode: number): void {
    if (this.#exitCode !== undefined) return
    this.#exitCode = exitCode
    this.isBusy = false
    this.#outcome = { kind: 'ended', exitCode }
    this.#wake?.()
  }

  async #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, Math.min(Math.max(1, ms), maxTimerMs))
    this.#wake = resolve
    await promise
    clearTimeout(timer)
    this.#wake = undefined
  }
}
