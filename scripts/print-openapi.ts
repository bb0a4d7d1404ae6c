import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import {
  agentServerOpenApi,
  agentServerRoutes,
  event,
  type RouteTable,
  sandboxServerOpenApi,
  sandboxServerRoutes,
} from '@slipway/protocol'
import * as z from 'zod'

const head = '// Printed by `npx node scripts/print-openapi.ts`; do not edit.\n'

const pathsHead = `${head}
/** Method and path of an operation: \`GET /api/conversations/{conversation_id}\`. */
type RoutePath = \`\${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /\${string}\`
`

/** As the formatter wraps. */
const lineWidth = 110

function pathTable(name: string, routes: RouteTable): string {
  const rows = Object.entries(routes).map(([route, { method, path }]) => {
    const row = `  ${route}: '${method} ${path}',`
    return row.length <= lineWidth ? row : row.replace(': ', ':\n    ')
  })
  return `\nexport const ${name} = {\n${rows.join('\n')}\n} as const satisfies Readonly<Record<string, RoutePath>>\n`
}

const kinds = event.options.map((option) => option.shape.kind.value)
const defaultSources = event.options.flatMap(({ shape: { kind, source } }) =>
  source instanceof z.ZodDefault ? [`  ${kind.value}: '${source.parse(undefined)}',`] : [],
)
const kindsFile = `${head}
export const eventKinds = [
${kinds.map((kind) => `  '${kind}',`).join('\n')}
] as const

/** By kind; a kind without one is left out. */
export const defaultSources = {
${defaultSources.join('\n')}
} as const
`

const files = {
  'openapi/agent-server.json': `${JSON.stringify(agentServerOpenApi, null, 2)}\n`,
  'openapi/sandbox-server.json': `${JSON.stringify(sandboxServerOpenApi, null, 2)}\n`,
  'packages/protocol/src/events/kinds.ts': kindsFile,
  'packages/protocol/src/route-paths.ts':
    pathsHead +
    pathTable('agentServerPaths', agentServerRoutes) +
    pathTable('sandboxServerPaths', sandboxServerRoutes),
}

/** With `--check` it fails when a committed file differs; without, it writes the files. */
for (const [name, text] of Object.entries(files)) {
  const file = resolve(import.meta.dirname, '..', name)
  if (!process.argv.includes('--check')) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${name} is out of date: run \`npx node scripts/print-openapi.ts\` and review the diff`)
    process.exitCode = 1
  }
}
