import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { agentOpenApi } from '@slipway/protocol'

const file = resolve(import.meta.dirname, '../openapi/agent-server.json')
const text = `${JSON.stringify(agentOpenApi, null, 2)}\n`

/** With `--check` it fails when the committed document differs; without, it writes the document. */
if (process.argv.includes('--check')) {
  if (readFileSync(file, 'utf8') !== text) {
    console.error(
      'openapi/agent-server.json is out of date: run `node scripts/print-openapi.ts` and review the diff',
    )
    process.exitCode = 1
  }
} else {
  mkdirSync(resolve(file, '..'), { recursive: true })
  writeFileSync(file, text)
}
