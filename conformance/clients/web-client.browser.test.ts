import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { BrowserUser } from '../support/browser-user.ts'
import { MockProvider, type ScriptedReply } from '../support/mock-provider.ts'
import {
  continueAfterReload,
  fillInModel,
  findWebClientTools,
  openChanges,
  openFile,
  sendFirstMessage,
  userSteps,
} from '../support/user-steps.ts'

const { directory: webClient, browser, skipReasons } = await findWebClientTools()

const sessionKey = 'a-session-key-of-the-web-test'
const modelKey = 'sk-canary-of-the-web-test-4711'
const firstReplies: ScriptedReply[] = [
  {
    text: 'I look at the folder first.',
    calls: [
      { name: 'terminal', arguments: { command: 'echo hello > made.txt; ls', summary: 'make a file' } },
    ],
  },
  { text: 'All done: made.txt is there.' },
]
const confirmationReplies: ScriptedReply[] = [
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
let mockProvider: MockProvider
let server: Awaited<ReturnType<typeof startAgentServer>>
let user: BrowserUser
beforeAll(async () => {
  if (webClient === undefined || browser === undefined) return
  directory = await mkdtemp(join(tmpdir(), 'slipway-web-'))
  mockProvider = await MockProvider.open()
  mockProvider.replyWithoutTools = { text: 'A title of the model' }
  server = await startAgentServer(
    join(directory, 'data'),
    { SLIPWAY_SESSION_API_KEY: sessionKey, HOME: join(directory, 'home') },
    ['--web', webClient],
  )
  user = await BrowserUser.open(browser, server.url)
}, 120_000)
afterAll(async () => {
  await user?.[Symbol.asyncDispose]()
  await server?.stop()
  await mockProvider?.[Symbol.asyncDispose]()
  if (directory !== undefined) await rm(directory, { recursive: true, force: true })
})

const userStep = userSteps(skipReasons, () => user)

userStep('the first page asks for the key, refuses a wrong one, and lets the right one in', async () => {
  await user.visit()
  await user.page.locator('input[type=password]').fill('not-the-key')
  await user.page.locator('button[type=submit]').click()
  await expect.poll(() => user.errorResponses, { timeout: 60_000 }).toContain('401 GET /api/settings')
  await user.page.locator('input[type=password]').fill(sessionKey)
  await user.page.locator('button[type=submit]').click()
  await user.waitForText('Choose your agent')
  await user.screenshot('1-first-load')
})

userStep('a model is set up: settings, its profile and the profile of the agent are saved', async () => {
  await user.clickButton('Confirm preferences')
  await user.clickButton('Next')
  const llm = { model: 'openai-compatible/demo', base_url: `${mockProvider.url}/v1`, api_key: modelKey }
  await fillInModel(user, llm)
  await user.screenshot('2-model')
  await user.clickButton('Next')
  const headers = { 'x-session-api-key': sessionKey }
  const active = async () => {
    const { profiles, active_profile } = await (await fetch(`${server.url}/api/profiles`, { headers })).json()
    return [profiles[0]?.api_key_set, profiles[0]?.name === active_profile]
  }
  await expect.poll(active, { timeout: 60_000 }).toEqual([true, true])
})

userStep('the first message starts a conversation in which tool calls appear', async () => {
  mockProvider.replies = firstReplies
  // A conversation gets what the page knows of the saved profiles, which it reads again.
  await user.page.waitForLoadState('networkidle', { timeout: 10_000 }).catch(() => undefined)
  await sendFirstMessage(user, ['I look at the folder first.', 'make a file', 'All done: made.txt is there.'])
  await user.screenshot('3-conversation')
  expect(mockProvider.requests.every(({ headers }) => headers.authorization === `Bearer ${modelKey}`)).toBe(
    true,
  )
})

userStep('a reload shows the history, and a further message goes over the socket', async () => {
  await continueAfterReload(user, mockProvider, 'All done: made.txt is there.')
  await user.screenshot('4-reload')
})

userStep('actions wait for confirmation, are done when it is given and not when it is refused', async () => {
  await user.visit('/settings/verification')
  await user.page.locator('label:has([data-testid="sdk-settings-confirmation_mode"])').click()
  await user.byTestId('save-button').click()
  await expect.poll(() => user.byTestId('save-button').isDisabled(), { timeout: 60_000 }).toBe(true)
  mockProvider.replies = confirmationReplies
  await user.visit()
  await user.sendMessage('Work carefully')
  await user.byTestId('action-confirm-button').waitFor()
  await user.screenshot('5-confirmation')
  await user.byTestId('action-confirm-button').click()
  await user.waitForText('The second action.')
  await user.byTestId('action-reject-button').click()
  await user.byTestId('action-reject-button').waitFor({ state: 'detached' })
  await user.sendMessage('Then stop')
  await user.waitForText('You said no, so I stop.')
})

userStep('files are shown, and what changed since the last commit', async () => {
  // The page caches the workspace until it is reloaded.
  await user.page.reload()
  await user.waitForText('You said no, so I stop.')
  await openFile(user, 'one.txt', 'more')
  await user.screenshot('6-file')
  await openChanges(user, ['one is there', 'zwei.txt'])
  await user.screenshot('7-changes')
})

userStep('a conversation is found again in the list, and gone after it was deleted', async () => {
  const cards = user.page.getByTestId('conversation-card')
  await expect.poll(() => cards.count(), { timeout: 60_000 }).toBe(2)
  const headers = { 'x-session-api-key': sessionKey }
  const { items } = await (await fetch(`${server.url}/api/conversations/search`, { headers })).json()
  await fetch(`${server.url}/api/conversations/${items[1].id}`, { method: 'DELETE', headers })
  await user.visit()
  await expect.poll(() => cards.count(), { timeout: 60_000 }).toBe(1)
})

userStep(
  'the page threw nothing, the server failed at nothing, and no key is in what it printed',
  async () => {
    expect(user.errors).toEqual([])
    expect(user.errorResponses.filter((line) => /^5(?!03 \w+ \/api\/automation\/)/.test(line))).toEqual([])
    expect(server.output()).not.toContain(modelKey)
    expect(server.output()).not.toContain(sessionKey)
  },
)
