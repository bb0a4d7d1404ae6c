import { invalidInput, type ToolSpec, toolDefinitions, toolName } from '@slipway/protocol'
import { type BrowserSearch, findBrowser } from './core/find-browser.ts'
import type { Tool, ToolContext, ToolFactory } from './core/tool.ts'

type OpenTools = (...to: Parameters<ToolFactory>) => Promise<readonly Tool[]>

/** By registry name. The first conversation that uses a tool loads it: some import large libraries. */
const loadFactory: Readonly<Record<string, () => Promise<ToolFactory>>> = {
  terminal: async () => (await import('./terminal/terminal.ts')).openTerminal,
  file_editor: async () => (await import('./files/file-editor.ts')).openFileEditor,
  planning_file_editor: async () => (await import('./files/file-editor.ts')).openPlanningFileEditor,
  task_tracker: async () => (await import('./tasks/task-tracker.ts')).openTaskTracker,
  glob: async () => (await import('./search/glob.ts')).openGlob,
  grep: async () => (await import('./search/grep.ts')).openGrep,
  edit: async () => (await import('./files/edit.ts')).openEdit,
  write_file: async () => (await import('./files/edit.ts')).openWriteFile,
  read_file: async () => (await import('./files/read-file.ts')).openReadFile,
  list_directory: async () => (await import('./files/read-file.ts')).openListDirectory,
  browser_tool_set: async () => (await import('./browser/tools.ts')).openBrowser,
  finish: async () => (await import('./core/builtin.ts')).openFinish,
  think: async () => (await import('./core/builtin.ts')).openThink,
  apply_patch: async () => (await import('./patch/apply-patch.ts')).openApplyPatch,
  background_terminal: async () => (await import('./terminal/background.ts')).openBackgroundTerminal,
  web_fetch: async () => (await import('./web/web-fetch.ts')).openWebFetch,
  invoke_skill: async () => (await import('./skills/invoke-skill.ts')).openInvokeSkill,
  route_task_to_model: async () => (await import('./routing/route-task.ts')).openRouteTask,
  task_tool_set: async () => (await import('./tasks/task.ts')).openTask,
}

const toolKinds = Object.keys(toolDefinitions)
const browserToolNames = toolKinds.filter((kind) => /^Browser.*Tool$/.test(kind)).map(toolName)

/** By registry name. A single browser tool has an entry too, with its own browser. */
export const registry: ReadonlyMap<string, OpenTools> = new Map(
  Object.entries(loadFactory).flatMap(([name, load]): [string, OpenTools][] => {
    const open: OpenTools = async (...to) => [await (await load())(...to)].flat()
    const openOne = (one: string): [string, OpenTools] => [
      one,
      async (...to) => (await open(...to)).filter((tool) => tool.name === one),
    ]
    // The name by which models call it is a name of it too.
    if (name === 'task_tool_set')
      return [
        [name, open],
        ['task', open],
      ]
    return [[name, open], ...(name === 'browser_tool_set' ? browserToolNames.map(openOne) : [])]
  }),
)

/** Class names (`TerminalTool`) -> registry names. */
const aliases: ReadonlyMap<string, string> = new Map([
  ...toolKinds.map((kind) => [kind, toolName(kind)] as const),
  ['ApplyPatchTool', 'apply_patch'],
  ['BackgroundTerminalTool', 'background_terminal'],
  ['WebFetchTool', 'web_fetch'],
  ['InvokeSkillTool', 'invoke_skill'],
  ['ClassifyAndSwitchLLMTool', 'route_task_to_model'],
  ['TaskTool', 'task_tool_set'],
  ['TaskToolSet', 'task_tool_set'],
])

/** The factory of a registry name or a class name; undefined when there is no such tool. */
export function findTool(name: string): OpenTools | undefined {
  return registry.get(registryName(name))
}

/** All registry names. */
export function toolNames(): readonly string[] {
  return [...registry.keys()]
}

/** The registry names of tools that work on this machine; browser tools only when a browser is installed. */
export async function availableToolNames(browser?: BrowserSearch): Promise<readonly string[]> {
  const isInstalled = (await findBrowser(browser)) !== undefined
  return isInstalled ? toolNames() : toolNames().filter((name) => !isBrowserTool(name))
}

/**
 * Opens the tools of a conversation in order: those of the specs, `extra` ones, then the defaults, which are
 * not filtered. The first tool of a name wins. Rejects with Problem `invalid` for an unknown name, after
 * closing the opened tools.
 */
export async function openTools(options: {
  readonly specs: readonly ToolSpec[]
  /** Names or class names. */
  readonly defaults: readonly string[]
  readonly context: ToolContext
  /** Omits tools whose name does not match. */
  readonly filter?: RegExp | undefined
  /** Open tools; they are never closed here. */
  readonly extra?: readonly Tool[]
}): Promise<ReadonlyMap<string, Tool>> {
  const { specs, defaults, context, filter, extra = [] } = options
  /** Each factory is called once: all browser tools share a browser. */
  const families = new Map<OpenTools, readonly Tool[]>()
  const open = async ({ name, params }: ToolSpec, ...location: (string | number)[]): Promise<Tool[]> => {
    const resolvedName = registryName(name)
    const factory = registry.get(isBrowserTool(resolvedName) ? 'browser_tool_set' : resolvedName)
    if (factory === undefined)
      throw invalidInput([...location, 'name'], `There is no such tool. Available: ${toolNames().join(', ')}`)
    const family = families.get(factory) ?? (await factory(context, params))
    families.set(factory, family)
    return family.filter((tool) => resolvedName.endsWith('_tool_set') || tool.name === resolvedName)
  }
  const tools = new Map<string, Tool>()
  try {
    const added: Tool[] = []
    for (const [index, spec] of specs.entries()) added.push(...(await open(spec, 'tools', index)))
    const selected = [...added, ...extra].filter(
      ({ name }) => filter === undefined || name.search(filter) !== -1,
    )
    for (const [index, name] of defaults.entries())
      selected.push(...(await open({ name, params: {} }, 'include_default_tools', index)))
    for (const tool of selected) if (!tools.has(tool.name)) tools.set(tool.name, tool)
    return tools
  } catch (error) {
    tools.clear()
    throw error
  } finally {
    // Tools of a family share resources: it is closed when none of them is used.
    for (const family of families.values()) {
      const isUsed = family.some((tool) => tools.get(tool.name) === tool)
      if (!isUsed) await Promise.all(family.map((tool) => tool.close?.()))
    }
  }
}

function registryName(name: string): string {
  return registry.has(name) ? name : (aliases.get(name) ?? name)
}

function isBrowserTool(name: string): boolean {
  return name === 'browser_tool_set' || browserToolNames.includes(name)
}
