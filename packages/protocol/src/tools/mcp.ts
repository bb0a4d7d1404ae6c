import * as z from 'zod'
import { action, observation, tool } from './tool.ts'

const anything = z.record(z.string(), z.unknown())

/** `data` is the call's arguments as they came; the MCP server knows what they mean. */
export const mcpToolAction = action('MCPToolAction', { data: anything.default({}) })
export const mcpToolObservation = observation('MCPToolObservation', { tool_name: z.string() })
/** `mcp_tool` is the Tool object of the MCP server, which also gives the name. */
export const mcpToolDefinition = tool('MCPToolDefinition', { mcp_tool: anything.optional() })
