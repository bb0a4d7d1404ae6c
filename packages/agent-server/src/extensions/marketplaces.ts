import { join } from 'node:path'
import { extensionReaders, type Offer, readSource, shownSource, sourceOfFolder } from '@slipway/agent'
import { type ExtensionSource, type Log, type MarketplaceRegistration, Problem } from '@slipway/protocol'
import type { Fetched } from './source-cache.ts'

/** Files of a marketplace that are older are fetched again when somebody asks. */
const freshMs = 600_000

/** A marketplace whose files are there. */
export interface OpenMarketplace {
  readonly registration: MarketplaceRegistration
  readonly directory: string
  readonly commit: string | undefined
  readonly offers: readonly Offer[]
}

interface Options {
  /** Those of the server, from its settings. */
  readonly registrations: readonly MarketplaceRegistration[]
  readonly fetched: Fetched
  readonly log: Log
}

/** Catalogues of plugins and skills: those of the server, and those that a request brings along. */
export class Marketplaces {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Those of the server and then others; of two of one name the first counts. */
  all(others: readonly MarketplaceRegistration[] = []): readonly MarketplaceRegistration[] {
    const byName = new Map<string, MarketplaceRegistration>()
    for (const one of [...this.#options.registrations, ...others])
      if (!byName.has(one.name)) byName.set(one.name, one)
    return [...byName.values()]
  }

  /** A fault is a sentence that begins with a verb. `isFresh` fetches it in any case. */
  async open(
    registration: MarketplaceRegistration,
    signal: AbortSignal,
    isFresh = false,
  ): Promise<OpenMarketplace | { readonly fault: string }> {
    const source = readSource(registration)
    if ('fault' in source) return { fault: `has a bad ${source.member}: ${source.fault}` }
    const { fetched } = this.#options
    const files = isFresh ? await fetched.refresh(source, signal) : await fetched.get(source, freshMs, signal)
    if ('fault' in files) return files
    const { readMarketplace } = await extensionReaders()
    const { directory, commit } = files
    const read = await readMarketplace(directory)
    if ('fault' in read) return read
    for (const fault of read.faults)
      this.#options.log('warn', 'an entry of a marketplace was passed over', {
        name: registration.name,
        fault,
      })
    return { registration, directory, commit, offers: read.offers }
  }

  /** Those that can be opened; the others are logged. */
  async opened(
    registrations: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<OpenMarketplace[]> {
    const found = await Promise.all(registrations.map((one) => this.open(one, signal)))
    return found.flatMap((one, at) => {
      if (!('fault' in one)) return [one]
      this.#options.log('warn', 'a marketplace was passed over', {
        name: registrations[at]?.name,
        reason: one.fault,
      })
      return []
    })
  }

  /**
   * Where the plugin of a reference is: `name@marketplace`, or the name alone when one marketplace has it. Problems: `not_found`
   * for a plugin or marketplace that is not known, `bad_request` for another reference and for what cannot be fetched.
   */
  async find(
    reference: string,
    others: readonly MarketplaceRegistration[],
    signal: AbortSignal,
  ): Promise<ExtensionSource> {
    const at = reference.lastIndexOf('@')
    const [name, marketplace] =
      at === -1 ? [reference, undefined] : [reference.slice(0, at), reference.slice(at + 1)]
    if (name === '' || marketplace === '')
      throw new Problem('bad_request', 'The reference is not of the form name@marketplace')
    const known = this.all(others).filter((one) => marketplace === undefined || one.name === marketplace)
    if (marketplace !== undefined && known.length === 0)
      throw new Problem('not_found', 'No marketplace of this name is registered')
    const found: ExtensionSource[] = []
    for (const registration of known) {
      const open = await this.open(registration, signal)
      if ('fault' in open) {
        if (marketplace === undefined) continue
        throw new Problem('bad_request', `The marketplace ${marketplace} ${open.fault}`)
      }
      const offer = open.offers.find((one) => one.name === name && one.isPlugin)
      if (offer !== undefined) found.push(sourceOf(open, offer))
    }
    const [first, second] = found
    if (first === undefined) throw new Problem('not_found', 'No marketplace has a plugin of this name')
    if (second !== undefined)
      throw new Problem('bad_request', 'More than one marketplace has a plugin of this name')
    return first
  }
}

/** Where an offer is; of a marketplace in git at the commit whose catalogue was read. Credentials of its address stay in it. */
export function sourceOf(
  { registration, directory, commit }: OpenMarketplace,
  offer: Offer,
): ExtensionSource {
  if (offer.source !== undefined) return offer.source
  const { folder = '' } = offer
  if (commit === undefined) return { source: join(directory, folder), ref: undefined, repo_path: undefined }
  const { source, repo_path } = registration
  const below = [repo_path, folder].filter((part) => part !== undefined && part !== '').join('/')
  return { source, ref: commit, repo_path: below === '' ? undefined : below }
}

/** The same as clients see it: without credentials, and with the ref that was registered. */
export function shownOffer(open: OpenMarketplace, offer: Offer): ExtensionSource {
  const source = shownSource(sourceOf(open, offer))
  return offer.source === undefined && open.commit !== undefined
    ? { ...source, ref: open.registration.ref }
    : source
}

/** The same as one text, as an installation takes it. */
export function shownText(open: OpenMarketplace, offer: Offer): string {
  const { source, ref, repo_path } = shownOffer(open, offer)
  if (ref === undefined && repo_path === undefined) return source
  return sourceOfFolder({ source, ref, repo_path: undefined }, repo_path ?? '')
}

/** Whether every conversation gets it. */
export function isLoaded({ auto_load }: MarketplaceRegistration, offer: Offer): boolean {
  return auto_load === true || (Array.isArray(auto_load) && auto_load.includes(offer.name))
}
