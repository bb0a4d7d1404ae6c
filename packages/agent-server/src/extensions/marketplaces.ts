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

/** Files of a marketplace that are older are fetched again when somebody asks. */
const refreshAfterMs = 600_000

/** A marketplace whose files are there. */
export interface OpenMarketplace {
  readonly registration: MarketplaceRegistration
  readonly directory: string
  readonly commit: string | undefined
  readonly offers: readonly MarketplaceOffer[]
}

interface MarketplacesOptions {
  /** Those of the server, from its settings. */
  readonly registrations: readonly MarketplaceRegistration[]
  readonly sourceCache: SourceCache
  readonly log: LogFunction
}

/** Catalogues of plugins and skills: those of the server, and those that a request brings along. */
export class Marketplaces {
  readonly #options: MarketplacesOptions

  constructor(options: MarketplacesOptions) {
    this.#options = options
  }

  /** Those of the server and then others; of two of one name the first counts. */
  listRegistrations(others: readonly MarketplaceRegistration[] = []): readonly MarketplaceRegistration[] {
    const byName = new Map<string, MarketplaceRegistration>()
    for (const one of [...this.#options.registrations, ...others])
      if (!byName.has(one.name)) byName.set(one.name, one)
    return [...byName.values()]
  }

  /** A fault is a sentence that begins with a verb. `isFresh` fetches it in any case. */
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
    for (const issue of read.issues)
      this.#options.log('warn', 'an entry of a marketplace was passed over', {
        name: registration.name,
        fault: issue,
      })
    return { registration, directory, commit, offers: read.offers }
  }

  /** Those that can be opened; the others are logged. */
  async openAll(
    registrations: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<OpenMarketplace[]> {
    const results = await Promise.all(registrations.map((one) => this.open(one, signal)))
    return results.flatMap((one, index) => {
      if (!('issue' in one)) return [one]
      this.#options.log('warn', 'a marketplace was passed over', {
        name: registrations[index]?.name,
        reason: one.issue,
      })
      return []
    })
  }

  /**
   * Where the plugin of a reference is: `name@marketplace`, or the name alone when one marketplace has it. Problems: `not_found`
   * for a plugin or marketplace that is not known, `bad_request` for another reference and for what cannot be fetched.
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
    const candidates = this.listRegistrations(others).filter(
      (one) => marketplace === undefined || one.name === marketplace,
    )
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

/** Where an offer is; of a marketplace in git at the commit whose catalogue was read. Credentials of its address stay in it. */
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

/** The same as clients see it: without credentials, and with the ref that was registered. */
export function publicOfferSource(marketplace: OpenMarketplace, offer: MarketplaceOffer): ExtensionSource {
  const source = publicSource(offerSource(marketplace, offer))
  return offer.source === undefined && marketplace.commit !== undefined
    ? { ...source, ref: marketplace.registration.ref }
    : source
}

/** The same as one text, as an installation takes it. */
export function offerInstallSource(marketplace: OpenMarketplace, offer: MarketplaceOffer): string {
  const { source, ref, repo_path } = publicOfferSource(marketplace, offer)
  if (ref === undefined && repo_path === undefined) return source
  return subfolderSource({ source, ref, repo_path: undefined }, repo_path ?? '')
}

/** Whether every conversation gets it. */
export function isAutoLoaded({ auto_load }: MarketplaceRegistration, offer: MarketplaceOffer): boolean {
  return auto_load === true || (Array.isArray(auto_load) && auto_load.includes(offer.name))
}
