import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mcpServer } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { Secrets } from '../../../secrets/secrets.ts'
import { Workspace } from '../../../workspace/workspace.ts'
import type { AskUser } from '../../core/server-question.ts'
import type { Tool } from '../../core/tool.ts'
import { signInToMcpServer } from '../oauth.ts'
import { openMcpServers } from '../servers.ts'

/** What the conformance suite gives to the client that it tests. */
export interface ConformanceTask {
  readonly url: string
  readonly scenario: string
  /** Members that depend on the scenario, such as the keys of a registered client. */
  readonly context: Readonly<Record<string, unknown>>
}

/** Does what a scenario asks for: signs in where that is wanted, lists the tools, calls them. */
export async function runConformanceTask(task: ConformanceTask): Promise<void> {
  const { scenario } = task
  const hasSignIn = scenario.startsWith('auth/')
  const isRefused = await connectAndCall(task, hasSignIn)
  // After a refusal the person signs in again.
  if (isRefused && (await connectAndCall(task, true))) throw new Error('The second sign-in was refused')
}

/** True when a call was refused for want of a sign-in. */
async function connectAndCall(
  { url, scenario, context }: ConformanceTask,
  hasSignIn: boolean,
): Promise<boolean> {
  const signal = AbortSignal.timeout(60_000)
  const directory = await mkdtemp(join(tmpdir(), 'slipway-c-'))
  await using workspace = await Workspace.open({ directory, env: { PATH: process.env.PATH ?? '' } })
  const state = hasSignIn ? await signIn(url, context, signal) : undefined
  const auth = state === undefined ? undefined : { strategy: 'oauth2', state }
  const mcp = await openMcpServers({
    servers: { suite: mcpServer.parse({ url, auth }) },
    context: { workspace, secrets: new Secrets(), directory, askUser: acceptAll },
    signal,
  })
  try {
    const [away] = mcp.away.values()
    if (away?.startsWith('HTTP 401') && hasSignIn) return true
    if (away !== undefined) throw new Error(away)
    for (const [name, args] of callsOf(scenario, mcp.tools, context)) {
      const tool = mcp.tools.find((one) => one.name === name)
      if (tool === undefined) throw new Error(`The server has no tool ${name}`)
      const parsed = tool.parse(args)
      if ('error' in parsed) throw new Error(parsed.error)
      const { content } = await tool.run(parsed.action, signal)
      if (JSON.stringify(content).includes('HTTP 401')) return true
    }
    return false
  } finally {
    await mcp.close()
    await rm(directory, { recursive: true, force: true })
  }
}

/** Accepts a form as it is proposed. */
const acceptAll: AskUser = async ({ fields = {} }) => {
  const values = Object.entries(fields).map(([name, field]) => [name, field.default ?? true])
  return { action: 'accept', content: Object.fromEntries(values) }
}

type Call = readonly [name: string, args: Record<string, unknown>]

function callsOf(scenario: string, tools: readonly Tool[], context: ConformanceTask['context']): Call[] {
  if (Array.isArray(context.toolCalls))
    return context.toolCalls.map((call) => {
      const { name, arguments: args } = asRecord(call)
      return [String(name), asRecord(args)]
    })
  if (scenario === 'initialize') return []
  const [first] = tools
  const special: Record<string, Record<string, unknown>> = {
    add_numbers: { a: 5, b: 3 },
    // Asks for the schema of the first tool as a model sees it.
    json_schema_echo: { schema: first?.parameters },
  }
  return tools.map(({ name }) => [name, special[name] ?? {}])
}

/** Signs in as a person would who consents at once. */
async function signIn(url: string, context: ConformanceTask['context'], signal: AbortSignal) {
  const { client_id, client_secret } = context
  const method = client_secret === undefined ? {} : { client_auth_method: 'client_secret_basic' }
  return await signInToMcpServer({
    url,
    headers: {},
    authentication: client_id === undefined ? {} : { client_id, client_secret, ...method },
    redirectUrl: 'http://localhost:3000/callback',
    consent: async (address) => {
      const answer = await fetch(address, { redirect: 'manual', signal })
      const { searchParams } = new URL(answer.headers.get('location') ?? '', address)
      return { code: searchParams.get('code') ?? '', iss: searchParams.get('iss') ?? undefined }
    },
    signal,
  })
}
