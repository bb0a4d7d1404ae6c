import type { Tool as ServerTool } from '@modelcontextprotocol/client'
import type { ToolDefinition } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import { type Tool, type ToolAction, type ToolContext, textBlock } from '../core/tool.ts'
import { resultContent } from './result-content.ts'

/** The server's answer as received, or why there is none. */
export type CallResult = { readonly result: unknown } | { readonly failure: string }

/** Names of a model's tools: letters, digits, `_` and `-`, at most 64. */
const maxNameLength = 64

/**
 * The name of a tool for the model: the server's name for it, prefixed by the server's name when there are
 * several servers. Invalid characters become `_`; a name in use gets a number.
 */
export function modelToolName(
  tool: string,
  server: string | undefined,
  usedNames: { has(name: string): boolean },
): string {
  const fullName = server === undefined ? tool : `${server}_${tool}`
  const sanitized = firstChars(fullName.replace(/[^\w-]/g, '_'), maxNameLength)
  for (let number = 1; ; number++) {
    const suffix = number === 1 ? '' : `_${number}`
    const name = firstChars(sanitized, maxNameLength - suffix.length) + suffix
    if (name !== '' && !usedNames.has(name)) return name
  }
}

/**
 * A tool of an MCP server, under its name for the model. Names of secrets in the arguments are replaced by
 * their values; values in the results are redacted. `call` rejects only when the signal aborts.
 */
export function createMcpTool(
  name: string,
  tool: ServerTool,
  context: ToolContext,
  call: (args: Record<string, unknown>, signal: AbortSignal) => Promise<CallResult>,
): Tool<ToolAction<'MCPToolAction'>> {
  const observation = { kind: 'MCPToolObservation' as const, tool_name: name }
  return {
    name,
    definition: createDefinition(name, tool),
    parameters: { properties: {}, ...tool.inputSchema, type: 'object' },
    parse: (args) => ({ action: { kind: 'MCPToolAction', data: args } }),
    resources: () => (tool.annotations?.readOnlyHint === true ? [] : [`mcp:${name}`]),
    run: async ({ data }, signal) => {
      // `expand` returns an object for an object.
      const args = (await context.secrets.expand(data)) as Record<string, unknown>
      const missing = context.secrets.lookupFailure(data)
      const outcome = missing === undefined ? await call(args, signal) : { failure: missing }
      if ('failure' in outcome) {
        const content = [textBlock(context.secrets.redact(outcome.failure))]
        return { ...observation, content, is_error: true }
      }
      const { result } = outcome
      const content = await resultContent(result, name, context)
      return { ...observation, content, is_error: isRecord(result) && result.isError === true }
    },
  }
}

function createDefinition(name: string, tool: ServerTool): ToolDefinition {
  const { annotations } = tool
  return {
    kind: 'MCPToolDefinition',
    description: tool.description ?? tool.title ?? name,
    action_type: 'MCPToolAction',
    observation_type: 'MCPToolObservation',
    ...(annotations && { annotations: withDefaults(annotations) }),
    mcp_tool: { ...tool, name },
    title: annotations?.title ?? tool.title ?? name,
  }
}

/** With the defaults of the protocol, which assume the riskier behaviour. */
function withDefaults(annotations: NonNullable<ServerTool['annotations']>) {
  const { title, readOnlyHint = false, destructiveHint = true } = annotations
  const { idempotentHint = false, openWorldHint = true } = annotations
  return { title, readOnlyHint, destructiveHint, idempotentHint, openWorldHint }
}
