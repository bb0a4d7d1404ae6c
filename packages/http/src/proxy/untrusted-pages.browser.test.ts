import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'

/** A page of a sandbox attacks the server whose address it has, in a real browser. */
const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
)

const attack = `<!doctype html><script>
const found = { origin: self.origin }
const attempt = async (name, run) => { try { found[name] = await run() } catch (error) { found[name] = error.name } }
addEventListener('load', async () => {
  await attempt('worker', async () => (await navigator.serviceWorker.register('sw.js', { scope: '/' })).scope)
  await attempt('storage', () => localStorage.getItem('key'))
  await attempt('cookie', () => document.cookie)
  await attempt('docs', async () => (await fetch('/openapi.json')).status)
  document.title = JSON.stringify(found)
})
</script>`

async function startHostileTarget() {
  const server = createServer(({ url }, response) => {
    const isScript = url?.endsWith('.js') === true
    response.writeHead(200, {
      'content-type': isScript ? 'text/javascript' : 'text/html',
      'service-worker-allowed': '/',
      'set-cookie': 'stolen=1; Path=/',
      'clear-site-data': '"storage"',
    })
    response.end(isScript ? 'onfetch = (event) => event.respondWith(new Response("mine"))' : attack)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => server.close(),
  }
}

test.skipIf(executablePath === undefined)(
  'a page of an untrusted target gets no part of the origin of the server',
  { timeout: 60_000 },
  async () => {
    using target = await startHostileTarget()
    const route = { prefix: '/relay', isUntrusted: true, target: async () => ({ url: target.url }) }
    const server = await TestServer.start({}, {}, { proxyRoutes: [route], openDocs: true })
    const browser = await chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] })
    try {
      const page = await browser.newPage()
      const url = `http://127.0.0.1:${server.port}`
      await page.goto(`${url}/openapi.json`)
      await page.evaluate(() => localStorage.setItem('key', 'of the administrator'))
      await page.goto(`${url}/relay/page`)
      await page.waitForFunction(() => document.title.startsWith('{'))
      expect(JSON.parse(await page.title())).toEqual({
        origin: 'null',
        worker: 'SecurityError',
        storage: 'SecurityError',
        cookie: 'SecurityError',
        docs: 'TypeError',
      })
      expect(await page.context().cookies()).toEqual([])
      // Storage is intact, and no service worker answers in the place of the server.
      await page.goto(`${url}/openapi.json`)
      expect(await page.evaluate(() => localStorage.getItem('key'))).toBe('of the administrator')
      expect(await page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length)).toBe(
        0,
      )
      const script = await fetch(`${url}/relay/sw.js`, { headers: { 'service-worker': 'script' } })
      expect(script.status).toBe(403)
    } finally {
      await browser.close()
      await server.listening.close()
    }
  },
)
