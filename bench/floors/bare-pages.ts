import { startFloor } from '../support/fixtures.ts'
import type { LoadRequest, LoadResult } from '../support/http-load.ts'
import type { HelperProcess, Server } from '../support/processes.ts'
import type { SeededRandom } from '../support/seeded-random.ts'
import { Floor } from './floor.ts'

/**
 * Pages of 100 events at random places of a log, read by their row ids with a bare statement and sent by a bare
 * `node:http` server: the floor of everything that reads a log of the same data directory.
 */
export class BarePages implements AsyncDisposable {
  readonly #server: Server
  readonly #load: HelperProcess<LoadRequest, LoadResult>
  readonly #events: number
  readonly #random: SeededRandom

  private constructor(options: {
    readonly server: Server
    readonly load: HelperProcess<LoadRequest, LoadResult>
    readonly events: number
    readonly random: SeededRandom
  }) {
    this.#server = options.server
    this.#load = options.load
    this.#events = options.events
    this.#random = options.random
  }

  /** `events`: those of the log. */
  static async open(
    data: string,
    events: number,
    options: { readonly load: HelperProcess<LoadRequest, LoadResult>; readonly random: SeededRandom },
  ): Promise<BarePages> {
    const pages = new BarePages({ server: await startFloor('pages', data), events, ...options })
    await pages.measure(20)
    return pages
  }

  /** A percentile of this many pages, one at a time, the better of two times each. */
  async measure(count: number, percent = 50): Promise<Floor> {
    const paths = Array.from({ length: count }, () => `/${this.#random.below(this.#events - 100)}`)
    const name = percent === 50 ? 'a bare page of 100 events' : `a bare page of 100 events, p${percent}`
    return Floor.of(name, await bestOfTwo(this.#load, this.#server, paths), percent)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]()
  }
}

/**
 * Requests each path twice, one at a time; the shorter time counts, because a virtual machine loses its CPUs
 * for some milliseconds now and then. Our server caches a page at its third request at the earliest, so both
 * requests build the page.
 */
export async function bestOfTwo(
  load: HelperProcess<LoadRequest, LoadResult>,
  { port }: Server,
  paths: readonly string[],
): Promise<number[]> {
  const request = { port, paths, count: paths.length, connections: 1 }
  const first = await load.ask(request)
  const second = await load.ask(request)
  return [...first.latenciesMs].map((ms, i) => Math.min(ms, second.latenciesMs[i] ?? ms))
}
