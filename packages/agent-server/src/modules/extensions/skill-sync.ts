import type { LogFunction } from '@slipway/protocol'
import type { Marketplaces } from './marketplaces.ts'
import type { PublicSkills } from './public-skills.ts'

const notConfiguredText =
  'This server has no public collection of skills. Name one in SLIPWAY_SKILLS_SOURCE: a git URL, github:owner/repo or a directory.'

/** Fetches the public skills and the marketplaces again; the files of failed ones stay. */
export async function syncCollections(
  options: {
    readonly publicSkills: PublicSkills
    readonly marketplaces: Marketplaces
    readonly log: LogFunction
  },
  signal: AbortSignal,
): Promise<{ status: 'success' | 'error'; message: string }> {
  const { publicSkills, marketplaces, log } = options
  const failures: string[] = []
  const done: string[] = []
  for (const registration of marketplaces.listRegistrations()) {
    const opened = await marketplaces.open(registration, signal, true)
    if ('issue' in opened) failures.push(`The marketplace ${registration.name} ${opened.issue}`)
    else done.push(`the marketplace ${registration.name} offers ${opened.offers.length}`)
  }
  if (publicSkills.isConfigured) {
    const result = await publicSkills.sync(signal)
    if ('issue' in result) failures.push(`The public collection ${result.issue}`)
    else done.push(`the public collection has ${result.count} skills`)
  } else if (done.length + failures.length === 0) failures.push(notConfiguredText)
  for (const fault of failures) log('warn', 'a collection was not fetched', { fault })
  if (failures.length > 0) return { status: 'error', message: failures.join('. ') }
  return { status: 'success', message: `Fetched: ${done.join(', ')}` }
}
