import type { Log } from '@slipway/protocol'
import type { Marketplaces } from './marketplaces.ts'
import type { PublicSkills } from './public-skills.ts'

const unconfigured =
  'This server has no public collection of skills. Name one in SLIPWAY_SKILLS_SOURCE: a git URL, github:owner/repo or a directory.'

/** Fetches anew what this server has collected: public skills and marketplaces. */
export class SkillSync {
  readonly #publicSkills: PublicSkills
  readonly #marketplaces: Marketplaces
  readonly #log: Log

  constructor(options: {
    readonly publicSkills: PublicSkills
    readonly marketplaces: Marketplaces
    readonly log: Log
  }) {
    this.#publicSkills = options.publicSkills
    this.#marketplaces = options.marketplaces
    this.#log = options.log
  }

  /** An error when there is nothing to fetch, or something of it cannot be fetched; what is there stays then. */
  async sync(signal: AbortSignal): Promise<{ status: 'success' | 'error'; message: string }> {
    const faults: string[] = []
    const done: string[] = []
    for (const registration of this.#marketplaces.all()) {
      const open = await this.#marketplaces.open(registration, signal, true)
      if ('fault' in open) faults.push(`The marketplace ${registration.name} ${open.fault}`)
      else done.push(`the marketplace ${registration.name} offers ${open.offers.length}`)
    }
    if (this.#publicSkills.isThere) {
      const result = await this.#publicSkills.sync(signal)
      if ('fault' in result) faults.push(`The public collection ${result.fault}`)
      else done.push(`the public collection has ${result.count} skills`)
    } else if (done.length + faults.length === 0) faults.push(unconfigured)
    for (const fault of faults) this.#log('warn', 'a collection was not fetched', { fault })
    if (faults.length > 0) return { status: 'error', message: faults.join('. ') }
    return { status: 'success', message: `Fetched: ${done.join(', ')}` }
  }
}
