import { Client, follow } from '@slipway/client'

const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const llm = { model: 'scripted/demo', script: [{ text: 'Hello to you.' }] }
const { id } = await client.call('createConversation', {
  body: { agent_settings: { llm }, workspace: { working_dir: process.cwd() } },
})
const params = { conversation_id: id }
await client.call('sendMessage', { params, body: { content: [{ type: 'text', text: 'Hello' }], run: true } })

// Transient updates, such as text deltas of the model, are not stored; a slow reader misses some.
const onTransientUpdate = ({ kind }: { kind: string }) => console.log('not stored:', kind)
for await (const { position, event } of follow(client, id, { until: 'idle', onTransientUpdate })) {
  console.log(position, event.kind)
}

const { items } = await client.call('searchEvents', { params, query: { kind: 'MessageEvent', limit: 20 } })
console.log(items.length, 'messages') // 2 messages
