import { isAbsolute, normalize } from 'node:path'
import type { ExtensionSource } from '@slipway/protocol'
import { redactText } from '@slipway/shared/redaction'
import { decodePercent } from '@slipway/shared/url'

/** A parsed source of a plugin or of skills. */
export type Source =
  | { readonly kind: 'directory'; readonly path: string; readonly folder: string | undefined }
  | {
      readonly kind: 'git'
      /** Without credentials. */
      readonly url: string
      /** `user:password` of the address, for this fetch only. */
      readonly credentials: string | undefined
      readonly ref: string | undefined
      /** A folder of the repository, without leading and trailing slashes. */
      readonly folder: string | undefined
    }

interface SourceIssue {
  readonly member: 'source' | 'ref' | 'repo_path'
  readonly issue: string
}

const acceptedForms =
  'It is no absolute directory, no https, ssh or file address of a git repository and not github:owner/repo'
const githubShorthand = /^github:([\w.-]+)\/([\w.-]+?)(?:\.git)?(?:\/([^@]+))?(?:@(.+))?$/
const scpAddress = /^(\w[\w.-]*@\w[\w.-]*):(?!\/\/)([^\s:]+)$/
const githubTree = /^\/([^/]+)\/([^/]+)\/tree\/([^/]+)(?:\/(.+))?$/
const badCharacters = /[\p{Cc}\p{Zl}\p{Zp}\\]/u

/**
 * Parses a source, without any access. The source may contain a folder of the repository, after
 * `github:owner/repo/` or after a `#`; `repo_path` is then below it. It may end in `@` and a ref; the member
 * `ref` has precedence.
 */
export function parseSource(input: ExtensionSource): Source | SourceIssue {
  const { repo_path } = input
  const text = input.source.trim()
  if (badCharacters.test(text)) return { member: 'source', issue: 'It holds characters that no source has' }
  const location = parseLocation(text)
  if (location === undefined) return { member: 'source', issue: acceptedForms }
  if ('issue' in location) return { member: 'source', issue: location.issue }
  const [inner, outer] = [normalizeFolder(location.folder), normalizeFolder(repo_path)]
  if (inner === null) return { member: 'source', issue: 'Its folder leads out of the repository' }
  if (outer === null) return { member: 'repo_path', issue: 'It leads out of the repository' }
  const ref = input.ref ?? location.ref
  if (ref !== undefined && !isRef(ref))
    return { member: 'ref', issue: 'It is no name of a branch, tag or commit' }
  const folder = [inner, outer].filter((part) => part !== undefined).join('/') || undefined
  const { url } = location
  if (!isAbsolute(url)) return { kind: 'git', url, credentials: location.credentials, ref, folder }
  if (ref === undefined) return { kind: 'directory', path: url, folder }
  return { kind: 'git', url: `file://${encodeURI(url)}`, credentials: undefined, ref, folder }
}

/** The source for storage and display: without credentials and unknown members. */
export function publicSource(input: ExtensionSource): ExtensionSource {
  return { source: publicText(input.source.trim()), ref: input.ref, repo_path: input.repo_path }
}

function publicText(text: string): string {
  const location = parseLocation(text)
  if (location === undefined || 'issue' in location) return redactText(text)
  return /^https:\/\/[^/?#]*@/i.test(text) ? location.url + sourceFragment(location) : text
}

/** A source, as one text, for a folder of another source. */
export function subfolderSource(input: ExtensionSource, folder: string): string {
  const location = parseLocation(input.source.trim())
  if (location === undefined || 'issue' in location) return input.source
  const parts = [location.folder, input.repo_path, folder].map(
    (part) => part?.replace(/^\/+|\/+$/g, '') ?? '',
  )
  const below = parts.filter((part) => part !== '').join('/')
  return location.url + sourceFragment({ folder: below, ref: input.ref ?? location.ref })
}

function sourceFragment({ folder, ref }: Pick<SourceLocation, 'folder' | 'ref'>): string {
  if (ref !== undefined) return `#${folder ?? ''}@${ref}`
  return folder === undefined || folder === '' ? '' : `#${folder}`
}

interface SourceLocation {
  /** An absolute directory or an address. */
  readonly url: string
  readonly credentials?: string | undefined
  readonly ref?: string | undefined
  readonly folder?: string | undefined
}

type ParsedLocation = SourceLocation | { readonly issue: string }

function parseLocation(text: string): ParsedLocation | undefined {
  if (isAbsolute(text)) return { url: normalize(text) }
  const [, owner, repository, folder, ref] = githubShorthand.exec(text) ?? []
  if (owner !== undefined && repository !== undefined) {
    if (!isSafeName(owner) || !isSafeName(repository)) return undefined
    return { url: `https://github.com/${owner}/${repository}.git`, folder, ref }
  }
  const [, address = '', urlFolder, urlRef] = /^([^#]*)(?:#([^@]*)(?:@(.+))?)?$/.exec(text) ?? []
  const [, host = '', path = ''] = scpAddress.exec(address) ?? []
  if (host !== '') return !path.startsWith('-') ? { url: address, folder: urlFolder, ref: urlRef } : undefined
  // Other spellings are rejected, because credentials in them would not be recognized.
  const url = /^[a-z]+:\/\/[^/\s]|^file:\/\/\//i.test(address) ? URL.parse(address) : null
  const location = url === null || /\s/.test(address) ? undefined : parseUrl(url, urlFolder)
  return location === undefined || 'issue' in location || urlRef === undefined
    ? location
    : { ...location, ref: urlRef }
}

function parseUrl(url: URL, folder: string | undefined): ParsedLocation | undefined {
  if (!['https:', 'ssh:', 'file:'].includes(url.protocol)) return undefined
  if (url.search !== '') return { issue: 'Its address has a query' }
  if (url.protocol === 'file:' && url.host !== '') return { issue: 'Its address names a host' }
  if (url.protocol !== 'file:' && !isSafeName(url.hostname.replace(/^\[/, ''))) return undefined
  if (url.protocol === 'ssh:') {
    if (url.password !== '') return { issue: 'An ssh address has no password' }
    return url.username.startsWith('-') ? undefined : { url: url.href, folder }
  }
  const { username, password } = url
  const credentials =
    username === '' && password === ''
      ? undefined
      : [username, password].map((part) => decodePercent(part) ?? part).join(':')
  url.username = ''
  url.password = ''
  const [, owner, repository, ref, path] =
    url.hostname === 'github.com' ? (githubTree.exec(url.pathname) ?? []) : []
  if (owner === undefined) return { url: url.href, credentials, folder }
  const address = `https://github.com/${owner}/${repository}.git`
  return { url: address, credentials, ref, folder: folder ?? path }
}

/** Whether no program mistakes a host, an owner or a repository for an option. */
function isSafeName(text: string): boolean {
  return /^[\w[]/.test(text) && text !== '.' && text !== '..'
}

/** Undefined without a folder, null when it leads out of the repository. */
function normalizeFolder(path: string | undefined): string | undefined | null {
  if (path === undefined) return undefined
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  const isOutside = path.startsWith('/') || parts.some((part) => part === '..' || isGitFolder(part))
  if (isOutside || badCharacters.test(path)) return null
  return parts.length === 0 ? undefined : parts.join('/')
}

function isRef(ref: string): boolean {
  return /^[\w][\w./+@-]*$/.test(ref) && !ref.includes('..') && !ref.includes('@{')
}

/** Whether a name is a git directory on some file system. */
export function isGitFolder(name: string): boolean {
  return /^\.git[\s.]*$/i.test(name)
}
