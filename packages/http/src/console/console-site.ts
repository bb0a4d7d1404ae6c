import type { Reply } from '../core/handler.ts'
import { acceptsHtml, Site } from '../static/site.ts'

type Header = (name: string) => string | undefined

/**
 * Scripts and connections of the server's own origin alone; styles of elements are set by the libraries of
 * the page.
 */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "worker-src 'self'",
  "manifest-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/**
 * The console at the root of a server: the files of its build, and its page for every other address that a
 * browser requests as a page. While the build is made, a page says so; where it could not be made, there is
 * no page.
 */
export class ConsoleSite implements Pick<Site, 'get'> {
  #site: Site | undefined
  #isPending = true

  /** The directory of the build, or a promise of it; undefined: there is none. */
  constructor(directory: string | undefined | Promise<string | undefined>) {
    Promise.resolve(directory)
      .then(async (path) => {
        this.#site =
          path === undefined ? undefined : await Site.open(path, { head: baseElement, contentSecurityPolicy })
      })
      .catch(() => {})
      .finally(() => {
        this.#isPending = false
      })
  }

  async get(url: string, header: Header): Promise<Reply | undefined> {
    if (this.#site !== undefined) return await this.#site.get(url, header)
    return this.#isPending && acceptsHtml(header) ? pendingReply : undefined
  }

  /** For `GET /` of a server that answers programs there: the page when a browser asks, else undefined. */
  async root(header: Header): Promise<Reply | undefined> {
    return acceptsHtml(header) ? await this.get('/', header) : undefined
  }
}

/** The page has relative links, which begin at the root of the application, however deep the address is. */
function baseElement(path: string): string {
  const depth = path.split('/').length - 2
  return `<base href="${depth === 0 ? './' : '../'.repeat(depth)}">`
}

const pendingReply: Reply = {
  status: 503,
  bytes: Buffer.from(`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Slipway</title><meta http-equiv="refresh" content="2"></head>
<body><p>The console is being built. This page opens it in a moment.</p></body>
</html>
`),
  contentType: 'text/html; charset=utf-8',
  headers: {
    'cache-control': 'no-store',
    'retry-after': '2',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
  },
}
