import { invalid, type ToolSpec, toolDefinitions, toolName } from '@slipway/protocol'
import type { OpenTools, Tool, ToolContext } from './core/tool.ts'

// Modules are loaded by the first conversation that has such a tool, not with the server: some bring large libraries along.
const openBrowser: OpenTools = async (context, params) =>
  await (await import('./browser/tools.ts')).openBrowser(context, params)

const kinds = Object.keys(toolDefinitions)
const browserTools = kinds.filter((kind) => /^Browser.*Tool$/.test(kind)).map(toolName)

/** What opens the tools of a registry name; a single browser tool has one too, with a browser of its own. */
export const registry: ReadonlyMap<string, OpenTools> = new Map<string, OpenTools>([
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
  ...browserTools.map((name) => [name, only(name)] as const),
  ['finish', async (...to) => (await import('./builtin/finish.ts')).openFinish(...to)],
  ['think', async (...to) => (await import('./builtin/think.ts')).openThink(...to)],
  ['task_tool_set', async (...to) => (await import('./tasks/task.ts')).openTask(...to)],
])

function only(name: string): OpenTools {
  return async (context, params) => (await openBrowser(context, params)).filter((tool) => tool.name === name)
}

/** Class names (`TerminalTool`) stand for registry names. */
const aliases: ReadonlyMap<string, string> = new Map([
  ...kinds.map((kind) => [kind, toolName(kind)] as const),
  ['TaskTool', 'task_tool_set'],
  ['TaskToolSet', 'task_tool_set'],
])

/** What opens the tools of a name, a registry name or a class name; undefined when there is no such tool. */
export function findTool(name: string): OpenTools | undefined {
  return registry.get(registryName(name))
}

/** All registry names. */
export function toolNames(): readonly string[] {
  return [...registry.keys()]
}

/** The registry names of tools that work on this machine: those of the browser only when one is installed. */
export async function usableTools(): Promise<readonly string[]> {
  const { browserIsInstalled } = await import('./browser/find-browser.ts')
  return (await browserIsInstalled()) ? toolNames() : toolNames().filter((name) => !isBrowserTool(name))
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
  const opened = new Opened(context)
  const isWanted = ({ name }: Tool) => filter === undefined || name.search(filter) !== -1
  try {
    const named = await opened.all(specs, 'tools')
    const always = await opened.all(
      defaults.map((name) => ({ name, params: {} })),
      'include_default_tools',
    )
    const found = new Map<string, Tool>()
    for (const tool of [...[...named, ...extra].filter(isWanted), ...always])
      if (!found.has(tool.name)) found.set(tool.name, tool)
    await opened.closeOthers(found)
    return found
  } catch (error) {
    await opened.closeOthers(new Map())
    throw error
  }
}

/** Tools while they are being opened: each name once, and one browser for all browser tools. */
class Opened {
  readonly #context: ToolContext
  readonly #families = new Map<OpenTools, readonly Tool[]>()

  constructor(context: ToolContext) {
    this.#context = context
  }

  async all(specs: readonly ToolSpec[], place: string): Promise<Tool[]> {
    const tools: Tool[] = []
    for (const [at, { name, params }] of specs.entries()) {
      const known = registryName(name)
      const open = isBrowserTool(known) ? openBrowser : registry.get(known)
      if (open === undefined)
        throw invalid([place, at, 'name'], `There is no such tool. Available: ${toolNames().join(', ')}`)
      const family = this.#families.get(open) ?? (await open(this.#context, params))
      this.#families.set(open, family)
      tools.push(...family.filter((tool) => known.endsWith('_tool_set') || tool.name === known))
    }
    return tools
  }

  /** Closes the families of which nothing is kept. What one tool of a family holds open, the others need too. */
  async closeOthers(kept: ReadonlyMap<string, Tool>): Promise<void> {
    for (const family of this.#families.values()) {
      const isKept = family.some((tool) => kept.get(tool.name) === tool)
      if (!isKept) await Promise.all(family.map((tool) => tool.close?.()))
    }
  }
}

function registryName(name: string): string {
  return registry.has(name) ? name : (aliases.get(name) ?? name)
}

function isBrowserTool(name: string): boolean {
  return name === 'browser_tool_set' || browserTools.includes(name)
}
