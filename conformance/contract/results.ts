import { execFileSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { dirname } from 'node:path'
import type { Figures, Guarantee } from './guarantee.ts'

/** What some rounds of one promise showed: a line of a results file. */
export interface Outcome {
  readonly name: string
  readonly result: 'kept' | 'broken' | 'not shown'
  readonly rounds: number
  readonly seconds: number
  readonly figures: Figures
  /** Why it is broken or not shown. */
  readonly reason?: string
  /** When it ended, in UTC. */
  readonly date: string
  /** Of the working tree; `+` when it has changes. */
  readonly commit: string
  readonly machine: string
  readonly command: string
}

export const machine = `${cpus().length} x ${cpus()[0]?.model}, ${Math.round(totalmem() / 1e9)} GB, ${process.platform} ${process.arch}, node ${process.version}`

/** The lines of a results file, one JSON object each; none when there is no file yet. */
export function readOutcomes(path: string): Outcome[] {
  if (!existsSync(path)) return []
  const lines = readFileSync(path, 'utf8').split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
}

export function addOutcome(path: string, outcome: Outcome): void {
  mkdirSync(dirname(path), { recursive: true })
  appendFileSync(path, `${JSON.stringify(outcome)}\n`)
}

/** Rounds of a promise that were kept. */
export function keptRounds(outcomes: readonly Outcome[], name: string): number {
  const kept = outcomes.filter((one) => one.name === name && one.result === 'kept')
  return kept.reduce((sum, { rounds }) => sum + rounds, 0)
}

/**
 * A table of promises: all rounds and figures of each, and the last reason when it is broken or not shown.
 */
export function resultTable(
  guarantees: Readonly<Record<string, Guarantee>>,
  outcomes: readonly Outcome[],
): string {
  const rows = Object.entries(guarantees).flatMap(([name, { promise }]) => {
    const own = outcomes.filter((one) => one.name === name)
    if (own.length === 0) return []
    const rounds = keptRounds(own, name)
    const unkept = own.find(({ result }) => result === 'broken') ?? (rounds === 0 ? own.at(-1) : undefined)
    const result = unkept === undefined ? 'kept' : `${unkept.result}: ${unkept.reason}`
    return [
      `| ${name} | ${rounds} | ${result} | ${describe(own.map(({ figures }) => figures))} | ${promise} |`,
    ]
  })
  return ['| name | rounds | result | figures | promise |', '|---|---|---|---|---|', ...rows].join('\n')
}

/** Counts are added up; of times and memory it is the largest, of texts the last. */
function describe(all: readonly Figures[]): string {
  const total = new Map<string, number | string>()
  for (const [name, value] of all.flatMap((figures) => Object.entries(figures))) {
    const before = total.get(name)
    const isCount = !/\b(?:ms|MB)\b/.test(name)
    if (typeof value === 'number' && typeof before === 'number')
      total.set(name, isCount ? before + value : Math.max(before, value))
    else total.set(name, value)
  }
  return [...total].map(([name, value]) => `${name} ${value}`).join(', ')
}

/** The commit of the working tree; `unknown` outside of a repository. */
export function readCommit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
  try {
    const changes = git('status', '--porcelain', '--', ':/packages', ':/conformance', ':!results')
    return `${git('rev-parse', 'HEAD')}${changes === '' ? '' : '+'}`
  } catch {
    return 'unknown'
  }
}
