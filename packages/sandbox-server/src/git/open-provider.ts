/**
 * Requests to hosts that users name. A user of a shared server must not reach what only this machine and its
 * network reach, and the token must reach nothing but the provider. So a request goes by https to the host
 * that is stored with the token or the provider's usual one, follows no redirect, and goes to a public
 * address, unless the user administers the whole server. The connection goes to the address that was checked:
 * a second look-up could have another result.
 */

import { lookup } from 'node:dns'
import { Problem } from '@slipway/protocol'
import { fetchWithLookup, publicFetch } from '@slipway/shared/network'
import type { Clock } from '@slipway/shared/time'
import type { GitToken } from '../accounts/git-providers.ts'
import { type Provider, parseLogin, resolveProviderUrl } from '../accounts/git-repository.ts'
import { bitbucketProvider } from './bitbucket.ts'
import { forgejoProvider } from './forgejo.ts'
import type { GitProvider } from './git-provider.ts'
import { githubProvider } from './github.ts'
import { gitlabProvider } from './gitlab.ts'
import { ProviderApi, type ProviderFetch } from './provider-api.ts'

const timeoutMs = 20_000

/** How requests leave the server. */
export interface ProviderFetches {
  /** To public addresses alone. */
  readonly public: ProviderFetch
  readonly any: ProviderFetch
}

export const providerFetches: ProviderFetches = {
  public: publicFetch,
  any: (url, init) => fetchWithLookup(url, init, lookup),
}

interface Interface {
  readonly open: (api: ProviderApi) => GitProvider
  /** Of its interfaces, from the address of the provider. */
  readonly urls: (site: string) => { readonly url: string; readonly graphqlUrl?: string }
  /** Repositories are in groups of groups. */
  readonly isNested?: true
  /** The header `Authorization`; `Bearer` and the token unless given. */
  readonly authorize?: (token: GitToken) => string
}

const interfaces: Readonly<Partial<Record<Provider, Interface>>> = {
  github: {
    open: githubProvider,
    urls: (site) =>
      site === 'https://github.com'
        ? { url: 'https://api.github.com', graphqlUrl: 'https://api.github.com/graphql' }
        : { url: `${site}/api/v3`, graphqlUrl: `${site}/api/graphql` },
  },
  gitlab: {
    open: gitlabProvider,
    isNested: true,
    urls: (site) => ({ url: `${site}/api/v4`, graphqlUrl: `${site}/api/graphql` }),
  },
  forgejo: {
    open: forgejoProvider,
    urls: (site) => ({ url: `${site}/api/v1` }),
    authorize: ({ token }) => `token ${passwordOf({ token })}`,
  },
  bitbucket: {
    open: bitbucketProvider,
    urls: (site) => ({ url: `${site.replace('https://', 'https://api.')}/2.0` }),
    authorize: ({ token }) => {
      const text = token.reveal().trim()
      return text.includes(':') ? `Basic ${Buffer.from(text).toString('base64')}` : `Bearer ${text}`
    },
  },
}

/** Whether the server can ask it. */
export function isSupportedProvider(provider: string): provider is Provider {
  return Object.hasOwn(interfaces, provider)
}

/** What is stored for a provider. Without a token only what everybody may read. */
export type ProviderAccess = Partial<GitToken>

/**
 * The provider of a repository's address and its path there: the stored ones first, then the usual hosts.
 * Undefined for another host.
 */
export function findRepository(
  address: string,
  stored: ReadonlyMap<string, ProviderAccess>,
): { readonly provider: Provider; readonly access: ProviderAccess; readonly path: string } | undefined {
  const usual = Object.keys(interfaces).map((name): [string, ProviderAccess] => [name, {}])
  for (const [provider, access] of [...stored, ...usual]) {
    if (!isSupportedProvider(provider)) continue
    const site = findSite(provider, access.host)
    const path = site && repositoryPath(site, address, interfaces[provider]?.isNested)
    if (path !== undefined) return { provider, access, path }
  }
  return undefined
}

/** Where users of a provider have their repositories, and its interface. */
export interface OpenProvider extends GitProvider {
  /** Undefined for an address of another host. */
  repositoryPath(address: string): string | undefined
  /** See `ProviderApi`. */
  unexpected(): Problem
}

/**
 * The interface of a provider, for one request of a caller. A Problem `bad_request` for a provider that the
 * server cannot ask, and for a stored host without https or without an address of the interface.
 */
export function openProvider(
  provider: Provider,
  stored: ProviderAccess,
  deps: { readonly fetch: ProviderFetch; readonly clock: Clock; readonly signal: AbortSignal },
): OpenProvider {
  const found = interfaces[provider]
  if (found === undefined) throw new Problem('bad_request', `The provider ${provider} cannot be asked here`)
  const site = parseSite(provider, stored.host)
  const {
    open,
    urls,
    isNested,
    authorize = ({ token }: GitToken) => `Bearer ${passwordOf({ token })}`,
  } = found
  const { token } = stored
  const authorization = token && authorize({ ...stored, token })
  // Also no header: its error would show the token.
  if (authorization !== undefined && !/^[\x20-\x7e]+$/.test(authorization))
    throw new Problem('unauthorized', `Invalid ${provider} token`)
  const addresses = urls(site)
  // Bitbucket's interface is at `api.` and the host, which is no address for an IP address.
  if (!URL.canParse(addresses.url))
    throw new Problem('bad_request', `The host of ${provider} must be a name, not an IP address`)
  const { fetch, clock, signal } = deps
  const api = new ProviderApi({
    ...{ name: provider, ...addresses, authorization, fetch, signal, deadline: clock.timeout(timeoutMs) },
  })
  const opened = open(api)
  return {
    ...opened,
    async user() {
      const user = await opened.user()
      if (user.id === '' || user.login === '') throw api.unexpected()
      return user
    },
    repositoryPath: (address) => repositoryPath(site, address, isNested),
    unexpected: () => api.unexpected(),
  }
}

/** `https://host` or `https://host/path`. */
function parseSite(provider: Provider, host: string | undefined): string {
  const site = findSite(provider, host)
  if (site === undefined) throw new Problem('bad_request', `The host of ${provider} must be reached by https`)
  return site
}

function findSite(provider: Provider, host: string | undefined): string | undefined {
  const url = URL.parse(resolveProviderUrl(provider, host) ?? '')
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return undefined
  return (url.origin + url.pathname).replace(/(?:\/api\/(?:v\d+|graphql))?\/*$/, '')
}

function passwordOf({ token }: Pick<GitToken, 'token'>): string {
  return parseLogin('', token).password.reveal().trim()
}

function repositoryPath(site: string, address: string, isNested = false): string | undefined {
  if (!/^https?:\/\//.test(address)) return undefined
  const url = URL.parse(address)
  const base = new URL(`${site}/`)
  if (url?.host !== base.host || !url.pathname.startsWith(base.pathname)) return undefined
  const [path = ''] = url.pathname.slice(base.pathname.length).split('/-/')
  const parts = path.split('/').filter((part) => part !== '')
  if (parts.length < 2) return undefined
  return (isNested ? parts : parts.slice(0, 2)).join('/').replace(/\.git$/, '')
}
