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

/**
 * The start-up file of a shell (bash 3.2 and later) that writes a marker to its terminal after each line. The
 * marker goes to /dev/tty despite redirections; each prompt restores the terminal and the prompt settings,
 * and `__slipway_keep` does so after a command that changed them. An input line is made by `commandLine`; the
 * command itself is read from a file, so it has any length and is not echoed. `set -e` and `set -u` end with
 * the command that set them, because they would end an interactive shell at the next failure.
 */
export function startupFile(directory: string, nonce: string): string {
  return `__slipway_directory=${shellQuote(directory)}
__slipway_stty=$(builtin type -P stty)
unset MAILCHECK TMOUT HISTFILE
IGNOREEOF=100
set +o history
set +H
__slipway_load() {
  local code=$?
  __slipway_line=$1
  IFS= builtin read -r -d '' __slipway_command <"$__slipway_directory/command"
  return $code
}
__slipway_variables() {
  local code=$?
  __slipway_line=$1
  builtin . "$__slipway_directory/variables"
  return $code
}
__slipway_keep() {
  local code=$?
  unset PROMPT_COMMAND PROMPT_DIRTRIM PS0
  PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
  PS1= PS2=
  set +euv -m
  return $code
}
__slipway_prompt() {
  local code=$? pid=-1 input=
  set +euv -m
  [ -z "$!" ] || pid=$!
  if [ "$PATH" != "$__slipway_path" ]; then
    __slipway_path=$PATH
    __slipway_python=$(builtin type -P python || builtin type -P python3)
  fi
  [ -z "$__slipway_stty" ] || "$__slipway_stty" sane -echo </dev/tty
  if [ "\${BASH_VERSINFO[0]}" -ge 4 ]; then
    while builtin read -t 0 && builtin read -r -t 1 input; do :; done </dev/tty
  fi
  unset PROMPT_COMMAND PS0
  PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
  PS1= PS2=
  builtin printf '\\033]slipway;%s;%s\\037%s\\037%s\\037%s\\037%s;%s\\007' ${nonce} "$__slipway_line" "$code" "$pid" "$__slipway_python" "$PWD" ${nonce} >/dev/tty
  __slipway_line=
  return $code
}
PROMPT_COMMAND='{ __slipway_prompt; } 2>/dev/null'
PS1= PS2=
`
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
    .map(([name, value]) => `export ${name}=${shellQuote(value.replaceAll('\0', ''))}\n`)
    .join('')
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
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
