import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { bashStep, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { findChromium } from '../support/browser-user.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser } from '../support/sandbox-server/user.ts'
import { openBrowser } from '../support/shared-browser.ts'
import { ConsoleFixture, newWatchedPage } from './console-fixture.ts'

const chromiumPath = await findChromium()
const canaries = {
  session: 'canary-of-the-session-key-4711',
  secret: 'canary-of-a-secret-4712',
  model: 'canary-of-a-model-key-4713',
  mcp: 'canary-of-an-mcp-server-4714',
}

/** Everything that a page keeps, shows or sends where others may read it. */
class Traces {
  readonly #texts: string[] = []

  constructor(page: Page) {
    page.on('console', (message) => this.#texts.push(`console: ${message.text()}`))
    page.on('request', (request) => this.#texts.push(`request: ${request.url()}`))
    page.on('framenavigated', (frame) => this.#texts.push(`address: ${frame.url()}`))
  }

  /** Adds what the page holds now. */
  async take(page: Page): Promise<void> {
    const held = await page.evaluate(async () => {
      const fields = [...document.querySelectorAll<HTMLInputElement>('input, textarea')]
      const databases = await indexedDB.databases()
      return JSON.stringify({
        html: document.documentElement.outerHTML,
        fields: fields.map(({ value }) => value),
        local: Object.entries(localStorage),
        session: Object.entries(sessionStorage),
        databases: databases.map(({ name }) => name),
        caches: 'caches' in window ? await caches.keys() : [],
        cookie: document.cookie,
        address: location.href,
        history: history.state,
        title: document.title,
      })
    })
    this.#texts.push(held)
  }

  /** The canaries that are somewhere, with where. */
  find(values: readonly string[]): string[] {
    return this.#texts.flatMap((text) =>
      values
        .filter((value) => text.includes(value))
        .map(
          (value) => `${value} in ${text.slice(Math.max(0, text.indexOf(value) - 80), text.indexOf(value))}`,
        ),
    )
  }
}

describe.runIf(chromiumPath !== undefined)('secrets in the console', { timeout: 400_000 }, () => {
  test('no page of an agent server shows, stores or sends where others read it', async () => {
    await using fixture = await ConsoleFixture.open(chromiumPath ?? '', { key: canaries.session })
    const { driver, api, site } = fixture
    await api.sendJson('PUT', '/api/settings/secrets', { name: 'TOKEN', value: canaries.secret })
    await api.sendJson('POST', '/api/profiles/a', { llm: { model: 'openai/gpt-5', api_key: canaries.model } })
    const script = [
      bashStep('echo "the token is $TOKEN"'),
      bashStep('echo $TOKEN >&2; exit 3'),
      finishStep('Printed.'),
    ]
    const { id } = await driver.create(
      { llm: { ...scriptedModel(script), api_key: canaries.model } },
      {
        initial_message: { content: [{ type: 'text', text: 'Print the token.' }] },
        secrets: { TOKEN: { kind: 'StaticSecret', value: canaries.secret } },
      },
    )
    await driver.waitUntilIdle(id)
    const { page } = await fixture.newPage()
    const traces = new Traces(page)
    await page.goto(`${site.url}/`)
    await page.getByLabel('Key').fill(canaries.session)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('navigation', { name: 'Main' }).waitFor()
    await traces.take(page)
    await page.goto(`${site.url}/settings/mcp`)
    await page.getByRole('heading', { name: 'Add one' }).waitFor()
    await page.getByLabel('Name').fill('tools')
    await page.getByLabel('Command with its arguments').fill(`env TOKEN=${canaries.mcp} true`)
    await page.goto(`${site.url}/c/${id}?view=all`)
    await page.getByText('Printed.').first().waitFor()
    await page.locator('.timeline-scroller').focus()
    await page.keyboard.press('x')
    await page.getByText('the token is').first().waitFor()
    await traces.take(page)
    await page.getByRole('button', { name: 'Panel', exact: true }).click()
    for (const tab of ['Changes', 'Files', 'Terminal', 'Tasks', 'Context', 'Usage', 'Details']) {
      await page.getByRole('tab', { name: tab }).click()
      await page.locator(`#panel[aria-labelledby="tab-${tab}"] > *`).first().waitFor()
      await traces.take(page)
    }
    // The names of secrets are there, so the page did look.
    await page.getByText('TOKEN').first().waitFor()
    for (const section of ['models', 'agent', 'conversation', 'secrets', 'mcp', 'skills', 'applications']) {
      await page.goto(`${site.url}/settings/${section}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.waitForLoadState('networkidle')
      await traces.take(page)
    }
    await page.goto(`${site.url}/new`)
    await page.getByLabel('What is to be done?').waitFor()
    await traces.take(page)
    expect(traces.find(Object.values(canaries))).toEqual([])
    await page.context().close()
  })

  test('a scoped key of a sandbox server shows its pages and nothing of the keys', async () => {
    await using server = await SandboxServer.open()
    const browser = await openBrowser(chromiumPath ?? '')
    try {
      const user = await createUser(server)
      const { key } = (await user.requestOrThrow('POST', '/api/keys', {
        name: 'reads',
        scopes: ['read'],
      })) as {
        key: string
      }
      const { page, problems } = await newWatchedPage(browser, server.url)
      const traces = new Traces(page)
      await page.goto(`${server.url}/`)
      await page.getByLabel('Key').fill(key)
      await page.getByRole('button', { name: 'Sign in' }).click()
      await page.getByRole('navigation', { name: 'Main' }).waitFor()
      for (const section of ['sandboxes', 'conversations', 'specs', 'keys']) {
        await page.goto(`${server.url}/fleet/${section}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.waitForLoadState('networkidle').catch(() => {})
        await traces.take(page)
      }
      // What the key may not do is said, and what is of administrators is missing.
      expect(await page.getByRole('link', { name: 'Audit' }).count()).toBe(0)
      await page.goto(`${server.url}/fleet/sandboxes`)
      await page.getByRole('button', { name: 'Start' }).click()
      await page
        .getByText(/scope|right|may not/i)
        .first()
        .waitFor()
      expect(traces.find([key, user.key])).toEqual([])
      expect(problems).toEqual([])
    } finally {
      await browser.close()
    }
  })
})
