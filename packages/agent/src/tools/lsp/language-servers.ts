import { resolve } from 'node:path'
import { firstChars } from '@slipway/shared/text'
import { type Clock, systemClock } from '@slipway/shared/time'
import type { Workspace } from '../../workspace/workspace.ts'
import { findServer, type Language, languageOf } from './find-server.ts'
import type { FileError, LanguageServer } from './language-server.ts'

/** How long an edit waits for the errors that it has caused. */
const defaultWaitMs = 4_000
/**
 * While a server has not answered the last edit in time, the next ones wait for this part of the time, at
 * most `maxMisses` of them.
 */
const shortWait = 1 / 8
const maxMisses = 10
const maxChars = 500_000
const maxErrors = 8
const maxErrorChars = 300

interface RunningServer {
  readonly name: string
  readonly server: LanguageServer
}

/** The server of a language; `running` is undefined where there is none, or it has failed. */
interface LanguageSlot {
  running: Promise<RunningServer | undefined>
  /** Edits since the last answer. */
  misses: number
}

/**
 * The language servers of a conversation: of those that are installed, one for each language, started with
 * the first edit of a file of it, ended with the workspace, in its sandbox if there is one. One that fails,
 * or does not answer for long, is not asked again.
 */
export class LanguageServers {
  readonly #workspace: Workspace
  readonly #waitMs: number
  readonly #clock: Pick<Clock, 'sleep'>
  readonly #slots = new Map<Language, LanguageSlot>()

  constructor(
    workspace: Workspace,
    {
      waitMs = defaultWaitMs,
      clock = systemClock,
    }: { readonly waitMs?: number; readonly clock?: Pick<Clock, 'sleep'> } = {},
  ) {
    this.#workspace = workspace
    this.#waitMs = waitMs
    this.#clock = clock
  }

  /**
   * The errors that a change has brought into a file, as a line for the model; empty when there are none, no
   * server is installed, or it does not answer in time. `before`: undefined for a new file.
   */
  async newErrors(
    path: string,
    { before, after }: { readonly before: string | undefined; readonly after: string },
  ): Promise<string> {
    const found = languageOf(path)
    if (found === undefined || after.length > maxChars) return ''
    const { language, id } = found
    const file = resolve(this.#workspace.directory, path)
    const slot = this.#slot(language)
    if (slot.misses >= maxMisses) return ''
    const controller = new AbortController()
    const { signal } = controller
    const compare = async () => {
      const running = await slot.running
      if (running === undefined) return ''
      const { server, name } = running
      const old =
        before === undefined ? [] : await server.errors(file, { languageId: id, text: before }, signal)
      const errors = await server.errors(file, { languageId: id, text: after }, signal)
      slot.misses = 0
      return describe(path, name, added(old, errors))
    }
    const waitMs = slot.misses === 0 ? this.#waitMs : this.#waitMs * shortWait
    const deadline = this.#clock.sleep(waitMs, { signal }).then(
      () => {
        slot.misses++
        return ''
      },
      () => '',
    )
    // A server that ends rejects what it was asked.
    const answer = compare().catch(() => {
      if (!signal.aborted) slot.running = Promise.resolve(undefined)
      return ''
    })
    try {
      return await Promise.race([answer, deadline])
    } finally {
      controller.abort()
    }
  }

  #slot(language: Language): LanguageSlot {
    const known = this.#slots.get(language)
    if (known !== undefined) return known
    const slot = { running: this.#start(language), misses: 0 }
    this.#slots.set(language, slot)
    return slot
  }

  async #start(language: Language): Promise<RunningServer | undefined> {
    const { env, directory, sandbox } = this.#workspace
    const hasSandbox = sandbox !== undefined
    const command = await findServer(language, { path: env.PATH ?? '', workspace: directory, hasSandbox })
    if (command === undefined) return undefined
    const { LanguageServer: Server } = await import('./language-server.ts')
    const options = { ...language.options, ...command.options }
    const server = await Server.start(this.#workspace, { ...command, options, env: language.env ?? {} })
    return { server, name: command.program.split('/').at(-1) ?? command.program }
  }
}

/** What is in the second list and not in the first; lines may have moved. */
function added(before: readonly FileError[], after: readonly FileError[]): readonly FileError[] {
  const counts = new Map<string, number>()
  for (const { message } of before) counts.set(message, (counts.get(message) ?? 0) + 1)
  return after.filter(({ message }) => {
    const count = counts.get(message) ?? 0
    counts.set(message, count - 1)
    return count <= 0
  })
}

function describe(path: string, name: string, errors: readonly FileError[]): string {
  if (errors.length === 0) return ''
  const shown = errors.slice(0, maxErrors).map(({ line, message }) => {
    const text = firstChars(message.replace(/\s+/g, ' ').trim(), maxErrorChars)
    return `\n- line ${line}: ${text}`
  })
  const more = errors.length > maxErrors ? `\n- and ${errors.length - maxErrors} more` : ''
  return `\n[New errors in ${path}, found by ${name}:${shown.join('')}${more}]`
}
