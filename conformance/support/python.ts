import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { builtFolder } from './built-folder.ts'

const folder = resolve(import.meta.dirname, '../clients/python')

/**
 * The interpreter of the environment that `.ci/python` has made for the present requirements (`.ci/python
 * openapi`, `model`, `vllm`, `automation` and `atif` for those of that name); undefined when it has not run,
 * or could not reach a package index.
 */
export function findPython(
  name?: 'openai' | 'openapi' | 'model' | 'vllm' | 'automation' | 'atif' | 'session-store',
): string | undefined {
  const list = `${name === undefined ? '' : `${name}-`}requirements.txt`
  const environment = builtFolder('python', join(folder, list))
  return existsSync(join(environment, 'complete')) ? join(environment, 'bin/python') : undefined
}

/** The environment of the Python packages: nothing of the tests' own, and no request to the internet. */
export function pythonEnv(python: string, home: string): Record<string, string> {
  return {
    PATH: process.env.PATH ?? '',
    HOME: home,
    PYTHONUNBUFFERED: '1',
    PYTHONPYCACHEPREFIX: resolve(python, '../../bytecode'),
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    OPENHANDS_SUPPRESS_BANNER: '1',
    ANONYMIZED_TELEMETRY: 'false',
    NO_PROXY: '127.0.0.1,localhost',
  }
}

export interface ProgramRequest {
  readonly url: string
  readonly key: string
  readonly model_url: string
  readonly directory: string
  readonly settings?: object
}

interface Answer {
  readonly id: number
  readonly result?: unknown
  readonly error?: string
  readonly ask?: string
}

/** A process that runs the programs of `conformance/clients/python/programs`, several at a time. */
export class PythonPrograms implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #running = new Map<number, (answer: Answer) => void>()
  readonly #ended: Promise<never>
  #errors = ''
  #lastId = 0

  private constructor(python: string, home: string) {
    this.#child = spawn(python, [join(folder, 'runner.py')], { env: pythonEnv(python, home) })
    this.#child.stderr.on('data', (chunk) => {
      this.#errors = (this.#errors + chunk).slice(-20_000)
    })
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const answer: Answer = JSON.parse(line)
      this.#running.get(answer.id)?.(answer)
    })
    this.#ended = once(this.#child, 'exit').then(() => {
      throw new Error(`Python has ended: ${this.#errors}`)
    })
    this.#ended.catch(() => {})
  }

  /** Resolves when the SDK is imported, which takes seconds. */
  static async open(python: string, home: string): Promise<PythonPrograms> {
    const programs = new PythonPrograms(python, home)
    await programs.#receive(0, () => {})
    return programs
  }

  /**
   * Runs a program; rejects with its traceback.
   *
   * @param answer - returns the answer to what the program asks the test for
   */
  async run<T>(
    program: string,
    request: ProgramRequest,
    answer: (question: string) => Promise<unknown> = async () => null,
  ): Promise<T> {
    this.#lastId += 1
    const id = this.#lastId
    const ended = this.#receive(id, async (question) =>
      this.#send({ id, answer: (await answer(question)) ?? null }),
    )
    this.#send({ id, program, settings: {}, ...request })
    const { result, error } = await ended
    if (error !== undefined) throw new Error(`${program}: ${error}`)
    return result as T // as the program returns it
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exit
  }

  #send(message: unknown): void {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`)
  }

  /** The last answer of a program, whose questions before it go to `answer`. */
  async #receive(id: number, answer: (question: string) => unknown): Promise<Answer> {
    const failed = Promise.withResolvers<never>()
    const done = new Promise<Answer>((resolve) =>
      this.#running.set(id, (message) => {
        if (message.ask === undefined) return resolve(message)
        Promise.resolve(answer(message.ask)).catch(failed.reject)
      }),
    )
    try {
      return await Promise.race([done, failed.promise, this.#ended])
    } finally {
      this.#running.delete(id)
    }
  }
}
