import { CallError, Client } from '@slipway/client'

// Runs a command on the machine of the server, and shows how a refusal looks.
const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const body = { command: 'uname -s && exit 3', timeout: 30 }
const { stdout, exit_code } = await client.call('executeBashCommand', { body })
console.log(stdout, exit_code)
try {
  await client.call('getConversation', { params: { conversation_id: 'none' } })
} catch (error) {
  if (!(error instanceof CallError)) throw error
  console.log(error.status, error.detail)
}
