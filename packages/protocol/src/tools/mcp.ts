import * as z from 'zod'
import { jsonObject } from '../core/schemas.ts'
import { defineAction, defineObservation, defineToolSchema } from './tool.ts'

/** `data` is the call's arguments as they came; the MCP server knows what they mean. */
export const mcpToolAction = defineAction('MCPToolAction', { data: jsonObject.default({}) })
export const mcpToolObservation = defineObservation('MCPToolObservation', { tool_name: z.string() })
/** `mcp_tool` is the Tool object of the MCP server, which also gives the name. */
export const mcpToolDefinition = defineToolSchema('MCPToolDefinition', { mcp_tool: jsonObject.optional() })
