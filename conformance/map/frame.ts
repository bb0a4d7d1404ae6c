import { afterAll, test } from 'vitest'
import type { RequirementId } from '../wire/requirements.ts'

/**
 * The frame of both suites: the name of each test carries the id of its row, so that a report of vitest is
 * enough for `conformance/print.ts`.
 *
 * Cases of the map: what every client of the interface may rely on, one case for each sub-feature, named by
 * its id (`F07.replay`). A case is defined by exactly one of `mapCase`, `differs` and `notApplicable`; its name
 * also carries the outcome that is expected. With `SLIPWAY_MAP_URL` (and `SLIPWAY_MAP_KEY`) the cases run
 * against that server.
 *
 * Cases of the wire: the requests of existing clients, several for each requirement (`GET /alive`), by
 * `wireCase`. With `SLIPWAY_URL` (and `SLIPWAY_SESSION_API_KEY`) they run against that server.
 */
export const externalUrl = process.env.SLIPWAY_MAP_URL?.replace(/\/$/, '')

export type MapId = `F${number}.${string}`

type Run = () => Promise<void>

export interface CaseOptions {
  /** The case starts servers of its own (`OwnMapServer`): skipped with an external server. */
  readonly hasOwnServer?: boolean
  /** A known fault of the reference server: with an external server the case is expected to fail. */
  readonly faultThere?: string
  /** What the case needs is not installed: skipped. */
  readonly isUnavailable?: boolean
  /** In milliseconds; a minute when undefined. */
  readonly timeout?: number
  /** It runs beside the concurrent cases before and after it in the file. */
  readonly isConcurrent?: boolean
}

const timeout = 60_000
const wireTimeout = 40_000
const definedIds = new Set<string>()

/** A sub-feature that this server has as the map says. */
export function mapCase(id: MapId, promise: string, run: Run, options: CaseOptions = {}): void {
  const title = newTitle(id, promise)
  const limit = { timeout: options.timeout ?? timeout, concurrent: options.isConcurrent ?? false }
  if (options.isUnavailable) test.skip(title, run)
  else if (externalUrl === undefined) test(title, limit, run)
  else if (options.hasOwnServer) test.skip(title, run)
  else if (options.faultThere !== undefined) test.fails(title, limit, run)
  else test(title, limit, run)
}

/**
 * A sub-feature that this server knowingly answers otherwise.
 *
 * @param reason - begins with the topic of a row of `docs/differences.md`, or names the rule of the specification
 * @param here - asserts what this server does
 * @param there - asserts what the map says
 */
export function differs(
  id: MapId,
  promise: string,
  reason: string,
  here: Run,
  there?: Run,
  options: Pick<CaseOptions, 'isUnavailable' | 'timeout'> = {},
): void {
  const title = newTitle(id, promise, 'differs', reason)
  if (options.isUnavailable) test.skip(title, here)
  else if (externalUrl === undefined) test(title, { timeout: options.timeout ?? timeout }, here)
  else if (there === undefined) test.skip(title, here)
  else test(title, { timeout }, there)
}

/** A case of a requirement of the wire. */
export function wireCase(requirement: RequirementId, promise: string, run: Run, isSkipped = false): void {
  test.skipIf(isSkipped)(`[${requirement}] ${promise}`, { timeout: wireTimeout }, run)
}

/** A sub-feature that has no meaning for this server. */
export function notApplicable(id: MapId, promise: string, reason: string): void {
  test.skip(newTitle(id, promise, 'not applicable', reason), async () => {})
}

/**
 * Checks that the file has defined as many sub-features as the family has; call it at the end of a file.
 *
 * @param family - `F07`
 */
export function endFamily(family: string, count: number): void {
  const found = [...definedIds].filter((id) => id.startsWith(`${family}.`)).length
  if (found !== count) throw new Error(`${family} has ${found} of ${count} cases`)
  afterAll(() => definedIds.clear())
}

function newTitle(id: string, promise: string, outcome?: string, reason?: string): string {
  if (definedIds.has(id)) throw new Error(`${id} is defined twice`)
  definedIds.add(id)
  return `[${id}] ${promise}${outcome === undefined ? '' : ` {${outcome}: ${reason}}`}`
}
