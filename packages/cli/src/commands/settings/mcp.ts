import { basename, resolve } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { exists } from '@slipway/shared/fs'
import { isSecretName } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import type { CommandContext } from '../../context/command-context.ts'
import { isLoopbackUrl } from '../../context/session-key.ts'
import { listMcpServers, type McpServerInput } from '../../conversation/mcp-servers.ts'
import { countText } from '../../output/count-text.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

type Servers = Readonly<Record<string, McpServerInput>>

/** The first start of a server may download it. */
const testSeconds = 90

export interface NewMcpServer {
  /** A program and its arguments; empty with `url`. */
  readonly command: readonly string[]
  readonly url?: string | undefined
  /** `NAME=VALUE`, or `NAME` for the value in the environment of this command. */
  readonly variables: readonly string[]
  /** The variable with a bearer token for `url`. */
  readonly tokenVariable?: string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Lists the MCP servers; secrets are not shown. */
export async function listMcpCommand({ client, isJson, signal }: CommandContext): Promise<void> {
  const servers = Object.entries(await listMcpServers(client, signal))
  if (isJson)
    return await print(servers.map(([name, server]) => `${JSON.stringify({ name, ...server })}\n`).join(''))
  if (servers.length === 0)
    return printNote('There is no MCP server. Add one with: slipway mcp add NAME -- COMMAND')
  const rows = servers.map(([name, server]) => [
    sanitizeLine(name),
    isOn(server) ? 'on' : 'off',
    isOn(server) ? sanitizeLine(agentToolName('*', name, Object.fromEntries(servers))) : '',
    sanitizeLine(server.url ?? [server.command, ...(server.args ?? [])].join(' ')),
  ])
  const width = (column: number) => Math.max(6, ...rows.map((row) => row[column]?.length ?? 0)) + 2
  await print(table(rows, [width(0), 5, width(2)], ['NAME', '', 'TOOLS', 'COMMAND OR ADDRESS']))
}

function isOn({ disabled, enabled }: McpServerInput): boolean {
  return disabled !== true && enabled !== false
}

/** The name under which agents have a tool: with several servers, that of the server comes first. */
function agentToolName(tool: string, server: string, servers: Servers): string {
  const others = Object.entries(servers).filter(([name, one]) => name !== server && isOn(one))
  const name = others.length === 0 ? tool : `${server}_${tool}`
  return firstChars(name.replace(/[^\w*-]/g, '_'), 64)
}

/** Tests an MCP server on the machine of the agent server, then adds it to the settings. */
export async function addMcpCommand(
  context: CommandContext,
  name: string,
  added: NewMcpServer & { readonly isTested: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  const isHere = isLoopbackUrl(client.url)
  const server = buildServer(isHere ? { ...added, command: await resolveCommand(added.command) } : added)
  if (Object.hasOwn(await listMcpServers(client, signal), name))
    throw new Problem('conflict', `There is an MCP server ${name}. Remove it with: slipway mcp rm ${name}`)
  const tools = added.isTested ? await testServer(context, name, server) : undefined
  await client.call('createMcpServer', { params: { settings_key: name }, body: server, signal })
  const text = tools === undefined ? 'added' : `added, with ${toolList(tools)}`
  await printResult(isJson, { name, tools }, sanitizeLine(text))
}

/** Takes an MCP server out of the settings. */
export async function removeMcpCommand(context: CommandContext, name: string): Promise<void> {
  const { client, isJson, signal } = context
  namedServer(await listMcpServers(client, signal), name)
  await client.call('deleteMcpServer', { params: { settings_key: name }, signal })
  await printResult(isJson, { name, status: 'removed' }, 'removed')
}

/** Starts an MCP server of the settings and lists its tools, under the names that agents have for them. */
export async function testMcpCommand(context: CommandContext, name: string): Promise<void> {
  const { client, isJson, signal } = context
  const servers = await listMcpServers(client, signal, 'sealed')
  const found = await testServer(context, name, namedServer(servers, name))
  const tools = found.map((tool) => agentToolName(tool, name, servers))
  await printResult(isJson, { name, tools }, sanitizeLine(toolList(tools)))
}

function toolList(tools: readonly string[]): string {
  return [countText(tools.length, 'tool'), ...(tools.length === 0 ? [] : [tools.join(', ')])].join(': ')
}

/** Programs that run the file of their first argument. */
const interpreters = /^(node|deno|bun|python[\d.]*|ruby|perl|sh|bash)$/

/**
 * A command with absolute paths: the server starts it in another directory. Names without a path
 * are found on the server's PATH. A Problem when the program or its script is missing.
 */
async function resolveCommand(command: readonly string[]): Promise<readonly string[]> {
  const [program, ...args] = command
  if (program === undefined) return command
  const [path, ...paths] = await Promise.all([
    program.includes('/') ? resolve(program) : program,
    ...args.map(async (arg) => {
      const isPath = /^\.{1,2}(\/|$)/.test(arg) || (/^[^-].*[/.]/.test(arg) && (await exists(arg)))
      return isPath ? resolve(arg) : arg
    }),
  ])
  const script = args[0] ?? ''
  const isScript = interpreters.test(basename(program)) && /^[^-].*\.\w+$/.test(script)
  for (const file of [...(program.includes('/') ? [path] : []), ...(isScript ? [resolve(script)] : [])]) {
    if (!(await exists(file)))
      throw new Problem('bad_request', `There is no file ${sanitizeLine(file)}. Nothing was added.`)
  }
  return [path, ...paths]
}

async function testServer(
  { client, signal }: CommandContext,
  name: string,
  server: McpServerInput,
): Promise<readonly string[]> {
  const body = { name, server, timeout: testSeconds }
  const result = await client.call('testMcpServer', { body, signal })
  if (result.ok) return result.tools
  throw new Problem('bad_request', `The MCP server ${name} does not answer: ${sanitizeLine(result.error)}`)
}

export function buildServer({ command, url, variables, tokenVariable, env }: NewMcpServer): McpServerInput {
  const [program, ...args] = command
  if (url !== undefined) {
    const token = tokenVariable === undefined ? undefined : readVariable(env, tokenVariable)
    return { url, ...(token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } }) }
  }
  const values = variables.map((text) => {
    const separator = text.indexOf('=')
    if (separator < 1) return [text, readVariable(env, text)] as const
    const name = text.slice(0, separator)
    if (!isSecretName(name)) return [name, text.slice(separator + 1)] as const
    const next = `export ${name}, and name it alone: --env ${name}`
    throw new Problem('bad_request', `${name} is a secret, and other users can see a command line: ${next}`)
  })
  return { command: program, args, ...(values.length === 0 ? {} : { env: Object.fromEntries(values) }) }
}

export function readVariable(env: NewMcpServer['env'], name: string): string {
  const value = env[name]
  if (value) return value
  throw new Problem('bad_request', `The variable ${sanitizeLine(name)} is not set.`)
}

function namedServer(servers: Servers, name: string): McpServerInput {
  const server = Object.hasOwn(servers, name) ? servers[name] : undefined
  if (server !== undefined) return server
  const names = Object.keys(servers).join(', ') || 'none'
  throw new Problem(
    'bad_request',
    `There is no MCP server ${JSON.stringify(name)}. There are: ${sanitizeLine(names)}`,
  )
}
