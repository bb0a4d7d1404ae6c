import * as z from 'zod'
import {
  browserAction,
  browserObservation,
  browserToolSet,
  browserTools,
  browserTypeTool,
} from './browser.ts'
import { fileEditor, planningFileEditor } from './file-editor.ts'
import { edit, listDirectory, readFile, writeFile } from './files.ts'
import { finish, think } from './general.ts'
import { mcpToolAction, mcpToolDefinition, mcpToolObservation } from './mcp.ts'
import { glob, grep } from './search.ts'
import { taskTracker } from './task-tracker.ts'
import { terminal } from './terminal.ts'
import type { BuiltInTool } from './tool.ts'

const generalTools = [finish, think] as const
const workspaceTools = [
  fileEditor,
  edit,
  listDirectory,
  readFile,
  writeFile,
  glob,
  grep,
  planningFileEditor,
  taskTracker,
  terminal,
] as const

type Picked<T extends readonly object[], P extends string> = {
  -readonly [I in keyof T]: T[I] extends { readonly [N in P]: infer V } ? V : never
}

/** One part of each tool, in order. */
function pick<const T extends readonly { readonly [N in P]: unknown }[], P extends string>(
  tools: T,
  part: P,
): Picked<T, P> {
  // `map` forgets that a tuple stays one.
  return tools.map((tool) => tool[part]) as Picked<T, P>
}

/** The 28 actions (spec 2.5). */
export const action = z
  .discriminatedUnion('kind', [
    mcpToolAction,
    ...pick(generalTools, 'action'),
    browserAction,
    ...pick(browserTools, 'action'),
    browserTypeTool.action,
    ...pick(workspaceTools, 'action'),
  ])
  .meta({ id: 'Action' })
export type Action = z.infer<typeof action>

/** The 14 observations (spec 2.6). */
export const observation = z
  .discriminatedUnion('kind', [
    mcpToolObservation,
    ...pick(generalTools, 'observation'),
    browserObservation,
    ...pick(workspaceTools, 'observation'),
  ])
  .meta({ id: 'Observation' })
export type Observation = z.infer<typeof observation>

const builtInTools = [
  ...generalTools,
  ...browserTools,
  browserToolSet,
  browserTypeTool,
  ...workspaceTools,
] as const

/** The 28 tool definitions (spec 2.6). */
export const toolDefinition = z
  .discriminatedUnion('kind', [mcpToolDefinition, ...pick(builtInTools, 'definition')])
  .meta({ id: 'ToolDefinition' })
export type ToolDefinition = z.infer<typeof toolDefinition>

/** Built-in tools by kind, as a SystemPromptEvent lists them. MCP servers describe their own. */
export const toolDefinitions = Object.fromEntries(
  builtInTools.map(({ listing }) => [listing.kind, listing]),
) as { readonly [K in (typeof builtInTools)[number]['listing']['kind']]: BuiltInTool<K> }
