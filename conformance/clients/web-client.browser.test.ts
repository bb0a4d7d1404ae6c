import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startServer } from '../support/agent-server.ts'
import { installedBrowser, WebUser } from '../support/browser-user.ts'
import { FarModel, type Play } from '../support/mock-provider.ts'
import { webClient, webPackage } from '../support/web-client-package.ts'

const found = await webClient()
const browser = await installedBrowser()
const reasons = [
  ...('reason' in found ? [found.reason] : []),
  ...(browser === undefined ? ['Chromium is not installed'] : []),
]
const why = reasons.length === 0 ? '' : ` (skipped: ${reasons.join('; ')})`
const name = `${webPackage.name} ${webPackage.version}`

const sessionKey = 'a-session-key-of-the-web-test'
const modelKey = 'sk-canary-of-the-web-test-4711'
const first: Play[] = [
  {
    text: 'I look at the folder first.',
    calls: [
      { name: 'terminal', arguments: { command: 'echo hello > made.txt; ls', summary: 'make a file' } },
    ],
  },
  { text: 'All done: made.txt is there.' },
]
const careful: Play[] = [
  {
    text: 'The first action.',
    calls: [
      {
        name: 'terminal',
        arguments: {
          command:
            'echo one > one.txt; git add -A; git -c user.name=a -c user.email=a@b.c commit -qm "one is there"; echo more >> one.txt; echo zwei > zwei.txt',
          security_risk: 'HIGH',
          summary: 'write one',
        },
      },
    ],
  },
  {
    text: 'The second action.',
    calls: [
      {
        name: 'terminal',
        arguments: { command: 'rm one.txt', security_risk: 'HIGH', summary: 'remove one' },
      },
    ],
  },
  { text: 'You said no, so I stop.' },
]

let directory: string
let far: FarModel
let server: Awaited<ReturnType<typeof startServer>>
let user: WebUser
beforeAll(async () => {
  if ('reason' in found || browser === undefined) return
  directory = await mkdtemp(join(tmpdir(), 'slipway-web-'))
  far = await FarModel.open()
  far.aside = { text: 'A title of the model' }
  server = await startServer(
    join(directory, 'data'),
    { SLIPWAY_SESSION_API_KEY: sessionKey, HOME: join(directory, 'home') },
    ['--web', found.directory],
  )
  user = await WebUser.open(browser, server.url)
}, 120_000)
afterAll(async () => {
  await user?.[Symbol.asyncDispose]()
  await server?.stop()
  await far?.[Symbol.asyncDispose]()
  if (directory !== undefined) await rm(directory, { recursive: true, force: true })
})

let broken: string | undefined
/** The tests go on from one another, like a person's day: after one that fails the others are not tried. */
const step = (promise: string, work: () => Promise<void>) =>
  test.skipIf(reasons.length > 0)(`${name}: ${promise}${why}`, { timeout: 180_000 }, async (context) => {
    context.skip(broken !== undefined && broken !== promise, `after: ${broken}`)
    broken = promise
    try {
      await work()
    } catch (error) {
      await user.shows('failed')
      throw new Error(`The server refused: ${user.refusals.join(', ')}`, { cause: error })
    }
    broken = undefined
  })

step('the first page asks for the key, refuses a wrong one, and lets the right one in', async () => {
  await user.visit()
  await user.page.locator('input[type=password]').fill('not-the-key')
  await user.page.locator('button[type=submit]').click()
  await expect.poll(() => user.refusals, { timeout: 60_000 }).toContain('401 GET /api/settings')
  await user.page.locator('input[type=password]').fill(sessionKey)
  await user.page.locator('button[type=submit]').click()
  await user.sees('Choose your agent')
  await user.shows('1-first-load')
})

