import { type AppConversationStartRequest, invalidInput } from '@slipway/protocol'
import { isSecretName, Secret } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import type { GitToken } from './git-providers.ts'

export interface Repository {
  /** Without user and password. */
  readonly url: string
  readonly name: string
  /** Credentials for git; undefined: none. */
  readonly login: { readonly user: string; readonly password: Secret } | undefined
}

export type Provider = NonNullable<AppConversationStartRequest['git_provider']>

interface ProviderHost {
  readonly host: string
  /** The user name that goes with a token. */
  readonly user: string
  /** The path of `owner/name`; `/owner/name.git` unless given. */
  path?(repository: string): string
}

const providerHosts: Readonly<Record<Provider, ProviderHost>> = {
  github: { host: 'github.com', user: 'x-access-token' },
  gitlab: { host: 'gitlab.com', user: 'oauth2' },
  bitbucket: { host: 'bitbucket.org', user: 'x-token-auth' },
  bitbucket_data_center: { host: '', user: 'x-token-auth', path: (name) => `/scm/${name}.git` },
  forgejo: { host: 'codeberg.org', user: 'oauth2' },
  azure_devops: {
    host: 'dev.azure.com',
    user: 'oauth2',
    path: (name) => `/${name.replace(/\/([^/]+)$/, '/_git/$1')}`,
  },
  enterprise_sso: { host: '', user: 'oauth2' },
}

/** The hosts of the providers that have one for everybody. */
export const defaultProviderHosts: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(providerHosts).flatMap(([provider, { host }]) => (host === '' ? [] : [[provider, host]])),
)

/** The provider of `owner/name` in a request without one. */
export const defaultProvider: Provider = 'github'

/** Whether it is a URL instead of `owner/name` at a provider. */
export function isUrl(repository: string): boolean {
  return repository.includes('://')
}

/** A Problem `invalid` for an address with credentials, which lists and the clone would show. */
export function checkRepository(repository: string | undefined): void {
  if (repository === undefined || !isUrl(repository)) return
  const hasUser = /^(?:https?|git|file):\/\/[^/]*@|^ssh:\/\/[^/@]*:[^/@]*@/.test(repository)
  const parameters = URL.parse(repository)?.searchParams.keys() ?? []
  if (!hasUser && ![...parameters].some(isSecretName)) return
  throw invalidInput(
    ['body', 'selected_repository'],
    'The address must not contain a user, a password or a key: store a token of the Git provider',
  )
}

/** Rejects a provider's host that contains more than an address, because the host is visible. */
export function checkProviderHost(provider: string, host: string | undefined): void {
  if (host === undefined || !/[@?#\s]/.test(host)) return
  throw invalidInput(
    ['body', 'provider_tokens', provider, 'host'],
    'A host is a name or an address, without a user, a password or a query',
  )
}

/** `host` of the token overrides the provider's; it may be a URL. Undefined: no host is known. */
export function resolveRepository(
  selected: string,
  provider: Provider | undefined,
  token: GitToken | undefined,
): Repository | undefined {
  const name = repositoryDirectoryName(selected)
  if (isUrl(selected)) return { url: selected, name, login: undefined }
  const { user, path = (name) => `/${name}.git` } = providerHosts[provider ?? defaultProvider]
  const base = resolveProviderUrl(provider ?? defaultProvider, token?.host)
  if (base === undefined) return undefined
  return { url: `${base}${path(selected)}`, name, login: token && parseLogin(user, token.token) }
}

/**
 * Without a slash at its end. A stored host overrides the usual one; it may be a URL. Undefined: no host is
 * known.
 */
export function resolveProviderUrl(provider: Provider, storedHost: string | undefined): string | undefined {
  const host = storedHost?.replace(/\/+$/, '') || providerHosts[provider].host
  if (host === '') return undefined
  return isUrl(host) ? host : `https://${host}`
}

/** Some tokens include their user: `user:token`. */
export function parseLogin(user: string, token: Secret): NonNullable<Repository['login']> {
  const text = token.reveal()
  const at = text.indexOf(':')
  if (at <= 0) return { user, password: token }
  return { user: text.slice(0, at), password: new Secret(text.slice(at + 1)) }
}

function repositoryDirectoryName(repository: string): string {
  const last = repository.replace(/\/+$/, '').split('/').at(-1) ?? ''
  const name = last
    .replace(/\.git$/, '')
    .replace(/[^\w.-]/g, '-')
    .replace(/^[.-]+/, '')
  return name === '' ? 'project' : firstChars(name, 100)
}
