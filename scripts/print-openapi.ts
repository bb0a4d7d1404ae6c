import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { agentServerOpenApi, sandboxServerOpenApi } from '@slipway/protocol'

const documents = { 'agent-server.json': agentServerOpenApi, 'sandbox-server.json': sandboxServerOpenApi }

/** With `--check` it fails when a committed document differs; without, it writes the documents. */
for (const [name, document] of Object.entries(documents)) {
  const file = resolve(import.meta.dirname, '../openapi', name)
  const text = `${JSON.stringify(document, null, 2)}\n`
  if (!process.argv.includes('--check')) {
    mkdirSync(resolve(file, '..'), { recursive: true })
    writeFileSync(file, text)
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(
      `openapi/${name} is out of date: run \`npx node scripts/print-openapi.ts\` and review the diff`,
    )
    process.exitCode = 1
  }
}
