import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { startCompileCache } from '@slipway/shared/compile-cache'

/** The sandbox server alone: `node main.js --host --port --data --database --agent-server <its main.js>`. */
startCompileCache()
const { abortAtStopSignals, dropEmptySettings, usualDataDirectory } = await import('@slipway/shared/process')
const { serve } = await import('./serve.ts')
dropEmptySettings(process.env)
const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '3000' },
    data: { type: 'string' },
    'agent-server': { type: 'string' },
    'new-key': { type: 'boolean', default: false },
    database: { type: 'string' },
  },
})
const root = resolve(import.meta.dirname, '../../..')
const agentServer = values['agent-server'] ?? resolve(root, 'packages/agent-server/src/main.js')
await serve({
  host: values.host,
  port: Number(values.port),
  data: values.data ?? (await usualDataDirectory('sandbox', { env: process.env })).path,
  env:
    values.database === undefined ? process.env : { ...process.env, SLIPWAY_DATABASE_URL: values.database },
  agent: { command: [process.execPath, agentServer], readable: programFiles(root) },
  isKeyWanted: values['new-key'],
  signal: abortAtStopSignals().signal,
  ready: ({ url, key }) => console.log(JSON.stringify({ url, key })),
})

/** The files that a sandboxed agent server reads: Node, the packages and their libraries. */
function programFiles(directory) {
  return [process.execPath, resolve(directory, 'packages'), resolve(directory, 'node_modules')]
}
