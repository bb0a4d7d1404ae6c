import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** One kind of system call on the files of a pattern: it takes longer, or fails. */
export interface SystemFault {
  readonly operation: 'write' | 'sync' | 'fsync' | 'fdatasync' | 'ftruncate'
  /** Of `fnmatch`, compared with the whole path; `*` matches slashes too. */
  readonly pattern: string
  readonly delayMs?: number
  /** The number of an error, as in `os.constants.errno`. */
  readonly errno?: number
}

/** Why faults of system calls cannot be made on this machine. */
export const noSystemFaults =
  process.platform !== 'linux'
    ? 'LD_PRELOAD needs Linux'
    : spawnSync('gcc', ['--version']).error && 'gcc is not installed'

/** Faults of the system calls of programs that are started with `env`, also of those that run already. */
export class SystemFaults implements Disposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'slipway-calls-'))
  readonly #rules = join(this.#directory, 'rules')
  readonly env: Readonly<Record<string, string>>

  constructor() {
    const library = join(this.#directory, 'system-faults.so')
    const source = resolve(import.meta.dirname, 'system-faults.c')
    execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'])
    this.env = { LD_PRELOAD: library, SLIPWAY_FAULT_RULES: this.#rules }
    this.set([])
  }

  /** From now on, instead of those before. Of two that match a call, the later one counts. */
  set(faults: readonly SystemFault[]): void {
    const lines = faults.map(
      ({ operation, pattern, delayMs = 0, errno = 0 }) => `${operation} ${pattern} ${delayMs} ${errno}\n`,
    )
    writeFileSync(this.#rules, lines.join(''))
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }
}
