import { existsSync } from 'node:fs'
import { Secret } from '@slipway/shared/redaction'
import { chromium } from 'playwright-core'
import { expect, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
)
const key = 'a-session-key-of-this-test'
const thing = { method: 'GET', path: '/api/thing', tag: 'test', summary: 'test', responses: {} } as const
const openapi = {
  openapi: '3.1.0',
  info: { title: 'Test', version: '1' },
  paths: { '/api/thing': { get: { operationId: 'thing', responses: { 200: { description: 'It.' } } } } },
}

test.skipIf(executablePath === undefined)(
  'the page of the API loads without a key, runs its own scripts only, and calls with the key of its field',
  { timeout: 120_000 },
  async () => {
    const options = { openapi, openDocs: true, keys: [new Secret(key)] } as const
    await using trial = await TestServer.start({ thing }, { thing: () => ({ json: 'the thing' }) }, options)
    const browser = await chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] })
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(60_000)
      const violations: string[] = []
      page.on('console', (message) => {
        if (/Content Security Policy/.test(message.text())) violations.push(message.text())
      })
      const address = `${trial.listening.url}/docs`
      const answer = await page.goto(address)
      expect(answer?.headers()['content-security-policy']).toMatch(
        /script-src 'self';.*frame-ancestors 'none'/,
      )
      await page.locator('.opblock-tag').click()
      await page.locator('.opblock-summary-control').click()
      await page.locator('.try-out__btn').click()
      const call = async () => {
        const replied = page.waitForResponse((response) => response.url().endsWith('/api/thing'))
        await page.locator('.execute').click()
        return (await replied).status()
      }
      expect(await call()).toBe(401)
      await page.locator('#key').fill(key)
      expect(await call()).toBe(200)
      expect(violations).toEqual([])
      expect(page.url()).not.toContain(key)
    } finally {
      await browser.close()
    }
  },
)
