import { parseArgs } from 'node:util'
import { startCompileCache } from '@slipway/shared/compile-cache'

/**
 * The agent server in a sandbox: `node main.js --host --port --data --web --database`, or `--socket` to
 * listen on. JavaScript, because the compile cache begins below: for a TypeScript file Node loads its parser
 * at each start.
 */
startCompileCache()
// Loading makes more garbage than anything after it.
const { relaxHeapGrowth } = await import('./core/server/heap.ts')
relaxHeapGrowth()
const { serve } = await import('./serve.ts')
const { abortAtStopSignals, takeEnvironment, usualDataDirectory } = await import('@slipway/shared/process')
const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '8000' },
    data: { type: 'string' },
    socket: { type: 'string' },
    web: { type: 'string' },
    database: { type: 'string' },
  },
})
const databaseSetting = values.database === undefined ? {} : { SLIPWAY_DATABASE_URL: values.database }
await serve({
  host: values.host,
  port: Number(values.port),
  socket: values.socket,
  data: values.data ?? (await usualDataDirectory('agent', { env: process.env })).path,
  web: values.web,
  env: { ...takeEnvironment(process.env), ...databaseSetting },
  signal: abortAtStopSignals().signal,
  ready(url, sessionKey) {
    console.log(url)
    if (sessionKey !== undefined) console.log(`The session key is in ${sessionKey.path}`)
  },
})
