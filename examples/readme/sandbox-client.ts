import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxServerClient } from '@slipway/client'

const { SLIPWAY_SANDBOX_URL: url = 'http://127.0.0.1:3000', SLIPWAY_API_KEY: apiKey = '' } = process.env
const client = new SandboxServerClient({ url, apiKey })
let task = await client.call('startAppConversation', { body: { initial_message: { content: 'Hello' } } })
while (task.status !== 'READY' && task.status !== 'ERROR') {
  await sleep(500)
  const [current] = await client.call('getStartTasks', { query: { ids: [task.id] } })
  task = current ?? task
}
console.log(task.status, task.detail)
if (task.sandbox_id) await client.call('pauseSandbox', { params: { sandbox_id: task.sandbox_id } })
