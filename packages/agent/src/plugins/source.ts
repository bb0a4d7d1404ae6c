import { isAbsolute, normalize } from 'node:path'
import { type ExtensionSource, redactText } from '@slipway/protocol'

/** Where something is fetched from, understood. */
export type Source =
  | { readonly kind: 'directory'; readonly path: string; readonly folder: string | undefined }
  | {
      readonly kind: 'git'
      /** Without credentials. */
      readonly url: string
      /** `user:password` of the address, for this fetch and nothing else. */
      readonly credentials: string | undefined
      readonly ref: string | undefined
      /** A folder of the repository, without slashes at its ends. */
      readonly folder: string | undefined
    }

export interface SourceFault {
  readonly member: 'source' | 'ref' | 'repo_path'
  readonly fault: string
}

const forms =
  'It is no absolute directory, no https, ssh or file address of a git repository and not github:owner/repo'
const short = /^github:([\w.-]+)\/([\w.-]+?)(?:\.git)?(?:\/([^@]+))?(?:@(.+))?$/
const remote = /^(\w[\w.-]*@\w[\w.-]*):(?!\/\/)([^\s:]+)$/
const tree = /^\/([^/]+)\/([^/]+)\/tree\/([^/]+)(?:\/(.+))?$/
const badCharacters = /[\p{Cc}\p{Zl}\p{Zp}\\]/u

/**
 * Understands a source. A folder of the repository may stand in the source, behind `github:owner/repo/` or after a `#`, and then
 * `repo_path` is below it; so may a ref, at the end behind an `@`, but for the member `ref` goes before it. Nothing is looked up.
 */
export function readSource(given: ExtensionSource): Source | SourceFault {
  const { repo_path } = given
  const text = given.source.trim()
  if (badCharacters.test(text)) return { member: 'source', fault: 'It holds characters that no source has' }
  const place = placeOf(text)
  if (place === undefined) return { member: 'source', fault: forms }
  if ('fault' in place) return { member: 'source', fault: place.fault }
  const [inner, outer] = [folderOf(place.folder), folderOf(repo_path)]
  if (inner === null) return { member: 'source', fault: 'Its folder leads out of the repository' }
  if (outer === null) return { member: 'repo_path', fault: 'It leads out of the repository' }
  const ref = given.ref ?? place.ref
  if (ref !== undefined && !isRef(ref))
    return { member: 'ref', fault: 'It is no name of a branch, tag or commit' }
  const folder = [inner, outer].filter((part) => part !== undefined).join('/') || undefined
  const { url } = place
  if (!isAbsolute(url)) return { kind: 'git', url, credentials: place.credentials, ref, folder }
  if (ref === undefined) return { kind: 'directory', path: url, folder }
  return { kind: 'git', url: `file://${encodeURI(url)}`, credentials: undefined, ref, folder }
}

/** The same source as it may be kept and shown: without credentials and unknown members. */
export function shownSource(given: ExtensionSource): ExtensionSource {
  return { source: shownText(given.source.trim()), ref: given.ref, repo_path: given.repo_path }
}

function shownText(text: string): string {
  const place = placeOf(text)
  if (place === undefined || 'fault' in place) return redactText(text)
  return /^https:\/\/[^/?#]*@/i.test(text) ? place.url + suffixOf(place) : text
}

/** A source that names a folder of another one by itself. */
export function sourceOfFolder(given: ExtensionSource, folder: string): string {
  const place = placeOf(given.source.trim())
  if (place === undefined || 'fault' in place) return given.source
  const parts = [place.folder, given.repo_path, folder].map((part) => part?.replace(/^\/+|\/+$/g, '') ?? '')
  const below = parts.filter((part) => part !== '').join('/')
  return place.url + suffixOf({ folder: below, ref: given.ref ?? place.ref })
}

function suffixOf({ folder, ref }: Pick<Place, 'folder' | 'ref'>): string {
  if (ref !== undefined) return `#${folder ?? ''}@${ref}`
  return folder === undefined || folder === '' ? '' : `#${folder}`
}

interface Place {
  /** An absolute directory or an address. */
  readonly url: string
  readonly credentials?: string | undefined
  readonly ref?: string | undefined
  readonly folder?: string | undefined
  readonly fault?: never
}

type Found =
  | Place
  | { readonly url?: never; readonly credentials?: never; readonly folder?: never; readonly fault: string }

function placeOf(text: string): Found | undefined {
  if (isAbsolute(text)) return { url: normalize(text) }
  const [, owner, repository, folder, ref] = short.exec(text) ?? []
  if (owner !== undefined && repository !== undefined) {
    if (!isName(owner) || !isName(repository)) return undefined
    return { url: `https://github.com/${owner}/${repository}.git`, folder, ref }
  }
  const [, address = '', after, at] = /^([^#]*)(?:#([^@]*)(?:@(.+))?)?$/.exec(text) ?? []
  const [, host = '', path = ''] = remote.exec(address) ?? []
  if (host !== '') return !path.startsWith('-') ? { url: address, folder: after, ref: at } : undefined
  // Written in other ways it would be the same address, and nobody would find the credentials in it.
  const url = /^[a-z]+:\/\/[^/\s]|^file:\/\/\//i.test(address) ? URL.parse(address) : null
  const found = url === null || /\s/.test(address) ? undefined : ofUrl(url, after)
  return found === undefined || 'fault' in found || at === undefined ? found : { ...found, ref: at }
}

function ofUrl(url: URL, folder: string | undefined): Found | undefined {
  if (!['https:', 'ssh:', 'file:'].includes(url.protocol)) return undefined
  if (url.search !== '') return { fault: 'Its address has a query' }
  if (url.protocol === 'file:' && url.host !== '') return { fault: 'Its address names a host' }
  if (url.protocol !== 'file:' && !isName(url.hostname.replace(/^\[/, ''))) return undefined
  if (url.protocol === 'ssh:') {
    if (url.password !== '') return { fault: 'An ssh address has no password' }
    return url.username.startsWith('-') ? undefined : { url: url.href, folder }
  }
  const { username, password } = url
  const credentials =
    username === '' && password === '' ? undefined : `${decoded(username)}:${decoded(password)}`
  url.username = ''
  url.password = ''
  const [, owner, repository, ref, below] =
    url.hostname === 'github.com' ? (tree.exec(url.pathname) ?? []) : []
  if (owner === undefined) return { url: url.href, credentials, folder }
  return {
    url: `https://github.com/${owner}/${repository}.git`,
    credentials,
    ref,
    folder: folder ?? below,
  }
}

/** Of a host, an owner or a repository: no program takes it for an option. */
function isName(text: string): boolean {
  return /^[\w[]/.test(text) && text !== '.' && text !== '..'
}

/** Undefined when there is none, null when it leads out. */
function folderOf(path: string | undefined): string | undefined | null {
  if (path === undefined) return undefined
  const parts = path.split('/').filter((part) => part !== '' && part !== '.')
  if (badCharacters.test(path) || path.startsWith('/') || parts.some((part) => part === '..' || isGit(part)))
    return null
  return parts.length === 0 ? undefined : parts.join('/')
}

function isRef(ref: string): boolean {
  return /^[\w][\w./+@-]*$/.test(ref) && !ref.includes('..') && !ref.includes('@{')
}

/** A folder in which git keeps what it believes. */
export function isGit(name: string): boolean {
  return /^\.git[\s.]*$/i.test(name)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
