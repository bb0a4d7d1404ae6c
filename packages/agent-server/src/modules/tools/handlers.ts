import { availableToolNames, type BrowserSearch, toolNames } from '@slipway/agent'
import type { Handlers } from '@slipway/http'
import {
  applyPatchTool,
  backgroundTerminalTool,
  toolDefinitions,
  toolName,
  type toolRoutes,
  webFetchTool,
} from '@slipway/protocol'
import { defaultTools } from '../../core/conversations/lifecycle/start-request.ts'

/** Agents get them by other members of their settings, or always. */
const internalTools = [
  ...['finish', 'think', 'task', 'task_tool_set', 'planning_file_editor', 'route_task_to_model'],
]

export function toolHandlers(browser: BrowserSearch): Handlers<typeof toolRoutes> {
  return {
    listTools: () => ({ json: toolNames() }),
    async getToolCatalog() {
      const usable = new Set(await availableToolNames(browser))
      const tools = toolNames()
        .filter((name) => name === 'browser_tool_set' || !name.startsWith('browser_'))
        .map((name) => {
          const user_selectable = !internalTools.includes(name)
          return {
            name,
            user_selectable,
            usable: usable.has(name),
            description: user_selectable ? (describeTools().get(name) ?? '') : '',
            in_default_set: defaultTools.includes(name),
          }
        })
      return { json: { tools } }
    },
  }
}

function describeTools(): ReadonlyMap<string, string> {
  const all = [...Object.values(toolDefinitions), applyPatchTool, backgroundTerminalTool, webFetchTool]
  return new Map(all.map(({ kind, description }) => [toolName(kind), description]))
}
