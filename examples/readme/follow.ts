import { Client, follow } from '@slipway/client'

const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const id = process.argv[2] ?? ''
for await (const { position, event } of follow(client, id, { after: 0 })) console.log(position, event.kind)
