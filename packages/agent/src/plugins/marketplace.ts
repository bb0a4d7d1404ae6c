import { lstat, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ExtensionSource,
  type MarketplaceEntry,
  marketplaceEntry,
  marketplaceManifest,
  marketplacePaths,
} from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { toSingleLine } from '../skills/skill.ts'
import { hasManifest } from './plugin.ts'
import { readManifest } from './read-json.ts'

const maxEntries = 1_000

/** An entry of a marketplace. */
export interface MarketplaceOffer {
  readonly name: string
  readonly description: string | undefined
  readonly isPlugin: boolean
  /** A folder in the marketplace itself, without leading and trailing slashes. */
  readonly folder: string | undefined
  /** A source outside the marketplace. */
  readonly source: ExtensionSource | undefined
}

/**
 * The entries of a marketplace's `marketplace.json`, or of another file (`path`, relative to the directory).
 * An invalid entry is skipped and adds an issue; an invalid manifest is one issue.
 */
export async function readMarketplace(
  directory: string,
  path?: string,
): Promise<
  | { readonly offers: readonly MarketplaceOffer[]; readonly issues: readonly string[] }
  | { readonly issue: string }
> {
  const read = await readManifest(
    directory,
    path === undefined ? marketplacePaths : [path],
    marketplaceManifest,
  )
  if ('issue' in read) return read
  const { root, manifest } = read
  const { plugins, skills, metadata } = manifest
  const issues: string[] = []
  const offers = new Map<string, MarketplaceOffer>()
  const from = { root, base: metadata?.pluginRoot ?? '' }
  for (const [index, item] of [...plugins, ...skills].slice(0, maxEntries).entries()) {
    const entry = marketplaceEntry.safeParse(item)
    const offer = entry.success ? await parseOffer(entry.data, from) : undefined
    if (offer === undefined) issues.push(`entry ${index + 1}: has no name, or no source that is understood`)
    else if (!offers.has(offer.name)) offers.set(offer.name, offer)
  }
  return { offers: [...offers.values()], issues }
}

async function parseOffer(
  entry: MarketplaceEntry,
  { root, base }: { readonly root: string; readonly base: string },
): Promise<MarketplaceOffer | undefined> {
  const { name, source = `./${name}` } = entry
  if (/[\p{Cc}@]/u.test(name)) return undefined
  const description = entry.description === undefined ? undefined : toSingleLine(entry.description, 1024)
  if (typeof source === 'string' && !isRemoteSource(source)) {
    const folder = await resolveFolder(root, base, source)
    if (folder === undefined) return undefined
    const directory = join(root, folder)
    const skillFile = await lstat(join(directory, 'SKILL.md')).catch(() => undefined)
    const isSkill = skillFile !== undefined && !(await hasManifest(directory))
    return { name, description, isPlugin: !isSkill, folder, source: undefined }
  }
  const elsewhere = parseRemoteSource(source)
  return elsewhere && { name, description, isPlugin: true, folder: undefined, source: elsewhere }
}

function isRemoteSource(source: string): boolean {
  return /^(github:|[\w.-]+@|[a-z]+:\/\/)/i.test(source)
}

/** The folder of an entry, which must be in the marketplace, links resolved. */
async function resolveFolder(root: string, base: string, source: string): Promise<string | undefined> {
  const candidates = source.startsWith('./') ? [source, join(base, source)] : [join(base, source), source]
  for (const candidate of candidates) {
    const real = await realpath(join(root, candidate)).catch(() => undefined)
    if (real === undefined || !isWithin(root, real)) continue
    if ((await lstat(real)).isDirectory()) return real.slice(root.length).replace(/^\//, '')
  }
  return undefined
}

/**
 * `github:o/r`, a URL, `{source: "github", repo}` or `{source: "url" | "git", url}`, with `ref` and `path`.
 */
function parseRemoteSource(source: unknown): ExtensionSource | undefined {
  if (typeof source === 'string') return { source, ref: undefined, repo_path: undefined }
  if (typeof source !== 'object' || source === null) return undefined
  const { repo, url, ref, sha, path, repo_path }: Record<string, unknown> = { ...source }
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined)
  const address = typeof repo === 'string' ? `github:${repo}` : text(url)
  return address === undefined
    ? undefined
    : { source: address, ref: text(ref ?? sha), repo_path: text(path ?? repo_path) }
}
