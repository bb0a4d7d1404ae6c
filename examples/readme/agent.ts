import { resolve } from 'node:path'
import { loadOpenModel, openConversation } from '@slipway/agent'
import { must, sendMessageRequest, startConversationRequest } from '@slipway/protocol'
import { systemClock } from '@slipway/shared/time'
import { openStorage } from '@slipway/storage'

const id = crypto.randomUUID()
await using storage = await openStorage({ directory: './data' })
await storage.conversations.create({ id })

const request = startConversationRequest.parse({
  agent: { llm: { model: 'scripted/demo', script: [{ text: 'They pass.' }] } },
  workspace: { working_dir: resolve('.') },
})
await using conversation = await openConversation({
  id,
  settings: { ...request, agent: must(request.agent, 'agent') },
  deps: {
    log: storage.log,
    openModel: await loadOpenModel(),
    clock: systemClock,
    environment: { PATH: '/usr/bin:/bin' },
    directory: resolve('data/conversations'),
    isConfined: true,
    logLine: console.error,
  },
  store: { snapshot: null, stats: null, saveSnapshot: async () => {}, seal: () => ({}) },
})
await conversation.send(
  sendMessageRequest.parse({ content: [{ type: 'text', text: 'Run the tests' }], run: true }),
)
await conversation.waitUntilIdle()
console.log(conversation.state.status) // finished
