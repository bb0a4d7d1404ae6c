import { Client, follow } from '@slipway/client'

// Gives an agent a task, prints what it says, and then its answer.
const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
// Any other model: { model: 'anthropic/NAME', api_key: '...' }
const script = [{ text: 'The folder is empty.' }]
const { id } = await client.call('createConversation', {
  body: {
    agent: { llm: { model: 'scripted/demo', script }, tools: [{ name: 'terminal' }] },
    workspace: { working_dir: process.cwd() },
    initial_message: { content: [{ type: 'text', text: 'What is in this folder?' }], run: true },
  },
})
for await (const { event } of follow(client, id, { until: 'idle' })) console.log(event.kind)
const { response } = await client.call('finalResponse', { params: { conversation_id: id } })
console.log(response)
