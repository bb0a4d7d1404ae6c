import {
  type MarketplacePreview,
  marketplaceEntry,
  marketplaceManifest,
  marketplacePaths,
  Problem,
  type UserMarketplace,
} from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import type { RepositoryFiles } from './git-provider.ts'

/** Of a marketplace. */
const maxOffers = 1_000

interface MarketplaceRepository {
  readonly files: RepositoryFiles
  readonly path: string
}

/** What marketplaces offer, read from their repositories; `findRepository` rejects with Problems. */
export async function previewMarketplaces(
  marketplaces: readonly UserMarketplace[],
  findRepository: (source: string) => MarketplaceRepository,
): Promise<MarketplacePreview> {
  const preview: MarketplacePreview = { skills: [], plugins: [], marketplace_skills: {}, errors: [] }
  const read = await Promise.all(
    marketplaces.map((marketplace) =>
      readOffers(marketplace, findRepository).catch((error: unknown) => {
        if (!(error instanceof Problem)) throw error
        return error
      }),
    ),
  )
  for (const [index, { name, source }] of marketplaces.entries()) {
    const offers = read[index]
    if (offers === undefined || offers instanceof Problem) {
      preview.errors.push(`${name}: ${offers?.message ?? 'not read'}`)
      continue
    }
    preview.plugins.push(...offers.plugins.map((plugin) => ({ ...plugin, source, marketplace: name })))
    preview.skills.push(
      ...offers.skills.map((skill) => ({
        ...{ name: skill, type: 'knowledge', source: `marketplace:${name}`, triggers: null },
      })),
    )
    preview.marketplace_skills[name] = offers.skills
  }
  return preview
}

/** Parts of a source that names a repository. */
export function repositoryAddress(source: string): string {
  const [, shorthand] = /^github:(.+)$/.exec(source) ?? []
  if (shorthand !== undefined) return `https://github.com/${shorthand}`
  // Git's other protocols lead to the host whose interface answers by https.
  const address = source.replace(/^git@([^:/]+):/, 'https://$1/').replace(/^(?:http|ssh|git):/, 'https:')
  if (address.includes('://')) return address
  if (address.includes('/')) return `https://github.com/${address}`
  throw new Problem('bad_request', `Invalid repository path: ${source}`)
}

interface Offers {
  readonly plugins: readonly { readonly name: string; readonly description: string | null }[]
  readonly skills: string[]
}

async function readOffers(
  marketplace: UserMarketplace,
  findRepository: (source: string) => MarketplaceRepository,
): Promise<Offers> {
  const { files, path } = findRepository(marketplace.source)
  const ref = marketplace.ref ?? undefined
  const below = (file: string) => [marketplace.repo_path, file].filter(Boolean).join('/')
  for (const manifest of marketplacePaths) {
    const text = await files.read(path, below(manifest), ref)
    if (text !== undefined) return parseManifest(text)
  }
  const folders = await Promise.all(
    ['skills', '.skills'].map(async (folder) =>
      skillNames(await files.list(path, below(folder), ref), below(folder)),
    ),
  )
  return { plugins: [], skills: [...new Set(folders.flat())].slice(0, maxOffers) }
}

function parseManifest(text: string): Offers {
  const manifest = marketplaceManifest.safeParse(parseJson(text))
  if (!manifest.success) throw new Problem('invalid', 'invalid marketplace manifest')
  const { plugins, skills } = manifest.data
  const entries = (items: readonly unknown[]) =>
    items.slice(0, maxOffers).flatMap((item) => {
      const entry = marketplaceEntry.safeParse(item)
      return entry.success ? [entry.data] : []
    })
  return {
    plugins: entries(plugins).map(({ name, description = null }) => ({ name, description })),
    skills: entries(skills).map(({ name }) => name),
  }
}

/** `deploy/SKILL.md` and `deploy.md` are the skill `deploy`. */
function skillNames(files: readonly string[], folder: string): string[] {
  return files.flatMap((file) => {
    const [, name] = /^([^/]+)(?:\/SKILL)?\.md$/i.exec(file.slice(folder.length + 1)) ?? []
    return name === undefined || /^README$/i.test(name) ? [] : [name]
  })
}
