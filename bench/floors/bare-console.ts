import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { Page } from 'playwright-core'
import type { ConsoleSite } from '../support/console-page.ts'

/**
 * Bare pages for the same browser, sent by a bare `node:http` server, at `path` of the console:
 *
 * - `?bare=bytes`: the HTML, styles and scripts of the console, byte for byte, but for scripts, which are
 *   comments of the same length: what a browser takes for the bytes alone.
 * - `?bare=rows`: a page of the console without its scripts, with the rows of two places. `show()` sets the rows
 *   of the other place at once, `lengthen()` sets them many times over, to scroll through, and `follow(url)`
 *   appends each message of a WebSocket as a plain row and keeps the last 60.
 */
export class BareConsole implements AsyncDisposable {
  readonly #url: string
  readonly #close: () => Promise<void>

  private constructor(url: string, close: () => Promise<void>) {
    this.#url = url
    this.#close = close
  }

  /** `snapshot` and `places`: as `takeSnapshot` returns them. */
  static async open(site: ConsoleSite, path: string, { snapshot, places }: ConsoleSnapshot) {
    const known = new Map<string, Asset>()
    const fetchAsset = async (name: string): Promise<Asset> => {
      const response = await fetch(`${site.url}${name}`)
      const bytes = Buffer.from(await response.arrayBuffer())
      const type = response.headers.get('content-type') ?? 'text/html'
      const asset = { type, bytes: type.includes('javascript') ? commentOf(bytes.length) : bytes }
      known.set(name, asset)
      return asset
    }
    known.set(`/${path}?bare=bytes`, await fetchAsset(`/${path}`))
    known.set(`/${path}?bare=rows`, { type: 'text/html', bytes: rowsPage(snapshot, places) })
    const server = createServer(async ({ url = '' }, response) => {
      send(response, known.get(url) ?? (await fetchAsset(url)))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    return new BareConsole(`http://127.0.0.1:${address.port}/${path}`, async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    })
  }

  address(page: 'bytes' | 'rows'): string {
    return `${this.#url}?bare=${page}`
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close()
  }
}

interface Asset {
  readonly type: string
  readonly bytes: Buffer
}

/** A page of the console as HTML, and its rows at two places. */
export interface ConsoleSnapshot {
  readonly snapshot: string
  readonly places: readonly [string, string]
}

/** The rows of the page, as HTML. */
export async function takeRows(page: Page): Promise<string> {
  return await page.evaluate(`document.querySelector('.timeline-scroller').innerHTML`)
}

function send(response: ServerResponse, { type, bytes }: Asset): void {
  response.writeHead(200, { 'content-type': type, 'content-length': bytes.length })
  response.end(bytes)
}

function commentOf(length: number): Buffer {
  return Buffer.from(`/*${' '.repeat(Math.max(0, length - 4))}*/`)
}

function rowsPage(snapshot: string, places: readonly string[]): Buffer {
  const still = snapshot
    .replace(/<script\b[\s\S]*?<\/script>/g, '')
    .replace(/<link rel="modulepreload"[^>]*>/g, '')
  const script = `
    const places = ${JSON.stringify(places).replaceAll('<', '\\u003c')}
    const scroller = document.querySelector('.timeline-scroller')
    let shown = 0
    function show() {
      scroller.innerHTML = places[++shown % 2]
      scroller.querySelector('.entry.target')?.scrollIntoView({ block: 'center' })
    }
    function lengthen() { scroller.innerHTML = places[0].repeat(4) + places[1].repeat(4) }
    function follow(url) {
      scroller.replaceChildren()
      new WebSocket(url).onmessage = ({ data }) => {
        const row = document.createElement('article')
        row.className = 'entry'
        row.textContent = JSON.parse(data).content[0].text
        scroller.append(row)
        while (scroller.children.length > 60) scroller.firstChild.remove()
        scroller.scrollTop = scroller.scrollHeight
      }
    }`
  return Buffer.from(still.replace('</body>', () => `<script>${script}</script></body>`))
}
