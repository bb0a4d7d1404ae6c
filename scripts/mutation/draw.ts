import { hash } from 'node:crypto'
import { findMutations, type Mutation } from './mutations.ts'

/** A production source file of a package. */
export interface Source {
  /** Path from the root of the repository. */
  readonly file: string
  readonly text: string
}

/** A line of a source at which a fault can be planted. */
export interface DrawnLine {
  /** Its place in the order of the seed, over all lines, from 0. */
  readonly draw: number
  readonly source: Source
  readonly line: number
  /** The faults that apply, in the order in which they are tried. */
  readonly mutations: readonly Mutation[]
}

/** Whether a path is one of `packages/<name>/src` that is released: no test, fixture or declaration. */
export function isProductionSource(file: string): boolean {
  return (
    /^packages\/[^/]+\/src\/.*\.(?:[jt]sx?|mjs)$/.test(file) &&
    !/\.(?:test|contract|bench)\.tsx?$|\.d\.ts$|\/testing\//.test(file)
  )
}

/**
 * All lines of all sources in the order of a seed; those at which no fault applies are passed over. The order
 * depends on the paths and line numbers alone: what a line says does not move it.
 */
export function* drawLines(
  seed: string,
  sources: readonly Source[],
  firstDraw = 0,
): Generator<DrawnLine, undefined> {
  const places = sources.flatMap((source) =>
    Array.from({ length: countLines(source.text) }, (_, index) => {
      const line = index + 1
      return { source, line, rank: rankOf(seed, source.file, line) }
    }),
  )
  places.sort((one, other) => (one.rank < other.rank ? -1 : 1))
  const found = new Map<Source, readonly Mutation[]>()
  for (const [draw, { source, line }] of places.entries()) {
    if (draw < firstDraw) continue
    const all = found.get(source) ?? findMutations(source.file, source.text)
    found.set(source, all)
    // The kind first: there are more conditions than checks and errors.
    const rankOfFault = (kind: string, index: number) =>
      `${rankOf(seed, source.file, line, kind)}${rankOf(seed, source.file, line, index)}`
    const mutations = all
      .filter((mutation) => mutation.line === line)
      .map((mutation, index) => ({ mutation, rank: rankOfFault(mutation.kind, index) }))
      .toSorted((one, other) => (one.rank < other.rank ? -1 : 1))
      .map(({ mutation }) => mutation)
    if (mutations.length > 0) yield { draw, source, line, mutations }
  }
}

export function countLines(text: string): number {
  return text === '' ? 0 : text.replace(/\n$/, '').split('\n').length
}

function rankOf(...parts: readonly (string | number)[]): string {
  return hash('sha256', parts.join('\0'))
}
