import { join } from 'node:path'
import {
  extensionReaders,
  type MarketplaceOffer,
  parseSource,
  publicSource,
  subfolderSource,
} from '@slipway/agent'
import {
  type ExtensionSource,
  type LogFunction,
  type MarketplaceRegistration,
  Problem,
} from '@slipway/protocol'
import type { SourceCache } from './source-cache.ts'

/** Older files are fetched again on use. */
const refreshAfterMs = 600_000

export interface OpenMarketplace {
  readonly registration: MarketplaceRegistration
  readonly directory: string
  readonly commit: string | undefined
  readonly offers: readonly MarketplaceOffer[]
}

interface MarketplacesOptions {
  readonly registrations: readonly MarketplaceRegistration[]
  readonly sourceCache: SourceCache
  readonly log: LogFunction
}

/** Catalogues of plugins and skills: of the server and of requests. */
export class Marketplaces {
  readonly #options: MarketplacesOptions

  constructor(options: MarketplacesOptions) {
    this.#options = options
  }

  /** Those of a request replace the server's of the same name. */
  listRegistrations(others: readonly MarketplaceRegistration[] = []): readonly MarketplaceRegistration[] {
    const byName = new Map<string, MarketplaceRegistration>()
    for (const one of [...this.#options.registrations, ...others]) byName.set(one.name, one)
    return [...byName.values()]
  }

  /** An issue is a sentence that begins with a verb. `forceRefresh` fetches the files whatever their age. */
  async open(
    registration: MarketplaceRegistration,
    signal: AbortSignal,
    forceRefresh = false,
  ): Promise<OpenMarketplace | { readonly issue: string }> {
    const source = parseSource(registration)
    if ('issue' in source) return { issue: `has a bad ${source.member}: ${source.issue}` }
    const { sourceCache } = this.#options
    const files = forceRefresh
      ? await sourceCache.refresh(source, signal)
      : await sourceCache.get(source, refreshAfterMs, signal)
    if ('issue' in files) return files
    const { readMarketplace } = await extensionReaders()
    const { directory, commit } = files
    const read = await readMarketplace(directory)
    if ('issue' in read) return read
    for (const fault of read.issues)
      this.#options.log('warn', 'an entry of a marketplace was skipped', { name: registration.name, fault })
    return { registration, directory, commit, offers: read.offers }
  }

  /** Those that cannot be opened are skipped and logged. */
  async openAll(
    registrations: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<OpenMarketplace[]> {
    const results = await Promise.all(registrations.map((one) => this.open(one, signal)))
    return results.flatMap((one, index) => {
      if (!('issue' in one)) return [one]
      this.#options.log('warn', 'a marketplace was skipped', {
        name: registrations[index]?.name,
        reason: one.issue,
      })
      return []
    })
  }

  /**
   * The source of a plugin: `name@marketplace`, or `name` when only one marketplace has it. Problems:
   * `not_found`, and `bad_request` for an ambiguous or malformed reference and for a failed fetch.
   */
  async resolveReference(
    reference: string,
    others: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<ExtensionSource> {
    const separator = reference.lastIndexOf('@')
    const [name, marketplace] =
      separator === -1
        ? [reference, undefined]
        : [reference.slice(0, separator), reference.slice(separator + 1)]
    if (name === '' || marketplace === '')
      throw new Problem('bad_request', 'The reference is not of the form name@marketplace')
    const registrations = this.listRegistrations(others)
    if (registrations.length === 0) throw new Problem('bad_request', 'No marketplaces are registered')
    const candidates = registrations.filter((one) => marketplace === undefined || one.name === marketplace)
    if (marketplace !== undefined && candidates.length === 0)
      throw new Problem('not_found', 'No marketplace of this name is registered')
    const found: ExtensionSource[] = []
    for (const registration of candidates) {
      const opened = await this.open(registration, signal)
      if ('issue' in opened) {
        if (marketplace === undefined) continue
        throw new Problem('bad_request', `The marketplace ${marketplace} ${opened.issue}`)
      }
      const offer = opened.offers.find((one) => one.name === name && one.isPlugin)
      if (offer !== undefined) found.push(offerSource(opened, offer))
    }
    const [first, second] = found
    if (first === undefined) throw new Problem('not_found', 'No marketplace has a plugin of this name')
    if (second !== undefined)
      throw new Problem('bad_request', 'More than one marketplace has a plugin of this name')
    return first
  }
}

/** The source of an offer, in git at the commit of the catalogue read. Includes credentials of the URL. */
export function offerSource(
  { registration, directory, commit }: OpenMarketplace,
  offer: MarketplaceOffer,
): ExtensionSource {
  if (offer.source !== undefined) return offer.source
  const { folder = '' } = offer
  if (commit === undefined) return { source: join(directory, folder), ref: undefined, repo_path: undefined }
  const { source, repo_path } = registration
  const path = [repo_path, folder].filter((part) => part !== undefined && part !== '').join('/')
  return { source, ref: commit, repo_path: path === '' ? undefined : path }
}

/** The source of an offer for clients: without credentials, and with the registered ref. */
export function publicOfferSource(marketplace: OpenMarketplace, offer: MarketplaceOffer): ExtensionSource {
  const source = publicSource(offerSource(marketplace, offer))
  return offer.source === undefined && marketplace.commit !== undefined
    ? { ...source, ref: marketplace.registration.ref }
    : source
}

/** The source of an offer as one text that an installation accepts. */
export function offerInstallSource(marketplace: OpenMarketplace, offer: MarketplaceOffer): string {
  const { source, ref, repo_path } = publicOfferSource(marketplace, offer)
  if (ref === undefined && repo_path === undefined) return source
  return subfolderSource({ source, ref, repo_path: undefined }, repo_path ?? '')
}

export function isAutoLoaded({ auto_load }: MarketplaceRegistration, offer: MarketplaceOffer): boolean {
  return auto_load === true || (Array.isArray(auto_load) && auto_load.includes(offer.name))
}
