import { existsSync, readFileSync } from 'node:fs'
import { writeFileAtomic } from '@slipway/shared/fs'
import type { MutationKind } from './mutations.ts'

/** A fault of a run, and what the tests said. */
export interface FaultResult {
  /** Place of its line in the order of the seed. */
  readonly draw: number
  readonly file: string
  readonly line: number
  readonly kind: MutationKind
  /** The changed lines, joined. */
  readonly before: string
  readonly after: string
  /** Names of the stages that passed with the fault. */
  readonly passed: readonly string[]
  /** The stage that failed. */
  readonly foundBy?: string | undefined
  /** What failed in it, `file: test`, or `time limit`. */
  readonly test?: string | undefined
  readonly seconds: number
}

/** A fault that the compiler refuses: it never reaches tests, and the next one is tried. */
export type RefusedFault = Pick<FaultResult, 'draw' | 'file' | 'line' | 'kind' | 'before' | 'after'>

/** The faults of one seed, in the order of their draws. */
export interface MutationRun {
  /** A commit: of the sources, and of the order of the lines. */
  readonly seed: string
  readonly at: string
  /** All lines among which is drawn. */
  readonly lines: number
  readonly faults: readonly FaultResult[]
  readonly refused: readonly RefusedFault[]
}

/** A fault that changes nothing that a caller can see, with the reason. */
export interface EquivalentFault {
  readonly seed: string
  readonly draw: number
  readonly reason: string
}

export const maxEquivalents = 5

export function readRuns(path: string): MutationRun[] {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : []
}

/** Replaces the run of the same seed, or adds it as the last. */
export async function writeRun(path: string, run: MutationRun): Promise<void> {
  const runs = readRuns(path)
  const index = runs.findIndex(({ seed }) => seed === run.seed)
  const all = index === -1 ? [...runs, run] : runs.with(index, run)
  await writeFileAtomic(path, `${JSON.stringify(all, undefined, 1)}\n`)
}

/** The equivalent faults of a seed. More than `maxEquivalents`, or one without a reason, is an error. */
export function readEquivalents(path: string, seed: string): EquivalentFault[] {
  const all: EquivalentFault[] = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : []
  const own = all.filter((fault) => fault.seed === seed)
  if (own.length > maxEquivalents)
    throw new Error(`${path}: ${own.length} equivalent faults of ${seed}; at most ${maxEquivalents}`)
  for (const { draw, reason } of own)
    if (!reason?.trim()) throw new Error(`${path}: the equivalent fault ${draw} of ${seed} has no reason`)
  return own
}

/** The faults that no test found and that are not set aside. */
export function findMissed(
  faults: readonly FaultResult[],
  equivalents: readonly EquivalentFault[],
): FaultResult[] {
  const aside = new Set(equivalents.map(({ draw }) => draw))
  return faults.filter(({ foundBy, draw }) => foundBy === undefined && !aside.has(draw))
}

/** The missed faults with their lines, and as last line the counts. */
export function describeFaults(
  faults: readonly FaultResult[],
  equivalents: readonly EquivalentFault[],
): string[] {
  const missed = findMissed(faults, equivalents)
  const found = faults.filter(({ foundBy }) => foundBy !== undefined).length
  const aside = faults.length - found - missed.length
  return [
    ...missed.flatMap((fault) => [
      `Not found: ${describePlace(fault)} (draw ${fault.draw}; passed: ${fault.passed.join(', ')})`,
      `  - ${fault.before}`,
      `  + ${fault.after}`,
    ]),
    `${found} of ${faults.length} faults found, ${missed.length} missed, ${aside} equivalent`,
  ]
}

export function describePlace({ file, line, kind }: RefusedFault): string {
  return `${file}:${line} ${kind}`
}

/** The first failure that a run of tests printed, `file: test`. */
export function firstFailure(output: string): string | undefined {
  return /^Failed:\n {2}(.+)$/m.exec(output)?.[1]
}

/** The counts that a run of tests printed last. */
export function lastCount(output: string): string | undefined {
  return output.match(/^\d+ passed, \d+ failed.*$/gm)?.at(-1)
}
