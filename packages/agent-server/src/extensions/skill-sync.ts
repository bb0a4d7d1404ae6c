import type { LogFunction } from '@slipway/protocol'
import type { Marketplaces } from './marketplaces.ts'
import type { PublicSkills } from './public-skills.ts'

const notConfiguredText =
  'This server has no public collection of skills. Name one in SLIPWAY_SKILLS_SOURCE: a git URL, github:owner/repo or a directory.'

/** Fetches anew what this server has collected: public skills and marketplaces. */
export class SkillSync {
  readonly #publicSkills: PublicSkills
  readonly #marketplaces: Marketplaces
  readonly #log: LogFunction

  constructor(options: {
    readonly publicSkills: PublicSkills
    readonly marketplaces: Marketplaces
    readonly log: LogFunction
  }) {
    this.#publicSkills = options.publicSkills
    this.#marketplaces = options.marketplaces
    this.#log = options.log
  }

  /** An error when there is nothing to fetch, or something of it cannot be fetched; what is there stays then. */
  async sync(signal: AbortSignal): Promise<{ status: 'success' | 'error'; message: string }> {
    const failures: string[] = []
    const done: string[] = []
    for (const registration of this.#marketplaces.listRegistrations()) {
      const opened = await this.#marketplaces.open(registration, signal, true)
      if ('issue' in opened) failures.push(`The marketplace ${registration.name} ${opened.issue}`)
      else done.push(`the marketplace ${registration.name} offers ${opened.offers.length}`)
    }
    if (this.#publicSkills.isConfigured) {
      const result = await this.#publicSkills.sync(signal)
      if ('issue' in result) failures.push(`The public collection ${result.issue}`)
      else done.push(`the public collection has ${result.count} skills`)
    } else if (done.length + failures.length === 0) failures.push(notConfiguredText)
    for (const failure of failures) this.#log('warn', 'a collection was not fetched', { fault: failure })
    if (failures.length > 0) return { status: 'error', message: failures.join('. ') }
    return { status: 'success', message: `Fetched: ${done.join(', ')}` }
  }
}
