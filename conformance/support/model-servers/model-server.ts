import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

export interface ModelServerOptions {
  /** The context window, in tokens. */
  readonly window: number
  /** The chat template shows tools to the model; the template of the model itself does not. */
  readonly hasTools?: boolean
  /** What ends an answer, without being part of it, where the request names nothing. */
  readonly stop?: readonly string[]
}

/**
 * A server of the user's own with a small model, which a test can kill and start again at the same address.
 */
export interface ModelServer extends AsyncDisposable {
  /** The settings of a model at this server. */
  readonly llm: { readonly model: string; readonly base_url: string; readonly usage_id: string }
  start(): Promise<void>
  kill(): Promise<void>
}

/** A kind of server, and what it does otherwise than the others. */
export interface ModelServerKind {
  readonly name: string
  /** The program that `.ci/build` runs to have it. */
  readonly madeBy: string
  readonly isInstalled: boolean
  /** Too costly for the gate. */
  readonly isNightly: boolean
  /** It tells the ids of tokens. */
  readonly hasTokenIds: boolean
  /** With its prompt and what ends an answer there, the small model repeats a call that it was shown. */
  readonly repeatsCalls: boolean
  /** It answers to any name of a model. */
  readonly takesAnyModel: boolean
  open(options: ModelServerOptions): Promise<ModelServer>
}

/** The settings of the model at a server. */
export function llmAt(provider: string, port: number): ModelServer['llm'] {
  return { model: `${provider}/smollm2`, base_url: `http://127.0.0.1:${port}/v1`, usage_id: 'agent' }
}

/** A program with the processes that it starts, which end with it. */
export class ProcessGroup {
  #child: ChildProcess | undefined
  #output = ''

  /** Resolves when `isReady` says so; rejects with the end of its output when it ends before. */
  async start(
    [program = '', ...args]: readonly string[],
    options: {
      readonly env: NodeJS.ProcessEnv
      readonly isReady: (output: string) => Promise<boolean> | boolean
    },
  ): Promise<void> {
    const child = spawn(program, args, { env: options.env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child = child
    this.#output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        this.#output = (this.#output + chunk).slice(-20_000)
      })
    while (!(await options.isReady(this.#output))) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`${program} has ended: ${this.#output}`)
      await sleep(100)
    }
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    process.kill(-child.pid, 'SIGKILL')
    await exit
  }
}

/** Whether a server answers there. */
export async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    return false
  }
}
