import { createServer } from 'node:http'
import { listen } from './listen.ts'

/** The smallest server that can be started. */
await listen(createServer((_, response) => response.end('{"status":"ok"}')))
