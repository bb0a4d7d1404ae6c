import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { ConversationInfoReader, getConversationRecord } from './conversation-info.ts'

const llm = { model: 'openai/m', usage_id: 'agent', api_key: 'sk-canary' }

/** The agent that clients see of a conversation with this condenser. */
async function displayedAgent(condenser: object | null) {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-info-'))
  try {
    await using storage = await openStorage({ directory })
    const id = randomUUID()
    const request = { agent: { llm, tools: [], condenser }, workspace: { working_dir: directory } }
    await storage.conversations.create({ id, status: 'idle', request: JSON.stringify(request) })
    const record = await getConversationRecord(storage.conversations, id)
    return (await new ConversationInfoReader(storage, directory).readInfo(record)).agent
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

test('a condenser that summarizes with the model of the agent shows that model, without its key', async () => {
  const summarizing = { kind: 'LLMSummarizingCondenser', max_size: 240 }
  const shown = { ...summarizing, llm: { model: 'openai/m', usage_id: 'condenser', api_key: null } }
  expect(await displayedAgent(summarizing)).toMatchObject({ condenser: shown })
  const own = { ...summarizing, llm: { model: 'openai/other', usage_id: 'own' } }
  expect(await displayedAgent({ kind: 'PipelineCondenser', condensers: [summarizing, own] })).toMatchObject({
    condenser: { condensers: [shown, own] },
  })
})

test('a condenser that needs no model, or none, is shown unchanged', async () => {
  expect(await displayedAgent({ kind: 'NoOpCondenser' })).toMatchObject({
    condenser: { kind: 'NoOpCondenser' },
  })
  expect(await displayedAgent(null)).toMatchObject({ condenser: null })
})
