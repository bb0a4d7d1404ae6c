import { invalidInput, type ToolSpec, toolDefinitions, toolName } from '@slipway/protocol'
import type { Tool, ToolContext, ToolFactory } from './core/tool.ts'

// Modules are loaded by the first conversation that has such a tool, not with the server: some bring large libraries along.
const openBrowser: ToolFactory = async (context, params) =>
  await (await import('./browser/tools.ts')).openBrowser(context, params)

const toolKinds = Object.keys(toolDefinitions)
const browserToolNames = toolKinds.filter((kind) => /^Browser.*Tool$/.test(kind)).map(toolName)

/** What opens the tools of a registry name; a single browser tool has one too, with a browser of its own. */
export const registry: ReadonlyMap<string, ToolFactory> = new Map<string, ToolFactory>([
  ['terminal', async (...to) => (await import('./terminal/terminal.ts')).openTerminal(...to)],
  ['file_editor', async (...to) => (await import('./files/file-editor.ts')).openFileEditor(...to)],
  [
    'planning_file_editor',
    async (...to) => (await import('./files/planning-file-editor.ts')).openPlanningFileEditor(...to),
  ],
  ['task_tracker', async (...to) => (await import('./tasks/task-tracker.ts')).openTaskTracker(...to)],
  ['glob', async (...to) => (await import('./search/glob.ts')).openGlob(...to)],
  ['grep', async (...to) => (await import('./search/grep.ts')).openGrep(...to)],
  ['edit', async (...to) => (await import('./files/edit.ts')).openEdit(...to)],
  ['write_file', async (...to) => (await import('./files/edit.ts')).openWriteFile(...to)],
  ['read_file', async (...to) => (await import('./files/read-file.ts')).openReadFile(...to)],
  ['list_directory', async (...to) => (await import('./files/read-file.ts')).openListDirectory(...to)],
  ['browser_tool_set', openBrowser],
  ...browserToolNames.map((name) => [name, singleBrowserTool(name)] as const),
  ['finish', async (...to) => (await import('./builtin/finish.ts')).openFinish(...to)],
  ['think', async (...to) => (await import('./builtin/think.ts')).openThink(...to)],
  ['task_tool_set', async (...to) => (await import('./tasks/task.ts')).openTask(...to)],
])

function singleBrowserTool(name: string): ToolFactory {
  return async (context, params) => (await openBrowser(context, params)).filter((tool) => tool.name === name)
}

/** Class names (`TerminalTool`) stand for registry names. */
const aliases: ReadonlyMap<string, string> = new Map([
  ...toolKinds.map((kind) => [kind, toolName(kind)] as const),
  ['TaskTool', 'task_tool_set'],
  ['TaskToolSet', 'task_tool_set'],
])

/** What opens the tools of a name, a registry name or a class name; undefined when there is no such tool. */
export function findTool(name: string): ToolFactory | undefined {
  return registry.get(registryName(name))
}

/** All registry names. */
export function toolNames(): readonly string[] {
  return [...registry.keys()]
}

/** The registry names of tools that work on this machine: those of the browser only when one is installed. */
export async function availableToolNames(): Promise<readonly string[]> {
  const { isBrowserInstalled } = await import('./browser/find-browser.ts')
  return (await isBrowserInstalled()) ? toolNames() : toolNames().filter((name) => !isBrowserTool(name))
}

/**
 * Opens the tools of a conversation, by name and in order: those of the specs, `extra` ones, then the defaults, which no
 * filter leaves out. Of two with the same name the first stays. Rejects with Problem `invalid` for a name that is unknown;
 * what was opened until then is closed.
 */
export async function openTools(options: {
  readonly specs: readonly ToolSpec[]
  /** Names or class names. */
  readonly defaults: readonly string[]
  readonly context: ToolContext
  /** Leaves out tools whose name it does not match. */
  readonly filter?: RegExp
  /** Tools that are open already; they are not closed here. */
  readonly extra?: readonly Tool[]
}): Promise<ReadonlyMap<string, Tool>> {
  const { specs, defaults, context, filter, extra = [] } = options
  const opener = new ToolOpener(context)
  const matchesFilter = ({ name }: Tool) => filter === undefined || name.search(filter) !== -1
  try {
    const specified = await opener.openAll(specs, 'tools')
    const defaultTools = await opener.openAll(
      defaults.map((name) => ({ name, params: {} })),
      'include_default_tools',
    )
    const tools = new Map<string, Tool>()
    for (const tool of [...[...specified, ...extra].filter(matchesFilter), ...defaultTools])
      if (!tools.has(tool.name)) tools.set(tool.name, tool)
    await opener.closeUnused(tools)
    return tools
  } catch (error) {
    await opener.closeUnused(new Map())
    throw error
  }
}

/** Tools while they are being opened: each name once, and one browser for all browser tools. */
class ToolOpener {
  readonly #context: ToolContext
  readonly #families = new Map<ToolFactory, readonly Tool[]>()

  constructor(context: ToolContext) {
    this.#context = context
  }

  async openAll(specs: readonly ToolSpec[], location: string): Promise<Tool[]> {
    const tools: Tool[] = []
    for (const [index, { name, params }] of specs.entries()) {
      const resolvedName = registryName(name)
      const open = isBrowserTool(resolvedName) ? openBrowser : registry.get(resolvedName)
      if (open === undefined)
        throw invalidInput(
          [location, index, 'name'],
          `There is no such tool. Available: ${toolNames().join(', ')}`,
        )
      const family = this.#families.get(open) ?? (await open(this.#context, params))
      this.#families.set(open, family)
      tools.push(...family.filter((tool) => resolvedName.endsWith('_tool_set') || tool.name === resolvedName))
    }
    return tools
  }

  /** Closes the families of which nothing is kept. What one tool of a family holds open, the others need too. */
  async closeUnused(used: ReadonlyMap<string, Tool>): Promise<void> {
    for (const family of this.#families.values()) {
      const isUsed = family.some((tool) => used.get(tool.name) === tool)
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
