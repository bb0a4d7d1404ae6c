import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openAgentFixture } from '../../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../../support/agent-server-api.ts'
import { openBrowser } from '../../support/shared-browser.ts'

const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
)

const { api } = await openAgentFixture()

test.skipIf(chromiumPath === undefined)(
  'the page of a hostile log runs no script, requests nothing, and fits narrow and wide windows',
  async () => {
    const request = `${api.endpoint.url}/alive`
    const hostile = `</div><script>document.title='ran'</script><img src="${request}" onerror="document.title='ran'">`
    const pixel = 'data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7'
    const images = [pixel, request, 'data:image/svg+xml,<svg onload="document.title=1"/>']
    const message = JSON.parse(messageLine('a', '2026-01-01T00:00:00Z', hostile))
    message.llm_message.content.push({ type: 'image', image_urls: images })
    const observation = { kind: 'Odd', output: 'x'.repeat(5000), metadata: { exit_code: 1 } }
    const result = { kind: 'ObservationEvent', id: 'o', tool_name: hostile, observation }
    const id = await api.import(toJsonLines(message, result, { kind: hostile, id: 'u' }), '?unknown=keep')
    await api.sendJson('PATCH', `/api/conversations/${id}`, { title: hostile.slice(0, 180) })
    const html = await (await api.fetch(`/api/conversations/${id}/export?format=html`)).text()

    const browser = await openBrowser(String(chromiumPath))
    const context = await browser.newContext()
    try {
      for (const width of [360, 1400]) {
        const page = await context.newPage()
        await page.setViewportSize({ width, height: 800 })
        const requests: string[] = []
        page.on('request', (sent) => requests.push(sent.url()))
        await page.setContent(html)
        expect(await page.locator('article').count()).toBe(3)
        expect(await page.locator('article.failed').count()).toBe(1)
        expect(await page.title()).toContain('</div><script>')
        expect(await page.locator('img').count()).toBe(1)
        expect(await page.evaluate('document.querySelector("img").naturalWidth')).toBe(1)
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width)
        expect(requests.filter((url) => !url.startsWith('data:'))).toEqual([])
        await page.close()
      }
    } finally {
      await context.close()
      await browser.close()
    }
  },
)
