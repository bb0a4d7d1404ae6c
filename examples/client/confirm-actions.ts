import { Client, follow, readPendingActions } from '@slipway/client'

// Every action of the agent waits for an answer; this program allows those that only read.
const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const calls = (command: string) => [{ name: 'terminal', arguments: { command } }]
const script = [
  { text: 'I look.', tool_calls: calls('ls') },
  { text: 'I clean up.', tool_calls: calls('rm -rf build') },
  { text: 'Then I leave it.' },
]
const { id } = await client.call('createConversation', {
  body: {
    agent: { llm: { model: 'scripted/demo', script }, tools: [{ name: 'terminal' }] },
    workspace: { working_dir: process.cwd() },
    confirmation_policy: { kind: 'AlwaysConfirm' },
    initial_message: { content: [{ type: 'text', text: 'Tidy up' }], run: true },
  },
})
const params = { conversation_id: id }
let after = '0'
for (;;) {
  for await (const { cursor } of follow(client, id, { after, until: 'idle' })) after = cursor
  const { execution_status } = await client.call('getConversation', { params })
  if (execution_status !== 'waiting_for_confirmation') break
  // With the digest the answer is for what was read here: 409 when anything else waits by then.
  const { events, digest } = await readPendingActions(client, id)
  const commands = events.map((event) => (event.kind === 'ActionEvent' ? event.tool_call.arguments : ''))
  const accept = !commands.some((command) => command.includes('rm '))
  console.log(accept ? 'allowed' : 'rejected', ...commands)
  await client.call('respondToConfirmation', {
    params,
    body: { accept, reason: 'Nothing may be deleted.', actions_digest: digest },
  })
  if (!accept) await client.call('runConversation', { params })
}
