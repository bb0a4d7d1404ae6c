import { mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'
import { afterAll, expect, test } from 'vitest'
import { openAgentFixture } from '../support/agent-fixture.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { runProgram } from '../support/npm-packages.ts'
import { installNpmTools } from '../support/npm-tools.ts'

/** The OpenAPI documents, read by other people's linter and generators. */
const root = resolve(import.meta.dirname, '../..')
const names = ['agent-server', 'sandbox-server'] as const
const documentOf = (name: string) => join(root, `openapi/${name}.json`)
const tools = await installNpmTools('openapi-tools')
const skipReason = typeof tools === 'string' ? tools : undefined
if (skipReason !== undefined) console.warn(`SKIPPED: ${skipReason}`)
const folder = await realpath(await mkdtemp(join(tmpdir(), 'openapi-')))
afterAll(() => rm(folder, { recursive: true }))
const { api, server } = await openAgentFixture()

const toolTest = (name: string, run: () => Promise<void>) =>
  test.skipIf(skipReason !== undefined)(name, { timeout: 240_000 }, run)

/** Runs a program of the tools; its output when it ends with 0. */
async function runTool(name: string, ...args: string[]): Promise<string> {
  const directory = typeof tools === 'string' ? '' : tools.directory
  const env = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', CI: '1' }
  const program = join(directory, 'node_modules/.bin', name)
  const { code, output } = await runProgram(process.execPath, [program, ...args], { cwd: folder, env })
  expect([code, output]).toEqual([0, expect.any(String)])
  return output
}

/** Checks types without what the repository or its folder add. */
async function checkTypes(files: readonly string[], ...more: string[]): Promise<void> {
  const strict = ['--ignoreConfig', '--noEmit', '--strict', '--target', 'esnext', '--types', '']
  const lib = ['--lib', 'esnext,dom,dom.iterable,dom.asynciterable']
  const args = [...strict, ...lib, ...more, ...files]
  const { output } = await runProgram(join(root, 'node_modules/.bin/tsc'), args, { cwd: folder })
  expect(output).toBe('')
}

/** No server and no security are in the documents, by the specification. */
const redoclyConfig = `
extends: [spec]
rules:
  struct: error
  no-unresolved-refs: error
  no-schema-type-mismatch: error
  no-required-schema-properties-undefined: error
  no-invalid-media-type-examples: error
  no-invalid-schema-examples: error
  no-identical-paths: error
  no-duplicated-tag-names: error
  path-parameters-defined: error
  operation-operationId-unique: error
  operation-parameters-unique: error
`

toolTest('redocly finds no error', async () => {
  const config = join(folder, 'redocly.yaml')
  await writeFile(config, redoclyConfig)
  const output = await runTool('redocly', 'lint', '--config', config, ...names.map(documentOf))
  expect(output).toContain('Your API descriptions are valid')
  expect(output).not.toContain('warning')
})

const typesProgram = `
import type { components, paths } from './agent-server.d.ts'
import type { paths as SandboxPaths } from './sandbox-server.d.ts'
type Query = paths['/api/conversations/{conversation_id}/events/search']['get']['parameters']['query']
export const query: Query = { kind: 'MessageEvent', limit: 5, sort_order: 'TIMESTAMP_DESC' }
// @ts-expect-error there is no such order
export const wrongQuery: Query = { sort_order: 'NAME' }
export function idOf(event: components['schemas']['Event']): string | undefined {
  return event.kind === 'PauseEvent' ? event.id : undefined
}
// @ts-expect-error a request has an agent with a model
export const wrongAgent: components['schemas']['Agent'] = {}
export type Started = SandboxPaths['/api/v1/sandboxes']['post']['responses']
`

toolTest('types of openapi-typescript pass strict type checking', async () => {
  for (const name of names) await runTool('openapi-typescript', documentOf(name), '--output', `${name}.d.ts`)
  await writeFile(join(folder, 'types.ts'), typesProgram)
  const files = ['types.ts', ...names.map((name) => `${name}.d.ts`)]
  await checkTypes(
    files,
    '--module',
    'nodenext',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
  )
})

const clientProgram = `
import { countEvents, getConversation, patchConversation, searchEvents } from './agent-server-client'
import { createClient } from './agent-server-client/client'
import { alive } from './sandbox-server-client'
export async function callServer(baseUrl: string, conversation_id: string) {
  const client = createClient({ baseUrl, throwOnError: true })
  const path = { conversation_id }
  const page = await searchEvents({ client, path, query: { kind: 'MessageEvent', limit: 5 }, throwOnError: true })
  const text = page.data.items.map((event) => (event.kind === 'MessageEvent' ? event.llm_message.role : event.kind))
  await patchConversation({ client, path, body: { title: 'Generated', tags: { by: 'test' } }, throwOnError: true })
  const { data } = await getConversation({ client, path, throwOnError: true })
  const count: number = (await countEvents({ client, path, throwOnError: true })).data
  const refused = await searchEvents({ baseUrl, path, query: { limit: 0 } })
  const { status } = await alive({ client }).then(({ response }) => response ?? { status: 0 })
  return { text, title: data.title, count, refused: refused.response?.status, status }
}
// @ts-expect-error a limit is a number
export const wrong = () => searchEvents({ path: { conversation_id: 'x' }, query: { limit: 'five' } })
`

toolTest('clients of hey-api pass strict type checking and call a server', async () => {
  for (const name of names)
    await runTool(
      'openapi-ts',
      '--input',
      documentOf(name),
      '--output',
      `${name}-client`,
      '--client',
      '@hey-api/client-fetch',
      '--no-log-file',
    )
  const program = join(folder, 'client.ts')
  await writeFile(program, clientProgram)
  await checkTypes(['client.ts'], '--module', 'preserve', '--moduleResolution', 'bundler')
  await using bundle = await rolldown({ input: program })
  await bundle.write({ file: join(folder, 'client.mjs') })
  const { callServer } = await import(/* @vite-ignore */ pathToFileURL(join(folder, 'client.mjs')).href)
  const id = await api.import(
    toJsonLines(messageLine('a', '2026-01-01T00:00:00Z', 'one'), { kind: 'PauseEvent' }),
  )
  expect(await callServer(server.url, id)).toEqual({
    text: ['user'],
    title: 'Generated',
    count: 2,
    refused: 422,
    status: 200,
  })
})
