import { afterAll, beforeAll, expect, test } from 'vitest'
import { MockProvider } from '../support/mock-provider.ts'
import {
  administrator,
  createUser,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/**
 * A budget in money of a user whose agents run in two sandboxes, with a provider that counts what it sells.
 */

interface Budget {
  readonly spent: number
  readonly reserved: number
  readonly left: number
}

/** Dollars of one reply, by the tokens that the provider reports and the price below. */
const replyCost = 1
const replyTokens = 10
let fixture: SandboxServerFixture
let provider: MockProvider
let user: User
beforeAll(async () => {
  provider = await MockProvider.open()
  provider.replies = [{ text: 'Done.' }]
  fixture = await openSandboxServer({
    env: { SLIPWAY_SANDBOX_HOST_PORTS: new URL(provider.url).port },
  })
  user = await createUser(fixture.server, { name: 'Ann' })
  const price = { input_cost_per_token: 0, output_cost_per_token: replyCost / replyTokens }
  await user.setModel(provider.llm('chat', { ...price, max_output_tokens: replyTokens }))
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
  await provider?.[Symbol.asyncDispose]()
}, 120_000)

const setBudget = async (monthly_limit: number) =>
  await administrator(fixture.server).requestOrThrow('PUT', `/api/admin/budgets/user/${user.id}`, {
    monthly_limit,
  })

async function ownBudget(): Promise<Budget | undefined> {
  return (await user.get<{ items: Budget[] }>('/api/budgets')).items[0]
}

async function findErrors(conversation: string): Promise<readonly { readonly detail: string }[]> {
  const path = `/api/v1/conversation/${conversation}/events/search?kind__eq=ConversationErrorEvent&limit=100`
  return (await user.get<ListPage<{ detail: string }>>(path)).items
}

/** After that many runs with a reply or a refusal: the status alone may be that of the run before. */
async function untilAtRest(conversation: string, runs: number): Promise<string> {
  const path = `/api/v1/conversation/${conversation}/events/search?kind__eq=MessageEvent&limit=100`
  return await waitFor('the run has ended', async () => {
    const { items } = await user.get<ListPage<{ source: string }>>(path)
    const replies = items.filter(({ source }) => source === 'agent').length
    if (replies + (await findErrors(conversation)).length < runs) return undefined
    const { execution_status: status } = (await user.getConversation(conversation)) as {
      execution_status?: string
    }
    return status === 'finished' || status === 'error' ? status : undefined
  })
}

test('two sandboxes together stay below a budget, read whom to ask, and continue when it is raised', {
  timeout: 120_000,
}, async () => {
  await setBudget(4)
  const conversations = await Promise.all([1, 2].map(() => user.createConversation({ title: 'Mine' })))
  expect(new Set(conversations.map(({ sandbox_id }) => sandbox_id)).size).toBe(2)
  const ids = conversations.map(({ id }) => id)
  for (let round = 0; round < 3; round++)
    await Promise.all(
      ids.map(async (id) => {
        expect((await user.sendMessage(id, `Round ${round}`)).status).toBeLessThan(300)
        await user.waitForMessage(id, `Round ${round}`)
        await untilAtRest(id, round + 1)
      }),
    )
  const sold = provider.requests.length
  expect(sold * replyCost).toBeLessThanOrEqual(4)
  expect(sold).toBeGreaterThanOrEqual(3)
  const errors = (await Promise.all(ids.map(findErrors))).flat()
  expect(errors.length).toBeGreaterThan(0)
  for (const { detail } of errors)
    expect(detail).toMatch(/budget of the user Ann for .* of \$4\.00\..*slipway budgets request/)
  const budget = await ownBudget()
  expect(budget?.reserved).toBe(0)
  expect(budget?.spent).toBeCloseTo(sold * replyCost, 5)
  await setBudget(50)
  const [id = ''] = ids
  await user.sendMessage(id, 'Once more')
  await waitFor('it is answered', async () => (provider.requests.length > sold ? true : undefined))
  await expect.poll(async () => await untilAtRest(id, 4)).toBe('finished')
})
