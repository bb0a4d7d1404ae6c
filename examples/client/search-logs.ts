import { Client } from '@slipway/client'

// Prints the messages of the newest conversations that contain a text.
const { SLIPWAY_URL: url = 'http://127.0.0.1:8000', SLIPWAY_SESSION_API_KEY: sessionApiKey } = process.env
const client = new Client({ url, sessionApiKey })
const text = process.argv[2] ?? 'hello'
const { items } = await client.call('searchConversations', { query: { limit: 10 } })
for (const { id, title } of items) {
  const params = { conversation_id: id }
  let page_id: string | undefined
  do {
    const page = await client.call('searchEvents', { params, query: { body: text, limit: 50, page_id } })
    for (const event of page.items) console.log(title ?? id, event.timestamp, event.kind)
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}
