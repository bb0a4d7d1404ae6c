import { createServer } from 'node:http'
import { listen } from './listen.ts'

/** The least that can be started. */
await listen(createServer((_, response) => response.end('{"status":"ok"}')))
