import type { Tool as ServerTool } from '@modelcontextprotocol/client'
import { asRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { McpConnection } from './connection.ts'
import type { CallResult } from './server-tool.ts'

interface ResourceTool {
  readonly tool: ServerTool
  call(args: Record<string, unknown>, signal: AbortSignal): Promise<CallResult>
}

const annotations = { readOnlyHint: true, destructiveHint: false, openWorldHint: false }

/** The resources of a server as two tools, in its own the form; none for a server without resources. */
export function resourceTools(connection: McpConnection): ResourceTool[] {
  if (!connection.hasResources) return []
  const { name } = connection
  const list: ServerTool = {
    name: 'list_resources',
    description: `Lists what the MCP server ${name} offers to read: addresses (URIs), and templates of addresses.`,
    inputSchema: {
      type: 'object',
      properties: { cursor: { type: 'string', description: 'Of the previous page, for the next one.' } },
    },
    annotations,
  }
  const read: ServerTool = {
    name: 'read_resource',
    description: `Reads one resource of the MCP server ${name}, by its URI.`,
    inputSchema: { type: 'object', properties: { uri: { type: 'string' } }, required: ['uri'] },
    annotations,
  }
  return [
    { tool: list, call: async (args, signal) => await listResources(connection, args, signal) },
    {
      tool: read,
      call: async ({ uri }, signal) => {
        if (typeof uri !== 'string') return { failure: 'The uri is missing.' }
        const answer = await connection.request('resources/read', { uri }, signal)
        if ('failure' in answer) return answer
        const { contents } = asRecord(answer.result)
        const parts: unknown[] = Array.isArray(contents) ? contents : []
        return { result: { content: parts.map((resource) => ({ type: 'resource', resource })) } }
      },
    },
  ]
}

async function listResources(
  connection: McpConnection,
  { cursor }: Record<string, unknown>,
  signal: AbortSignal,
): Promise<CallResult> {
  const params = typeof cursor === 'string' && cursor !== '' ? { cursor } : {}
  const [listed, templates] = await Promise.all([
    connection.request('resources/list', params, signal),
    // All on the first page.
    params.cursor === undefined ? connection.request('resources/templates/list', {}, signal) : { result: {} },
  ])
  if ('failure' in listed) return listed
  const { resources, nextCursor } = asRecord(listed.result)
  const { resourceTemplates } = 'failure' in templates ? {} : asRecord(templates.result)
  const lines = [
    ...lineOf(resources, 'uri'),
    ...lineOf(resourceTemplates, 'uriTemplate'),
    ...(typeof nextCursor === 'string' ? [`More with the cursor ${nextCursor}`] : []),
  ]
  return { result: { content: [{ type: 'text', text: lines.join('\n') || 'There are none.' }] } }
}

function lineOf(list: unknown, member: 'uri' | 'uriTemplate'): string[] {
  const entries: unknown[] = Array.isArray(list) ? list : []
  return entries.map((entry) => {
    const { [member]: address, name, mimeType, description } = asRecord(entry)
    const about = [name, mimeType, description].filter((word) => typeof word === 'string' && word !== '')
    return `${String(address)}${about.length === 0 ? '' : ` (${firstChars(about.join('; ').replace(/\s+/g, ' '), 300)})`}`
  })
}
