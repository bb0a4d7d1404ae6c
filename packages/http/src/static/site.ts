import { hash } from 'node:crypto'
import { readFile, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { resolveWithin } from '@slipway/shared/fs'
import { decodePercent } from '@slipway/shared/url'
import { acceptsEncoding } from '../core/compress.ts'
import type { Reply } from '../core/handler.ts'
import { contentTypeForPath } from './content-types.ts'
import { fileReply } from './file-reply.ts'

type Header = (name: string) => string | undefined

interface SiteOptions {
  /**
   * Returns HTML for the start of the page's `<head>`, by the path of the request; called for each request.
   */
  readonly head?: (path: string) => string
  /** Of the page and its files; unless given, only pages of this server may embed them. */
  readonly contentSecurityPolicy?: string
}

/** The page sends no referrer to other origins. */
const pageHeaders = {
  'cache-control': 'no-cache',
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}

const yearSeconds = 31_536_000

/**
 * A single-page application: the files of its build directory, and its `index.html` for every other address
 * that a browser requests as a page. Files below `assets/` with a digest in their names are cached as
 * immutable; of a precompressed file (`.br`, `.gz` beside it) the smallest accepted encoding is sent. No path
 * leaves the directory, and hidden files are not served.
 */
export class Site {
  readonly #root: string
  readonly #head: (path: string) => string
  readonly #policy: string

  private constructor(root: string, { head, contentSecurityPolicy }: SiteOptions) {
    this.#root = root
    this.#head = head ?? (() => '')
    this.#policy = contentSecurityPolicy ?? "frame-ancestors 'self'"
  }

  /**
   * Opens the directory, or `build` in it if that has the page. Rejects with a readable Error when there is
   * no `index.html`.
   */
  static async open(directory: string, options: SiteOptions = {}): Promise<Site> {
    for (const candidate of [directory, join(directory, 'build')]) {
      const isPage = await stat(join(candidate, 'index.html')).catch(() => undefined)
      if (isPage?.isFile()) return new Site(await realpath(candidate), options)
    }
    throw new Error(`There is no web page in ${directory}: neither index.html nor build/index.html`)
  }

  /**
   * The reply to a GET of an address (with its query); undefined when it is no file and not requested as a
   * page.
   */
  async get(url: string, header: Header): Promise<Reply | undefined> {
    const path = decodePercent(url.split(/[?#]/, 1)[0] ?? '')
    const isHidden = path === undefined || /\/\.(?!well-known\/)/.test(path)
    const isIndex = path === '/' || path === '/index.html'
    const reply = isHidden || isIndex ? undefined : await this.#file(path, header)
    return reply ?? (isIndex || acceptsHtml(header) ? await this.page(header, path) : undefined)
  }

  /** The application's page. */
  async page(header: Header, path = '/'): Promise<Reply> {
    const html = await readFile(join(this.#root, 'index.html'), 'utf8').catch(() => {
      throw new Problem('not_found', 'The page is gone')
    })
    const bytes = Buffer.from(insertHead(html, this.#head(path)))
    const etag = `"${hash('sha256', bytes).slice(0, 32)}"`
    const headers = {
      ...pageHeaders,
      'content-security-policy': this.#policy,
      etag,
      vary: 'Origin, Accept',
    }
    const isKnown = header('if-none-match')?.replace(/^W\//, '') === etag
    if (isKnown) return { status: 304, bytes: Buffer.alloc(0), headers }
    return { bytes, contentType: 'text/html; charset=utf-8', headers }
  }

  async #file(path: string, header: Header): Promise<Reply | undefined> {
    const resolved = await resolveWithin(this.#root, path)
    if (resolved.kind !== 'file') return undefined
    const contentType = contentTypeForPath(path) ?? 'application/octet-stream'
    const isImmutable = /^\/assets\/.*[-.](?=[\w-]*\d|[\w-]+[A-Z])[\w-]{8,}\.\w+$/.test(path)
    const headers = {
      'cache-control': isImmutable ? `public, max-age=${yearSeconds}, immutable` : 'no-cache',
      'content-security-policy': this.#policy,
      'x-content-type-options': 'nosniff',
      vary: 'Origin, Accept-Encoding',
    }
    for (const [encoding, ending] of encodings) {
      if (!acceptsEncoding(header('accept-encoding'), encoding)) continue
      const smaller = await resolveWithin(this.#root, path + ending)
      if (smaller.kind !== 'file') continue
      return await fileReply(smaller, {
        header,
        contentType,
        headers: { ...headers, 'content-encoding': encoding },
      })
    }
    return await fileReply(resolved, { header, contentType, headers })
  }
}

/** Best first. */
const encodings = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const

/** Whether a browser requests a page; scripts that fetch data do not accept HTML. */
export function acceptsHtml(header: Header): boolean {
  return (header('accept') ?? '').includes('text/html')
}

/** At the start of the head, before the first script. */
function insertHead(html: string, head: string): string {
  if (head === '') return html
  const at = /<head(?:\s[^>]*)?>/i.exec(html)
  if (at === null) return head + html
  const end = at.index + at[0].length
  return html.slice(0, end) + head + html.slice(end)
}
