import { Client } from '@slipway/client'

// Copies a conversation with all of its events, byte for byte, from one server to another.
const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const { SLIPWAY_TARGET_URL: targetUrl = url, SLIPWAY_TARGET_KEY: targetKey = sessionApiKey } = process.env
const target = new Client({ url: targetUrl, sessionApiKey: targetKey })
const stream = await client.exportEvents(process.argv[2] ?? '')
const { conversation_id, imported } = await target.importEvents(stream)
console.log(imported, 'events in', conversation_id)
