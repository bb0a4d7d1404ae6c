import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { shellQuote } from '@slipway/shared/text'

/** The shell's report when it is ready for the next command. */
export interface ShellPrompt {
  /** The number of the sent line; undefined for a prompt without one. */
  readonly line: number | undefined
  readonly exitCode: number
  /** Of the last background command, -1 without one. */
  readonly pid: number
  readonly python: string | undefined
  readonly directory: string
}

const fieldSeparator = '\x1f'

const startupTemplate = readFileSync(join(import.meta.dirname, 'startup.sh'), 'utf8')

/**
 * The start-up file of a shell (bash 3.2 and later) that writes a marker to its terminal after each line. The
 * marker goes to /dev/tty despite redirections; each prompt restores the terminal and the prompt settings,
 * and `__slipway_keep` does so after a command that changed them. An input line is made by `commandLine`; the
 * command itself is read from a file, so it has any length and is not echoed. `set -e` and `set -u` end with
 * the command that set them, because they would end an interactive shell at the next failure.
 */
export function startupFile(directory: string, nonce: string): string {
  return startupTemplate.replaceAll('@NONCE@', nonce).replace('@DIRECTORY@', () => shellQuote(directory))
}

/**
 * The input that runs the command file as line `number`, short enough for a terminal in line mode. Its first
 * character clears an unfinished line.
 */
export function commandLine(number: number): string {
  return `\x15{ __slipway_load ${number}; } 2>/dev/null; eval "$__slipway_command"; { __slipway_keep; } 2>/dev/null\n`
}

/** The input that sets the variables of the variables file. */
export function variablesLine(number: number): string {
  return `\x15{ __slipway_variables ${number}; } 2>/dev/null\n`
}

/** A file that exports variables. Invalid names and NUL bytes are dropped. */
export function variablesFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .filter(([name]) => /^[A-Za-z_]\w*$/.test(name))
    .map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
    .join('')
}

/**
 * Finds the shell's markers in its output. They start and end with a nonce that only the shell knows, within
 * escape codes that no listing of its variables contains, so programs cannot forge them.
 */
export class PromptReader {
  readonly #start: Buffer
  readonly #end: Buffer
  #pending: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#start = Buffer.from(`\x1b]slipway;${nonce};`)
    this.#end = Buffer.from(`;${nonce}\x07`)
  }

  /** Splits a chunk into output and prompts, in order. A possible beginning of a marker is held back. */
  read(chunk: Buffer): (Buffer | ShellPrompt)[] {
    const parts: (Buffer | ShellPrompt)[] = []
    let remaining = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    this.#pending = remaining.subarray(0, 0)
    for (;;) {
      const start = remaining.indexOf(this.#start)
      if (start === -1) break
      const end = remaining.indexOf(this.#end, start + this.#start.length)
      if (end === -1 && remaining.length - start <= 65_536) {
        // Copied, because the terminal reuses its buffer.
        this.#pending = Buffer.from(remaining.subarray(start))
        remaining = remaining.subarray(0, start)
        break
      }
      const after = end === -1 ? start + this.#start.length : end + this.#end.length
      if (start > 0) parts.push(remaining.subarray(0, start))
      if (end !== -1) parts.push(parsePrompt(remaining.toString('utf8', start + this.#start.length, end)))
      remaining = remaining.subarray(after)
    }
    if (this.#pending.length === 0) remaining = this.#holdPartialMarker(remaining)
    if (remaining.length > 0) parts.push(remaining)
    return parts
  }

  /** Holds back the end of the output if it may begin a marker. */
  #holdPartialMarker(remaining: Buffer): Buffer {
    const at = remaining.lastIndexOf(0x1b)
    const length = remaining.length - at
    if (at === -1 || length >= this.#start.length) return remaining
    if (!remaining.subarray(at).equals(this.#start.subarray(0, length))) return remaining
    this.#pending = Buffer.from(remaining.subarray(at))
    return remaining.subarray(0, at)
  }
}

function parsePrompt(text: string): ShellPrompt {
  const [line = '', exitCode = '', pid = '', python = '', ...directory] = text.split(fieldSeparator)
  return {
    line: line === '' ? undefined : Number(line),
    exitCode: Number(exitCode),
    pid: Number(pid),
    python: python === '' ? undefined : python,
    // The terminal writes a newline as CR LF.
    directory: directory.join(fieldSeparator).replaceAll('\r\n', '\n'),
  }
}
