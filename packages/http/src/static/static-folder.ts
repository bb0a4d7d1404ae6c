import { realpath, stat } from 'node:fs/promises'
import { resolveWithin } from '@slipway/shared/fs'
import { decodePercent } from '@slipway/shared/url'
import type { Reply } from '../core/handler.ts'
import { fileReply } from './file-reply.ts'
import type { Site } from './site.ts'

type Header = (name: string) => string | undefined

const prefix = '/static/'
const notFound: Reply = { status: 404, json: { detail: 'Not Found' } }

/**
 * The files of a folder below `/static/`, for callers without a key, and what leads there from `/`. Folders
 * are not listed, hidden files are not served, and no path leaves the folder.
 */
export class StaticFolder {
  readonly #root: string | undefined
  readonly #others: Pick<Site, 'get'> | undefined

  private constructor(root: string | undefined, others: Pick<Site, 'get'> | undefined) {
    this.#root = root
    this.#others = others
  }

  /** One that does not exist has no files. `others` serves the other paths. */
  static async open(directory: string, others: Pick<Site, 'get'> | undefined): Promise<StaticFolder> {
    const found = await stat(directory).catch(() => undefined)
    return new StaticFolder(found?.isDirectory() ? await realpath(directory) : undefined, others)
  }

  get exists(): boolean {
    return this.#root !== undefined
  }

  /** The reply to a GET of an address (with its query). */
  async get(url: string, header: Header): Promise<Reply | undefined> {
    const path = url.split(/[?#]/, 1)[0] ?? ''
    if (path !== prefix.slice(0, -1) && !path.startsWith(prefix)) return await this.#others?.get(url, header)
    const name = decodePercent(path.slice(prefix.length))
    if (this.#root === undefined || name === undefined || /(?:^|\/)\.(?!well-known\/)/.test(name))
      return notFound
    const file = await resolveWithin(this.#root, name)
    const contentSecurityPolicy = { 'content-security-policy': "frame-ancestors 'self'" }
    return file.kind === 'file' ? await fileReply(file, { header, headers: contentSecurityPolicy }) : notFound
  }

  /** For `GET /`: to the folder's page, if it has one now. */
  async root(): Promise<Reply | undefined> {
    if (this.#root === undefined) return undefined
    const { kind } = await resolveWithin(this.#root, 'index.html')
    const location = kind === 'file' ? `${prefix}index.html` : prefix
    return { status: 302, bytes: Buffer.alloc(0), headers: { location } }
  }
}
