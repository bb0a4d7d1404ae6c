import { randomBytes, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Workspace } from '@slipway/agent'
import { type Listening, unixFetch, unixSocketUrl } from '@slipway/http'
import type { LogFunction } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { errorText, lastChars } from '@slipway/shared/text'
import { makeDirectory, rm } from '@slipway/shared/tool-files'
import { openEditorGates } from './editor-gate.ts'
import { findEditorProgram } from './editor-program.ts'

interface EditorOptions {
  readonly settings: EditorSettings
  /** Holds its socket and its files; created when missing. */
  readonly directory: string
  /** Of tools. */
  readonly environment: Readonly<Record<string, string>>
  readonly allowedOrigins: readonly (string | RegExp)[]
  /** When the editor of a killed server has ended. */
  readonly leftoversKilled: Promise<void>
  readonly log: LogFunction
}

export interface EditorSettings {
  /** A path or the name of a program; undefined: a known one of the PATH. */
  readonly command: string | undefined
  /** A PATH variable. */
  readonly path: string | undefined
  readonly host: string
  readonly port: number
  /** The path below which a proxy shows it, or empty. */
  readonly basePath: string
}

const startMs = 60_000
const probeMs = 200
/** Longest path of a Unix socket. */
const maxSocketPathBytes = 107
const maxOutputLength = 2_000

/**
 * An editor in the browser: an installed program, with the rights and the environment of tools, on a Unix
 * socket behind the gate that asks for a token. It is started once; a server whose editor cannot be started
 * continues without it.
 */
export class Editor implements AsyncDisposable {
  readonly #options: EditorOptions
  readonly #token = new Secret(randomBytes(32).toString('hex'))
  readonly #stop = new AbortController()
  readonly #ended: Promise<void>
  /** Set while the editor answers. */
  #gate: Listening | undefined

  private constructor(options: EditorOptions) {
    this.#options = options
    this.#ended = this.#run().catch((error: unknown) => {
      const reason = errorText(error)
      options.log('warn', 'the editor could not be started, continuing without it', { reason })
    })
  }

  /** Makes its directory, and starts it without waiting for it. */
  static async start(options: EditorOptions): Promise<Editor> {
    // A failure is reported by the start.
    await makeDirectory(options.directory, 0o700).catch(() => {})
    return new Editor(options)
  }

  get isRunning(): boolean {
    return this.#gate !== undefined
  }

  /** The address that opens a folder; undefined while it is not running. */
  url(folder: string, baseUrl?: string): string | undefined {
    if (this.#gate === undefined) return undefined
    const { basePath } = this.#options.settings
    const base = (baseUrl ?? `http://localhost:${this.#gate.port}`).replace(/\/+$/, '') + basePath
    const encoded = encodeURIComponent(folder).replaceAll('%2F', '/')
    return `${base}/?tkn=${this.#token.reveal()}&folder=${encoded}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#ended
  }

  async #run(): Promise<void> {
    const { settings, directory, environment, allowedOrigins, log } = this.#options
    const { host, port, basePath } = settings
    const program = await findEditorProgram(settings)
    if (program === undefined)
      throw new Error(
        settings.command === undefined
          ? 'neither openvscode-server nor code-server is on the PATH'
          : `${settings.command} is no program`,
      )
    const socketPath = join(directory, 'editor.sock')
    if (Buffer.byteLength(socketPath) > maxSocketPathBytes)
      throw new Error(`the path of its socket is too long: ${socketPath}`)
    await this.#options.leftoversKilled
    await makeDirectory(directory, 0o700)
    await rm(socketPath, { force: true })
    await using resources = new AsyncDisposableStack()
    const targetPath = program.servesBasePath ? basePath : ''
    const gate = await openEditorGates({
      ...{ host, port, basePath, socketPath, targetPath, allowedOrigins, log },
      token: this.#token,
    })
    resources.defer(async () => await gate.close())
    const workspace = resources.use(await Workspace.open({ directory, env: environment }))
    // First of all the address is withdrawn.
    resources.defer(() => {
      this.#gate = undefined
    })
    let output = ''
    const ended = new AbortController()
    const exit = workspace
      .runStreaming(program.path, program.arguments({ socketPath, directory, basePath }), {
        name: randomUUID(),
        stop: this.#stop.signal,
        onOutput: (_, bytes) => {
          output = lastChars(output + bytes.toString('latin1'), maxOutputLength)
        },
      })
      .finally(() => ended.abort())
    exit.catch(() => {})
    if (await isAnswering(unixSocketUrl(socketPath), ended.signal)) {
      this.#gate = gate
      log('info', 'the editor is running', { program: program.path, port: gate.port })
    } else if (!ended.signal.aborted) throw new Error(`it does not answer after ${startMs / 1_000} s`)
    const { exitCode } = await exit
    if (!this.#stop.signal.aborted) log('warn', 'the editor has ended', { exit_code: exitCode, output })
  }
}

/** Whether a server answers before `signal` aborts or its time is over. */
async function isAnswering(url: string, signal: AbortSignal): Promise<boolean> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(startMs)])
  while (!limit.aborted) {
    try {
      const answer = await unixFetch(url, { signal: limit, redirect: 'manual' })
      await answer.body?.cancel()
      return true
    } catch {
      await sleep(probeMs, undefined, { signal: limit }).catch(() => {})
    }
  }
  return false
}
