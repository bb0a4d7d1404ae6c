import { join } from 'node:path'
import { UsageStats } from '@slipway/agent'
import { startConversationRequest } from '@slipway/protocol'
import { openStorage } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openCreateDeps, openRegistry, temporaryDirectory } from '../../testing/fixtures.ts'
import { ConversationInfoReader } from './conversation-info.ts'
import { createConversation } from './lifecycle/create.ts'

const ids = ['a', 'b', 'c'].map((letter) => `6f9619ff-8b86-4011-b42d-00c04fc964f${letter}`)
const verbs = [
  'create',
  'send',
  'run',
  'title',
  'tags',
  'usage',
  'child',
  'block',
  'skill',
  'close',
  'load',
  'remove',
] as const
const steps = fc.array(
  fc.record({
    verb: fc.constantFrom(...verbs),
    id: fc.constantFrom(...ids),
    text: fc.constantFrom('one', 'two', 'drei ✓ 💧'),
    /** Other steps between two reads, so that changes add up. */
    isRead: fc.boolean(),
  }),
  { minLength: 1, maxLength: 25 },
)
type Step =
  typeof steps extends fc.Arbitrary<infer S> ? (S extends readonly (infer One)[] ? One : never) : never

const usage = {
  model_name: 'm',
  accumulated_cost: 0.5,
  max_budget_per_task: null,
  accumulated_token_usage: null,
}
const usageText = JSON.stringify({
  usage_to_metrics: { agent: { ...usage, costs: [], response_latencies: [], token_usages: [] } },
})

const anotherOfTheSameId: Step[] = [
  { verb: 'title', id: ids[0] ?? '', text: 'one', isRead: true },
  { verb: 'remove', id: ids[0] ?? '', text: 'one', isRead: false },
  { verb: 'create', id: ids[0] ?? '', text: 'drei ✓ 💧', isRead: false },
  { verb: 'title', id: ids[0] ?? '', text: 'one', isRead: true },
]

async function openScene(directory: string) {
  // A clock that stands still, so that no version is new because of the time alone.
  const storage = await openStorage({ directory, now: () => 1_800_000_000_000_000 })
  const registry = await openRegistry(storage, directory)
  const deps = await openCreateDeps(storage, registry, directory)
  const apply = async ({ verb, id, text }: Step): Promise<void> => {
    if (verb === 'create') {
      const request = startConversationRequest.parse({
        agent: { llm: { model: 'scripted/x', script: [{ text }] } },
        workspace: { working_dir: join(directory, 'workspace') },
        conversation_id: id,
        max_iterations: text.length,
        ...(text !== 'two' ? {} : { limits: { run: { max_steps: 100 } } }),
        autotitle: false,
      })
      return void (await createConversation(deps, request))
    }
    if ((await storage.conversations.get([id]))[0] === undefined) return
    if (verb === 'title') return void (await storage.conversations.patch(id, { title: text }))
    if (verb === 'tags')
      return void (await storage.conversations.patch(id, { tags: { [text.slice(0, 3)]: text } }))
    if (verb === 'close') return await registry.close(id)
    if (verb === 'remove') {
      await registry.close(id, { isDeleted: true })
      return void (await storage.conversations.remove(id))
    }
    const conversation = await registry.get(id)
    if (verb === 'usage') conversation.stats.replace(text, new UsageStats(usageText))
    if (verb === 'block') conversation.state.blockedMessages.set(text, text)
    if (verb === 'skill') conversation.state.activatedSkills.add(text)
    if (verb !== 'send' && verb !== 'run') return
    await conversation.send({
      ...{ role: 'user', content: [{ type: 'text', text, cache_prompt: false }], run: verb === 'run' },
      ...{ sender: undefined, extended_content: undefined },
    })
    await conversation.waitUntilIdle()
  }
  return { storage, registry, apply }
}

test('whatever happens to conversations, the kept JSON is what a new reader builds', {
  timeout: 120_000,
}, async () => {
  let hits = 0
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      using place = temporaryDirectory()
      const { storage, registry, apply } = await openScene(place.path)
      try {
        const family: string[] = []
        const kept = new ConversationInfoReader(storage, place.path)
        const read = async () => {
          for (const record of await storage.conversations.get(ids)) {
            if (record === undefined) continue
            const loaded = await registry.peek(record.id)
            const options = { loaded, children: family }
            const known = kept.readInfoBytes(record, options)
            if (!(known instanceof Promise)) hits++
            const fresh = await new ConversationInfoReader(storage, place.path).readInfo(record, options)
            expect((await known).toString()).toBe(JSON.stringify(fresh))
          }
        }
        for (const id of ids) await apply({ verb: 'create', id, text: 'one', isRead: false })
        for (const step of all) {
          if (step.verb === 'child') family.push(step.id)
          else await apply(step)
          if (step.isRead) await read()
        }
        await read()
      } finally {
        await registry[Symbol.asyncDispose]()
        await storage[Symbol.asyncDispose]()
      }
    }),
    { numRuns: 40, examples: [[anotherOfTheSameId]] },
  )
  expect(hits).toBeGreaterThan(40)
})
