import { createApp, type Listening, listen, Site } from '@slipway/http'
import { afterAll, beforeAll, expect } from 'vitest'
import { BrowserUser } from '../support/browser-user.ts'
import { MockProvider } from '../support/mock-provider.ts'
import {
  createUser,
  openSandboxServer,
  type SandboxServerFixture,
  type User,
} from '../support/sandbox-server/user.ts'
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

const modelKey = 'sk-canary-of-the-cloud-test-4711'
const command = 'git init -q; mkdir sub; echo hello > made.txt; echo deep > sub/deep.txt'

let page: Listening
let mockProvider: MockProvider
let place: SandboxServerFixture
let account: User
let user: BrowserUser
beforeAll(async () => {
  if (webClient === undefined || browser === undefined) return
  page = await listen(createApp({}, {}, { site: await Site.open(webClient), log: () => {} }), {
    host: '127.0.0.1',
    port: 0,
  })
  const pageUrl = `http://127.0.0.1:${page.port}`
  mockProvider = await MockProvider.open()
  mockProvider.replyWithoutTools = { text: 'A title of the model' }
  mockProvider.replies = [
    { text: 'I look first.', calls: [{ name: 'terminal', arguments: { command, summary: 'make a file' } }] },
    { text: 'All done: made.txt is there.' },
  ]
  place = await openSandboxServer({
    env: {
      SLIPWAY_SANDBOX_HOST_PORTS: new URL(mockProvider.url).port,
      SLIPWAY_ALLOWED_ORIGINS: pageUrl,
    },
  })
  account = await createUser(place.server, { name: 'Ann' })
  user = await BrowserUser.open(browser, pageUrl)
}, 120_000)
afterAll(async () => {
  await user?.[Symbol.asyncDispose]()
  await place?.[Symbol.asyncDispose]()
  await mockProvider?.[Symbol.asyncDispose]()
  await page?.close()
}, 120_000)

const userStep = userSteps(skipReasons, () => user)

const llm = () => ({ base_url: `${mockProvider.url}/v1`, api_key: modelKey })

async function sandboxStatuses(): Promise<string[]> {
  const { items } = await account.get<{ items: { status: string }[] }>('/api/v1/sandboxes/search')
  return items.map(({ status }) => status)
}

userStep('the first page takes the address of the sandbox server and an API key', async () => {
  await user.visit()
  await user.byTestId('onboarding-backend-name').fill('Ours')
  await user.byTestId('onboarding-backend-host').fill(place.server.url)
  await user.byTestId('onboarding-backend-kind-option-cloud').click()
  await user.byTestId('onboarding-backend-api-key').fill(account.key)
  await user.screenshot('cloud-1-sign-in')
  await user.byTestId('onboarding-backend-next').click()
  await user.waitForText('Choose your agent')
})

userStep('a model is set up, with which the first message starts a conversation in a sandbox', async () => {
  await user.byTestId('onboarding-agent-next').click()
  await fillInModel(user, { ...llm(), model: 'openai/gpt-4o' })
  await user.screenshot('cloud-2-model')
  await user.byTestId('onboarding-llm-next').click()
  await expect
    .poll(() => account.get('/api/v1/settings'), { timeout: 60_000 })
    .toMatchObject({ llm_api_key_set: true, agent_settings: { llm: { model: 'openai/gpt-4o' } } })
  await user.byTestId('onboarding-hello-input').fill('Make a file')
  await sendFirstMessage(user, ['I look first.', 'make a file', 'All done: made.txt is there.'])
  await user.screenshot('cloud-3-conversation')
  expect(mockProvider.requests[0]?.headers.authorization).toBe(`Bearer ${modelKey}`)
})

userStep('a reload shows the list and the history, and a further message is answered', async () => {
  await continueAfterReload(user, mockProvider, 'All done: made.txt is there.')
  await expect.poll(() => user.page.getByTestId('conversation-card').count(), { timeout: 60_000 }).toBe(1)
  await user.screenshot('cloud-4-reload')
})

userStep('files are shown, and what changed', async () => {
  await openFile(user, 'made.txt', 'hello')
  await user.screenshot('cloud-5-file')
  await openChanges(user, ['deep.txt'])
  await user.screenshot('cloud-6-changes')
})

userStep('a stopped sandbox is started again when its conversation is opened', async () => {
  const address = user.page.url()
  // The menu closes when the page is rendered again.
  const stop = async () => {
    await user.byTestId('server-status-menu-trigger').click()
    await user.byTestId('stop-server-button').click({ timeout: 2_000 })
  }
  await expect
    .poll(
      () =>
        stop().then(
          () => true,
          () => false,
        ),
      { timeout: 60_000 },
    )
    .toBe(true)
  await expect.poll(sandboxStatuses, { timeout: 60_000 }).toEqual(['PAUSED'])
  await user.page.goto(address)
  await expect.poll(sandboxStatuses, { timeout: 60_000 }).toEqual(['RUNNING'])
  // Before it has read the conversation, the page knows no server to send to.
  await user.waitForText('And here is more.')
  mockProvider.replies = [{ text: 'Awake again.' }]
  await user.sendMessage('Are you there?')
  await user.waitForText('Awake again.')
  await user.screenshot('cloud-7-resumed')
})

userStep('secrets and LLM profiles are saved and listed', async () => {
  await user.visit('/settings/secrets')
  await user.byTestId('add-secret-button').click()
  await user.byTestId('name-input').fill('CLOUD_TOKEN')
  await user.byTestId('value-input').fill('cloud-canary-4711')
  await user.byTestId('submit-button').click()
  await user.waitForText('CLOUD_TOKEN')
  expect(await account.get('/api/v1/secrets/search')).toMatchObject({ items: [{ name: 'CLOUD_TOKEN' }] })
  await user.screenshot('cloud-8-secrets')
  await user.visit('/settings/llm')
  await user.byTestId('add-llm-profile').click()
  await user.byTestId('profile-name-input').fill('fast')
  await fillInModel(user, { ...llm(), model: 'openai-compatible/demo' })
  await user.byTestId('save-profile-btn').click()
  await user.byTestId('profile-row').waitFor()
  await user.screenshot('cloud-9-profiles')
  expect(await account.get('/api/v1/settings/profiles')).toMatchObject({
    profiles: [{ name: 'fast', model: 'openai-compatible/demo', api_key_set: true }],
  })
})

userStep('automations are reported as unavailable without a scheduler', async () => {
  await user.visit('/automations')
  await user.waitForText('Automations Unavailable')
  await user.screenshot('cloud-10-automations')
})

userStep('the page threw nothing, and was refused what is missing alone', async () => {
  expect(user.errors).toEqual([])
  const refused = new Set(user.errorResponses.map((line) => line.replace(place.server.url, '')))
  expect([...refused].sort()).toEqual([
    // At the page's server: a forwarder for commits, which the client's own server lacks too.
    '404 POST /api/cloud-proxy',
    // No scheduler.
    '503 GET /api/automation/health',
    '503 GET /api/automation/sdk-version',
  ])
  for (const secret of [modelKey, account.key, 'cloud-canary-4711'])
    expect(place.server.output()).not.toContain(secret)
})
