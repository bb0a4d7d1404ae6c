import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { Problem, toolDefinition, toolDefinitions, toolName } from '@slipway/protocol'
import { beforeEach, expect, test } from 'vitest'
import type { Tool } from './core/tool.ts'
import { availableToolNames, findTool, openTools, registry, toolNames } from './registry.ts'
import { ToolFixtures } from './testing/fixtures.ts'

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  return () => fixtures[Symbol.asyncDispose]()
})

const toolSpecs = (...names: readonly string[]) => names.map((name) => ({ name, params: {} }))
/** Their kinds are outside of the closed lists. */
const openKinds = [
  ...[
    'apply_patch',
    'background_terminal',
    'invoke_skill',
    'route_task_to_model',
    'task',
    'task_tool_set',
    'web_fetch',
  ],
]
const defaults = ['FinishTool', 'ThinkTool']

async function close(tools: ReadonlyMap<string, Tool>): Promise<void> {
  for (const tool of tools.values()) await tool.close?.()
}

test('there is a tool for each definition of ours, by registry name and by class name', () => {
  const kinds = Object.keys(toolDefinitions)
  expect([...toolNames()].sort()).toEqual([...kinds.map(toolName), ...openKinds].sort())
  for (const kind of kinds) {
    expect(findTool(kind)).toBeDefined()
    expect(findTool(kind)).toBe(findTool(toolName(kind)))
  }
  for (const name of ['', 'toString', '__proto__', 'MCPToolDefinition', 'bash'])
    expect(findTool(name)).toBeUndefined()
})

test('each tool is called by its registry name, and described by a text and a schema', async () => {
  for (const [name, open] of registry) {
    const tools = await open(fixtures.context, {})
    if (openKinds.includes(name)) continue
    if (name !== 'browser_tool_set') expect(tools.map((tool) => tool.name)).toEqual([name])
    else expect(tools).toHaveLength(14)
    for (const tool of tools) {
      expect(toolDefinition.safeParse(tool.definition).success).toBe(true)
      expect(tool.definition.description?.length).toBeGreaterThan(20)
      expect(tool.parameters).toMatchObject({ type: 'object' })
      await tool.close?.()
    }
  }
})

test('tools come in the order of their names, each once, with the defaults at the end', async () => {
  const tools = await openTools({
    specs: toolSpecs('grep', 'FileEditorTool', 'file_editor', 'glob', 'think'),
    defaults,
    context: fixtures.context,
  })
  expect([...tools.keys()]).toEqual(['grep', 'file_editor', 'glob', 'think', 'finish'])
})

test('a filter leaves out what it does not match, but no default; tools from elsewhere come after the named', async () => {
  const other: Tool = {
    name: 'other_tool',
    definition: { kind: 'MCPToolDefinition' },
    parameters: {},
    parse: () => ({ error: '' }),
    resources: () => [],
    run: async () => ({ kind: 'FinishObservation', content: [], is_error: false }),
  }
  const open = (filter: RegExp) =>
    openTools({
      specs: toolSpecs('glob', 'grep'),
      defaults,
      context: fixtures.context,
      filter,
      extra: [other, { ...other, name: 'glob' }, { ...other, name: 'hidden' }],
    })
  for (const filter of [/^(g|other)/, /^(g|other)/g]) {
    const tools = await open(filter)
    expect([...tools.keys()]).toEqual(['glob', 'grep', 'other_tool', 'finish', 'think'])
    expect(tools.get('glob')?.definition.kind).toBe('GlobTool')
  }
})

test('browser tools that are named one by one share one browser', async () => {
  const tools = await openTools({
    specs: toolSpecs('browser_click', 'BrowserNavigateTool', 'browser_tool_set'),
    defaults: [],
    context: fixtures.context,
  })
  expect([...tools.keys()].slice(0, 2)).toEqual(['browser_click', 'browser_navigate'])
  expect(tools.size).toBe(14)
  await close(tools)
})

test('an unknown name is the mistake of the caller, with its place', async () => {
  const options = { defaults, context: fixtures.context }
  const error = await openTools({ ...options, specs: toolSpecs('glob', 'nothing') }).catch(
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(Problem)
  expect(error).toMatchObject({ code: 'invalid', issues: [{ loc: ['tools', 1, 'name'] }] })
  await expect(openTools({ specs: [], defaults: ['X'], context: fixtures.context })).rejects.toThrow(Problem)
})

test('the usable tools are those of the registry, with the browser tools all or none', async () => {
  const usable = await availableToolNames()
  const others = toolNames().filter((name) => !name.startsWith('browser'))
  expect([others, toolNames()]).toContainEqual(usable)
})

test('finish repeats its message and think says that it was heard', async () => {
  const tools = await openTools({ specs: [], defaults, context: fixtures.context })
  const [finish, think] = [tools.get('finish'), tools.get('think')]
  if (finish === undefined || think === undefined) throw new Error('a default is missing')
  expect(await fixtures.run(finish, 'FinishObservation', { message: 'Done.' })).toMatchObject({
    outputText: 'Done.',
  })
  expect((await fixtures.run(think, 'ThinkObservation', { thought: 't' })).outputText).toBe(
    'Your thought has been logged.',
  )
  for (const tool of [finish, think]) expect(tool.resources({ kind: 'ThinkAction', thought: '' })).toEqual([])
})

test('the registry loads no tool, and no library of one', () => {
  const script = `
    import { registerHooks } from 'node:module'
    const seen = []
    const resolve = (name, context, next) => {
      const found = next(name, context)
      seen.push(found.url)
      return found
    }
    registerHooks({ resolve })
    await import(${JSON.stringify(join(import.meta.dirname, 'registry.ts'))})
    console.log(JSON.stringify(seen))`
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  const modules: string[] = JSON.parse(out)
  expect(modules.filter((url) => url.includes('/agent/src/')).map((url) => url.replace(/.*\//, ''))).toEqual([
    'registry.ts',
    // `/server_info` needs it, also when no file can be opened.
    'find-browser.ts',
  ])
  expect(modules.filter((url) => /playwright|node-pty|unbash|ripgrep\//.test(url))).toEqual([])
})

/** Names of the parameters without a description, those within lists and objects too. */
function undescribed(schema: unknown, path: string): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const { properties = {}, items }: { readonly properties?: object; readonly items?: unknown } = schema
  return [
    ...undescribed(items, path),
    ...Object.entries(properties).flatMap(([name, member]) => [
      ...(typeof member.description === 'string' && member.description !== '' ? [] : [`${path}.${name}`]),
      ...undescribed(member, `${path}.${name}`),
    ]),
  ]
}

test('each parameter of each tool has a description', async () => {
  const { context } = fixtures
  const missing: string[] = []
  for (const [name, open] of registry) {
    const tools = await open(context, {})
    for (const tool of tools) {
      missing.push(...undescribed(tool.parameters, tool.name))
      expect(tool.definition.description, name).toMatch(/\S/)
      await tool.close?.()
    }
  }
  expect([...new Set(missing)]).toEqual([])
})
