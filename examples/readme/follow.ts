import { Client, follow } from '@slipway/client'

const client = new Client({ url: process.env.SLIPWAY_URL ?? 'http://127.0.0.1:8000' })
const id = process.argv[2] ?? ''
for await (const { position, event } of follow(client, id, { after: 0 })) console.log(position, event.kind)
