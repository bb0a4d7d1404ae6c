import { writeFile } from 'node:fs/promises'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { type Answer, compareAnswers, type Difference, listAdditions } from './compare.ts'
import { type Explained, explain, explained } from './explained.ts'
import { type ComparedRequest, comparedRequests, unknownIds } from './requests.ts'

/**
 * `.ci/reference control-plane npx node conformance/control-plane/main.ts [WORD ...]`: sends the same
 * requests to a sandbox server of the working tree and to the reference's control plane, both new, and prints
 * what differs, route by route and member by member; with words only the routes that contain one of them.
 * Exits with 1 when a difference is not explained (`explained.ts`), an explanation has nothing to explain, or
 * a route of the reference's OpenAPI document is not compared. A run without words writes `results.json`.
 */
interface FoundDifference extends Difference {
  readonly request: string
  readonly because?: Explained | undefined
}

const words = process.argv.slice(2)
const reference = process.env.SLIPWAY_REFERENCE_URL
if (reference === undefined) throw new Error('SLIPWAY_REFERENCE_URL is unset: run this by .ci/reference')
await using server = await SandboxServer.open({ env: { SLIPWAY_ISOLATION: 'none' } })

const found: FoundDifference[] = []
const additions = new Set<string>()
for (const request of comparedRequests) {
  const name = `${request.method} ${request.route}`
  const there = await ask(reference, request)
  const here = await ask(server.url, request, server.key)
  if (words.length > 0 && !words.some((word) => name.includes(word))) continue
  for (const place of listAdditions(there, here)) additions.add(`${name} ${place}`)
  for (const difference of compareAnswers(there, here, request.isShape)) {
    found.push({ ...difference, request: describe(request), because: explain(name, difference) })
  }
}
const unexplained = found.filter(({ because }) => because === undefined)
const unused =
  words.length > 0 ? [] : explained.filter((row) => found.every(({ because }) => because !== row))
const missing = await uncomparedRoutes(reference)

for (const each of unexplained) console.log(formatRow(each))
for (const row of explained) {
  const own = found.filter(({ because }) => because === row)
  if (own.length > 0) console.log(`${row.ground}, ${own.length} times: ${row.reason}`)
}
for (const { reason } of unused) console.log(`explains nothing: ${reason}`)
for (const route of missing) console.log(`not compared: ${route}`)
console.log(
  `${comparedRequests.length} requests, ${found.length} differences, ${unexplained.length} unexplained; ` +
    `${additions.size} members of Slipway alone`,
)
if (words.length === 0)
  await writeFile(
    new URL('results.json', import.meta.url),
    `${JSON.stringify(
      {
        requests: comparedRequests.length,
        unexplained: unexplained.map(({ request, place }) => `${request} ${place}`),
        notCompared: missing,
        explained: explained.map((row) => ({
          reason: row.reason,
          count: found.filter(({ because }) => because === row).length,
        })),
        additions: [...additions],
      },
      null,
      2,
    )}\n`,
  )
process.exitCode = unexplained.length + unused.length + missing.length === 0 ? 0 : 1

async function ask(url: string, request: ComparedRequest, key?: string): Promise<Answer> {
  const { method, body, headers = {} } = request
  const response = await fetch(`${url}${addressOf(request)}`, {
    method,
    headers: {
      ...headers,
      // The other server's answer may take longer than an idle connection is kept.
      connection: 'close',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((cause) => {
    throw new Error(`no answer to ${describe(request)}`, { cause })
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
  return { status: response.status, body: isJson ? JSON.parse(text) : text }
}

function addressOf({ route, params = {}, query }: ComparedRequest): string {
  const path = route.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(params[name] ?? unknownIds[name] ?? name),
  )
  return query === undefined ? path : `${path}?${query}`
}

function describe(request: ComparedRequest): string {
  const body = request.body === undefined ? '' : ` ${JSON.stringify(request.body)}`
  return `${request.method} ${addressOf(request)}${body}`.slice(0, 110)
}

function formatRow({ request, place, reference: there, slipway }: FoundDifference): string {
  return `${request}\n    ${place.padEnd(50)} ${there.padEnd(40)} | ${slipway}`
}

/** Routes of the reference's OpenAPI document without a request. */
async function uncomparedRoutes(url: string): Promise<string[]> {
  const response = await fetch(`${url}/openapi.json`)
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, object>> }
  const compared = new Set(comparedRequests.map(({ method, route }) => `${method} ${route}`))
  return Object.entries(paths)
    .flatMap(([route, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${route}`))
    .filter((route) => !compared.has(route))
}
