import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findChromium } from '../support/browser-user.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser, textModel, type User } from '../support/sandbox-server/user.ts'
import { openBrowser } from '../support/shared-browser.ts'
import { axeThemes, findViolations, newWatchedPage } from './console-fixture.ts'

/** The console of a sandbox server, as that server itself serves it. */

const chromiumPath = await findChromium()

describe.runIf(chromiumPath !== undefined)('the console of a sandbox server', { timeout: 400_000 }, () => {
  let server: SandboxServer
  let browser: Browser
  let user: User
  beforeAll(async () => {
    server = await SandboxServer.open()
    browser = await openBrowser(chromiumPath ?? '')
    user = await createUser(server)
    await user.setModel(textModel)
  }, 300_000)
  afterAll(async () => {
    await browser?.close()
    await server?.[Symbol.asyncDispose]()
  }, 120_000)

  const open = async (key: string, options = {}) => {
    const watched = await newWatchedPage(browser, server.url, options)
    await watched.page.goto(`${server.url}/`)
    await watched.page.getByLabel('Key').fill(key)
    await watched.page.getByRole('button', { name: 'Sign in' }).click()
    await watched.page.getByRole('navigation', { name: 'Main' }).waitFor()
    return watched
  }
  const goTo = async (page: Page, section: string) => {
    await page
      .getByRole('navigation', { name: 'Sections' })
      .getByRole('link', { name: section, exact: true })
      .click()
    await page.getByRole('heading', { name: section, level: 1, exact: true }).waitFor()
  }

  test('a conversation in a sandbox is read from its history, followed, and written to', async () => {
    const { id, sandbox_id } = await user.createConversation({
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    })
    await user.waitForMessage(id, 'Answer 0.')
    await user.requestOrThrow('PATCH', `/api/v1/app-conversations/${id}`, { title: 'From the sandbox' })
    const { page, problems, foreignRequests } = await open(user.key)
    await goTo(page, 'Conversations')
    await page.getByText('READY').first().waitFor()
    await page.getByRole('link', { name: 'From the sandbox' }).click()
    await page.getByText('Answer 0.').waitFor()
    await page.getByLabel('Message').fill('Do you continue?')
    await page.getByRole('button', { name: 'Send', exact: true }).click()
    await page.getByText('Answer 1.').waitFor()
    await page.getByLabel('Search in this log').fill('continue')
    await page.getByText('Answer 1.').waitFor({ state: 'hidden' })
    await page.getByText('Do you continue?').waitFor()

    // The history is there without its sandbox.
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`)
    await user.waitForSandbox(sandbox_id, 'PAUSED')
    await page.goto(`${server.url}/c/${id}`)
    await page.getByText('Answer 1.').waitFor()
    await page.locator('.status.paused').waitFor()
    await page.goto(`${server.url}/c/${'0'.repeat(32)}`)
    await page.getByText('There is no such conversation').waitFor()
    expect(problems).toEqual([])
    expect(foreignRequests).toEqual([])
    await page.context().close()
  })

  test('a link of another user asks before it changes the user, whom every page names', async () => {
    const ann = await createUser(server, { name: 'Ann' })
    const eve = await createUser(server, { name: 'Eve' })
    const linkOf = async (one: User) => {
      const { token } = await one.requestOrThrow<{ token: string }>('POST', '/console/tokens')
      return `${server.url}/#token=${token}`
    }
    const { page } = await open(ann.key)
    const isSignedInAs = async (name: string) => await page.getByTitle(`Signed in as ${name}`).waitFor()
    await isSignedInAs('Ann')
    const link = await linkOf(eve)
    for (const choice of ['Stay signed in', 'Change the user']) {
      await page.goto('about:blank')
      await page.goto(link)
      await page.getByRole('heading', { name: 'Change the user?' }).waitFor()
      await page.getByText(/You are signed in as Ann \(.*\), and this link signs in as Eve \(/).waitFor()
      expect(await findViolations(page, 'other-user')).toEqual([])
      await page.getByRole('button', { name: choice }).click()
      await isSignedInAs(choice === 'Stay signed in' ? 'Ann' : 'Eve')
    }
    await page.goto('about:blank')
    await page.goto(await linkOf(eve))
    await isSignedInAs('Eve')
    await page.context().close()
  })

  test('sandboxes are started, paused, resumed and deleted', async () => {
    const other = await createUser(server)
    const { page, problems } = await open(other.key)
    await page.getByText('No sandboxes').waitFor()
    await page.getByRole('button', { name: 'Start' }).click()
    const act = async (name: string) => {
      await page.getByRole('button', { name: /^Actions of/ }).click()
      await page.getByRole('menuitem', { name }).click()
    }
    await page.locator('.status.running').waitFor()
    await page.getByRole('cell', { name: /^[\d.]+ MiB · \d\.\d\d CPU$/ }).waitFor()
    await act('Pause')
    await page.locator('.status.paused').waitFor()
    await act('Resume')
    await page.locator('.status.running').waitFor()
    await act('Delete')
    await page.getByText('No sandboxes').waitFor()
    await goTo(page, 'Specs and backends')
    await page.getByRole('cell', { name: 'process', exact: true }).first().waitFor()
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('administrators see the sandboxes and conversations of all users, and pause or delete many at once', async () => {
    const [ann, eve] = [
      await createUser(server, { name: 'Ann Lee' }),
      await createUser(server, { name: 'Eve' }),
    ]
    for (const one of [ann, ann, eve]) {
      const { id } = await one.requestOrThrow<{ id: string }>('POST', '/api/v1/sandboxes')
      await one.waitForSandbox(id, 'RUNNING')
    }
    for (const viewport of [
      { width: 1280, height: 800 },
      { width: 390, height: 844 },
    ]) {
      const { page, problems } = await open(server.key, { viewport, bypassCSP: true })
      await page.getByText('No sandboxes of your own').waitFor()
      await page.getByRole('link', { name: 'Sandboxes of all users' }).click()
      await page.getByRole('heading', { name: 'All sandboxes', level: 1 }).waitFor()
      const rows = page.getByRole('row').filter({ has: page.getByRole('checkbox') })
      await rows.filter({ hasText: 'Eve' }).waitFor()
      await page.getByLabel('Search in the sandboxes').fill('ann lee')
      await rows.filter({ hasText: 'Eve' }).waitFor({ state: 'hidden' })
      await expect.poll(() => rows.count()).toBe(2)
      for (const box of await rows.getByRole('checkbox').all()) await box.check()
      await page.getByText('2 selected').waitFor()
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(viewport.width)
      expect(await findViolations(page, `all-sandboxes-${viewport.width}`)).toEqual([])
      const pictures = process.env.SLIPWAY_TEST_PICTURES
      if (pictures !== undefined)
        await page.screenshot({ path: `${pictures}/all-sandboxes-${viewport.width}.png` })
      if (viewport.width > 1000) {
        await page.getByRole('button', { name: 'Pause' }).click()
        await expect.poll(() => rows.locator('.status.paused').count()).toBe(2)
        await page.getByLabel('State').selectOption('running')
        await page.getByText('Nothing matches').waitFor()
      } else {
        await page.getByRole('button', { name: 'Delete', exact: true }).click()
        await page.getByRole('button', { name: 'Delete 2 with their files' }).click()
        await page.getByText('Nothing matches').waitFor()
        await goTo(page, 'All conversations')
        await page.getByLabel('Search in titles').waitFor()
        expect(await findViolations(page, 'all-conversations')).toEqual([])
      }
      expect(problems).toEqual([])
      await page.context().close()
    }
  })

  test('administrators see users and make keys, which are shown once; others do not', async () => {
    const { page, problems } = await open(server.key, { viewport: { width: 390, height: 800 } })
    await goTo(page, 'Users')
    await page.getByLabel('Name of a new user').fill('Robin')
    await page.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('button', { name: 'Actions of Robin' }).click()
    await page.getByRole('menuitem', { name: 'Make a key' }).click()
    const key = await page.getByRole('status').locator('.mono').innerText()
    await page.getByRole('button', { name: 'I have it' }).click()
    expect(await page.content()).not.toContain(key)
    // Who did that is in the audit, without the key.
    await goTo(page, 'Audit')
    const record = page.getByRole('row').filter({ hasText: '/api/admin/users/{user_id}/keys' }).first()
    await record.getByText('201').waitFor()
    await page.getByRole('button', { name: 'Refused only' }).click()
    await record.waitFor({ state: 'hidden' })
    expect(await page.content()).not.toContain(key)
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390)
    expect(problems).toEqual([])
    await page.context().close()

    const plain = await open(key)
    await goTo(plain.page, 'Keys and use')
    await plain.page.getByText('member').waitFor()
    expect(await plain.page.getByRole('link', { name: 'Users' }).count()).toBe(0)
    expect(await plain.page.getByRole('link', { name: 'Audit' }).count()).toBe(0)
    expect(
      (await fetch(`${server.url}/api/admin/audit`, { headers: { 'x-session-api-key': key } })).status,
    ).toBe(403)
    expect(plain.problems).toEqual([])
    await plain.page.context().close()
  })

  test('a person sees a budget and asks for more, and an administrator grants it, on phones too', async () => {
    const phone = { viewport: { width: 390, height: 800 } }
    const admin = await open(server.key, phone)
    await goTo(admin.page, 'Budgets')
    await admin.page.getByText('No budgets').waitFor()
    await admin.page.getByLabel('User or organisation').selectOption(`user ${user.id}`)
    await admin.page.getByLabel('Dollars a month').fill('0')
    await admin.page.getByRole('button', { name: 'Set' }).click()
    await admin.page.getByRole('cell', { name: 'exhausted' }).waitFor()
    for (const options of [phone, {}]) {
      const { page, problems } = await open(user.key, options)
      await goTo(page, 'Keys and use')
      // What was granted to the first request is left when the second comes.
      if (options === phone) await page.getByText(/\$0\.00 spent of .* slipway budgets request/).waitFor()
      await page.getByLabel('Ask for more in this month, in dollars').fill('12.5')
      await page.getByLabel('What it is for').fill('The tests of the parser')
      await page.getByRole('button', { name: 'Ask', exact: true }).click()
      await page.getByText('An administrator answers your request').waitFor()
      await admin.page.reload()
      await admin.page.getByText('The tests of the parser').waitFor()
      await admin.page.getByRole('button', { name: 'Grant' }).click()
      await admin.page.getByText('No open requests').waitFor()
      await page.reload()
      await page.getByText('granted $12.50').first().waitFor()
      const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      expect(width).toBeLessThanOrEqual(0)
      expect(problems).toEqual([])
      await page.context().close()
    }
    expect(await admin.page.evaluate(() => document.documentElement.scrollWidth)).toBe(390)
    expect(admin.problems).toEqual([])
    await admin.page.context().close()
  })

  test('organisations have members with roles, limits and shared models; an erasure shows its certificate', async () => {
    for (const viewport of [
      { width: 1280, height: 900 },
      { width: 390, height: 800 },
    ]) {
      const person = await createUser(server, { name: `Person ${viewport.width}` })
      const { page, problems } = await open(server.key, { viewport, bypassCSP: true })
      const name = `Blue ${viewport.width}`
      const picture = async (what: string) => {
        const pictures = process.env.SLIPWAY_TEST_PICTURES
        if (pictures !== undefined)
          await page.screenshot({ path: `${pictures}/${what}-${viewport.width}.png`, fullPage: true })
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(viewport.width)
        expect(await findViolations(page, what)).toEqual([])
      }
      await goTo(page, 'Organisations')
      await page.getByLabel('Name of a new organisation').fill(name)
      await page.getByRole('button', { name: 'Add' }).click()
      await page.getByRole('button', { name }).click()
      await page.getByLabel('Id of a user to add').fill(person.id)
      await page.getByRole('button', { name: 'Add member' }).click()
      await page.getByRole('button', { name: `Actions of Person ${viewport.width}` }).click()
      await page.getByRole('menuitem', { name: 'Make owner' }).click()
      await page.getByText('owner', { exact: true }).waitFor()
      await page.getByLabel('Allowed models').fill('team/*, openai/gpt-5')
      await page.getByRole('button', { name: 'Save limits' }).click()
      await page.getByLabel('Name of a model to share').fill('team')
      await page.getByLabel('Model', { exact: true }).fill('team/model')
      await page.getByLabel('Key', { exact: true }).fill('canary-of-a-model')
      await page.getByRole('button', { name: 'Share', exact: true }).click()
      await page.getByRole('button', { name: 'Remove team' }).waitFor()
      expect(await page.content()).not.toContain('canary-of-a-model')
      await picture('organization')
      await page.getByRole('button', { name: 'All organisations' }).click()
      await page.getByRole('button', { name }).click()
      expect(await page.getByLabel('Allowed models').inputValue()).toBe('team/*, openai/gpt-5')
      await goTo(page, 'Users')
      await page.getByRole('button', { name: `Actions of Person ${viewport.width}` }).click()
      await page.getByRole('menuitem', { name: 'Erase all data' }).click()
      await page.getByRole('button', { name: 'Erase', exact: true }).click()
      await page.getByRole('row', { name: /Digest sha256:/ }).waitFor()
      await picture('erasure')
      const loading = page.waitForEvent('download')
      await page.getByRole('button', { name: 'Download the certificate' }).click()
      expect((await loading).suggestedFilename()).toMatch(/^erasure-erased-[0-9a-f]{16}\.json$/)
      await page.getByRole('button', { name: 'Done' }).click()
      expect(problems).toEqual([])
      await page.context().close()
    }
  })

  test('every view is free of violations that axe finds', async () => {
    const { id } = await user.createConversation({
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    })
    await user.waitForMessage(id, 'Answer')
    for (const colorScheme of axeThemes('light')) {
      const { page } = await open(server.key, { colorScheme, bypassCSP: true })
      const found: string[] = []
      for (const section of [
        'Sandboxes',
        'Conversations',
        'Specs and backends',
        'Keys and use',
        'Organisations',
        'Users',
        'Budgets',
        'Audit',
      ]) {
        await goTo(page, section)
        found.push(...(await findViolations(page, section)))
      }
      await page.context().close()
      const { page: own } = await open(user.key, { colorScheme, bypassCSP: true })
      await own.goto(`${server.url}/c/${id}`)
      await own.getByText('Begin.').waitFor()
      found.push(...(await findViolations(own, 'conversation')))
      await own.context().close()
      expect(found).toEqual([])
    }
  })
})