step('a model is set up: settings, its profile and the profile of the agent are saved', async () => {
  await user.presses('Confirm preferences')
  await user.presses('Next')
  // The form is made anew when the settings arrive, and shows the basic view again.
  const isAdvanced = async () => {
    await user.the('sdk-section-advanced-toggle').click()
    return await user.the('llm-custom-model-input').isVisible()
  }
  await expect.poll(isAdvanced, { timeout: 60_000, interval: 1_000 }).toBe(true)
  await user.the('llm-custom-model-input').fill('openai-compatible/demo')
  await user.the('base-url-input').fill(`${far.url}/v1`)
  await user.the('llm-api-key-input').fill(modelKey)
  await user.shows('2-model')
  await user.presses('Next')
  const headers = { 'x-session-api-key': sessionKey }
  const active = async () => {
    const { profiles, active_profile } = await (await fetch(`${server.url}/api/profiles`, { headers })).json()
    return [profiles[0]?.api_key_set, profiles[0]?.name === active_profile]
  }
  await expect.poll(active, { timeout: 60_000 }).toEqual([true, true])
})

step('the first message starts a conversation in which tool calls appear', async () => {
  far.plays = first
  await user.the('onboarding-hello-input-form').locator('button').first().click()
  await user.sees('I look at the folder first.')
  await user.sees('make a file')
  await user.sees('All done: made.txt is there.')
  await user.sees('A title of the model')
  await user.shows('3-conversation')
  expect(far.asked.every(({ headers }) => headers.authorization === `Bearer ${modelKey}`)).toBe(true)
})

step('a reload shows the history, and a further message goes over the socket', async () => {
  await user.page.reload()
  await user.sees('All done: made.txt is there.')
  far.plays = [{ text: 'And here is more.' }]
  await user.says('Go on')
  await user.sees('And here is more.')
  await user.shows('4-reload')
})

step('actions wait for confirmation, are done when it is given and not when it is refused', async () => {
  await user.visit('/settings/verification')
  await user.page.locator('label:has([data-testid="sdk-settings-confirmation_mode"])').click()
  await user.the('save-button').click()
  await expect.poll(() => user.the('save-button').isDisabled(), { timeout: 60_000 }).toBe(true)
  far.plays = careful
  await user.visit()
  await user.says('Work carefully')
  await user.the('action-confirm-button').waitFor()
  await user.shows('5-confirmation')
  await user.the('action-confirm-button').click()
  await user.sees('The second action.')
  await user.the('action-reject-button').click()
  await user.the('action-reject-button').waitFor({ state: 'detached' })
  await user.says('Then stop')
  await user.sees('You said no, so I stop.')
})

step('files are shown, and what changed since the last commit', async () => {
  // The page keeps what it has read of the workspace until it is loaded again.
  await user.page.reload()
  await user.sees('You said no, so I stop.')
  await user.the('right-panel-toggle').click()
  await user.the('file-tree-file-one.txt').click()
  await user.sees('more')
  await user.shows('6-file')
  await user.the('conversation-tab-commits').click()
  await user.sees('one is there')
  await user.the('uncommitted-changes-row-toggle').click()
  await user.sees('zwei.txt')
  await user.shows('7-changes')
})

step('a conversation is found again in the list, and gone after it was deleted', async () => {
  const cards = user.page.getByTestId('conversation-card')
  await expect.poll(() => cards.count(), { timeout: 60_000 }).toBe(2)
  const headers = { 'x-session-api-key': sessionKey }
  const { items } = await (await fetch(`${server.url}/api/conversations/search`, { headers })).json()
  await fetch(`${server.url}/api/conversations/${items[1].id}`, { method: 'DELETE', headers })
  await user.visit()
  await expect.poll(() => cards.count(), { timeout: 60_000 }).toBe(1)
})

step('the page threw nothing, the server failed at nothing, and no key is in what it printed', async () => {
  expect(user.errors).toEqual([])
  expect(user.refusals.filter((line) => /^5(?!03 \w+ \/api\/automation\/)/.test(line))).toEqual([])
  expect(server.output()).not.toContain(modelKey)
  expect(server.output()).not.toContain(sessionKey)
})
