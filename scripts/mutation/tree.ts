import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startReaper } from '../test/reaper.ts'
import { applyMutation, isParsable, type Mutation } from './mutations.ts'
import { firstFailure, lastCount } from './results.ts'
import type { Stage } from './stages.ts'

interface Outcome {
  readonly ok: boolean
  readonly isTimeout: boolean
  readonly output: string
}

export interface StageOutcome {
  /** `N passed, N failed`, or `no tests`. */
  readonly count: string
  /** What failed; undefined when all passed. */
  readonly failure: string | undefined
}

const typeMaxMs = 10 * 60_000

/** A private copy of the repository, in which one fault at a time is planted and looked for. */
export class Tree {
  readonly #folder: string
  readonly #root: string
  readonly #signal: AbortSignal

  /** The tree at `root`, with temporary files in `folder`. After `signal` no promise settles. */
  constructor({
    folder,
    root,
    signal,
  }: { readonly signal: AbortSignal } & Record<'folder' | 'root', string>) {
    this.#folder = folder
    this.#root = root
    this.#signal = signal
  }

  /** Runs a function with a fault in place. */
  async withFault<T>(file: string, mutation: Mutation, use: () => Promise<T>): Promise<T> {
    const path = join(this.#root, file)
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, applyMutation(text, mutation))
    try {
      return await use()
    } finally {
      writeFileSync(path, text)
    }
  }

  /** Whether the compiler accepts the tree; `file` is the changed one, which it may not look at. */
  async isAccepted(file?: string): Promise<boolean> {
    if (file !== undefined && !isParsable(file, readFileSync(join(this.#root, file), 'utf8'))) return false
    const info = join(this.#folder, 'types.json')
    const flags = ['--checkers', '1', '--incremental', '--tsBuildInfoFile', info]
    const { ok } = await this.#run(['node_modules/typescript/bin/tsc', ...flags], typeMaxMs)
    return ok
  }

  /** Runs a stage for a fault in `file`. */
  async runStage(stage: Stage, file: string): Promise<StageOutcome> {
    const { ok, isTimeout, output } = await this.#run(stage.args(file), stage.maxMs)
    const count = lastCount(output) ?? 'no tests'
    if (ok) return { count, failure: undefined }
    if (isTimeout) return { count, failure: 'time limit' }
    return { count, failure: firstFailure(output) ?? `no test: ${output.slice(-500)}` }
  }

  /** Throws when a failed test fails in the unchanged tree too. */
  async assertPasses(stage: Stage, failure: string): Promise<void> {
    const [, testFile] = /^(\S+\.test\.ts)(?:: |$)/.exec(failure) ?? []
    if (testFile === undefined) return
    const { ok, output } = await this.#run(stage.repeatArgs(testFile), stage.maxMs)
    if (!ok) throw new Error(`${testFile} fails without a fault:\n${output.slice(-2000)}`)
  }

  /** Runs a program of Node with its own temporary folder, and ends what it leaves. */
  async #run(args: readonly string[], maxMs: number): Promise<Outcome> {
    // A name that no other path has: the reaper ends what belongs to it.
    const temporary = mkdtempSync(join(this.#folder, 'run-'))
    // Tests run programs as other users too.
    chmodSync(temporary, 0o1777)
    const reaper = startReaper(temporary)
    const child = spawn(process.execPath, args, {
      cwd: this.#root,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, TMPDIR: temporary },
    })
    if (child.pid !== undefined) reaper.watch(child.pid)
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
    const limit = new AbortController()
    const closed = once(child, 'close')
    const ended = once(child, 'exit').then(([code]) => code === 0)
    const timeout = sleep(maxMs, undefined, { signal: limit.signal }).catch(() => undefined)
    const ok = await Promise.race([ended, timeout])
    limit.abort()
    await reaper.reap()
    await closed
    // What the end of this program ends is no result.
    if (this.#signal.aborted) await new Promise(() => {})
    return { ok: ok === true, isTimeout: ok === undefined, output }
  }
}
