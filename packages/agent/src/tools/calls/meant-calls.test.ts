import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openFinish } from '../core/builtin.ts'
import type { Tool } from '../core/tool.ts'
import { openEdit, openWriteFile } from '../files/edit.ts'
import { openFileEditor } from '../files/file-editor.ts'
import { openListDirectory, openReadFile } from '../files/read-file.ts'
import { openApplyPatch } from '../patch/apply-patch.ts'
import { openGlob } from '../search/glob.ts'
import { openGrep } from '../search/grep.ts'
import { openTaskTracker } from '../tasks/task-tracker.ts'
import { openTerminal } from '../terminal/terminal.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { asksToReplaceAll, parseToolCall } from './parse-call.ts'
import { callsOfOtherAgents } from './testing/calls-of-other-agents.ts'
import { carelessCalls } from './testing/careless-calls.ts'
import type { MalformedCall, Meant } from './testing/malformed-call.ts'

const source = 'const one = 1\nconst two = 2\n'
const edited = 'const one = 1\nconst two = 22\n'
const patch = '*** Begin Patch\n*** Update File: src/a.ts\n@@\n-const two = 2\n+const two = 22\n*** End Patch'

const malformedCalls = { ...callsOfOtherAgents, ...carelessCalls }

let fixtures: ToolFixtures
let tools: Record<MalformedCall[0], ReadonlyMap<string, Tool>>
const opened: Tool[] = []
beforeAll(async () => {
  fixtures = await ToolFixtures.open()
  const common = [openTerminal, openTaskTracker, openFinish, openGlob, openGrep]
  const shared = await Promise.all(common.map((factory) => fixtures.tool(factory)))
  const open = async (...factories: readonly Parameters<ToolFixtures['tool']>[0][]) => {
    const own = await Promise.all(factories.map((factory) => fixtures.tool(factory)))
    return new Map([...shared, ...own].map((tool) => [tool.name, tool]))
  }
  opened.push(...shared)
  tools = {
    editor: await open(openFileEditor),
    single: await open(openEdit, openWriteFile, openReadFile, openListDirectory),
    patch: await open(openApplyPatch),
  }
})
afterAll(async () => {
  for (const tool of opened) await tool.close?.()
  await fixtures[Symbol.asyncDispose]()
})

interface Seen {
  readonly output: string
  /** Texts of the workspace by path. */
  readonly files: Readonly<Record<string, string>>
}

const base = { 'notes.txt': 'alpha\n', 'src/a.ts': source }
const changed = (files: Readonly<Record<string, string>>) => (seen: Seen) =>
  JSON.stringify(seen.files) === JSON.stringify(files)
const says = (pattern: RegExp) => (seen: Seen) => changed(base)(seen) && pattern.test(seen.output)

const isDone: Readonly<Record<Meant, (seen: Seen) => boolean>> = {
  say: says(/^said\n.*Exit code 0/s),
  'say in src': says(/^said\n\[Exit code 0\. Working directory: \S*\/src\]/),
  view: says(/const one = 1\n.*const two = 2/),
  'view part': says(/^(?!.*const one).*const two = 2/s),
  list: says(/notes\.txt[\s\S]*src|src[\s\S]*notes\.txt/),
  grep: says(/a\.ts/),
  glob: says(/a\.ts/),
  plan: says(/one/),
  finish: says(/Done\./),
  edit: changed({ ...base, 'src/a.ts': edited }),
  patch: changed({ ...base, 'src/a.ts': edited }),
  'edit all': changed({ ...base, 'src/a.ts': source.replaceAll('const', 'let') }),
  insert: changed({ ...base, 'src/a.ts': source.replace('\n', '\nconst half = 0.5\n') }),
  create: changed({ 'd/new.txt': 'new\n', ...base }),
  rename: changed({ 'notes.txt': base['notes.txt'], 'src/b.ts': source }),
}

async function workspaceFiles(): Promise<Record<string, string>> {
  const entries = await readdir(fixtures.directory, { recursive: true, withFileTypes: true })
  const paths = entries.flatMap((entry) => (entry.isFile() ? [`${entry.parentPath}/${entry.name}`] : []))
  const texts = paths
    .sort()
    .map(async (path) => [path.slice(fixtures.directory.length + 1), await readFile(path, 'utf8')] as const)
  return Object.fromEntries(await Promise.all(texts))
}

async function reset(): Promise<void> {
  for (const name of await readdir(fixtures.directory))
    if (name !== 'src') await rm(fixtures.path(name), { recursive: true })
  await mkdir(fixtures.path('src'), { recursive: true })
  for (const name of await readdir(fixtures.path('src'))) await rm(fixtures.path('src', name))
  for (const [name, text] of Object.entries(base)) await writeFile(fixtures.path(name), text)
}

async function run(set: MalformedCall[0], name: string, json: string): Promise<string> {
  const read = parseToolCall({ id: 'c', name, arguments: json, origin: 'completion' }, tools[set])
  if (read.kind === 'error') return `refused: ${read.error}`
  const options = { replacesAll: asksToReplaceAll(read) }
  const { content } = await read.tool.run(read.action, new AbortController().signal, options)
  return content.map((block) => ('text' in block ? block.text : '')).join('\n')
}

/** The text as a model sends it, with its places filled. */
function argumentText(args: object | string): string {
  const fill = (text: string) => text.replaceAll('$W', () => fixtures.directory).replaceAll('$P', () => patch)
  if (typeof args === 'string') return fill(args)
  return JSON.stringify(args, (_, value) => (typeof value === 'string' ? fill(value) : value))
}

test.each(Object.entries(malformedCalls))('each call is done as it is meant: %s', async (_, calls) => {
  const failures: string[] = []
  for (const [set, name, args, meant] of calls) {
    await reset()
    if (meant.startsWith('say'))
      await run(set, 'terminal', JSON.stringify({ command: `cd ${fixtures.directory}` }))
    const output = await run(set, name, argumentText(args))
    if (!isDone[meant]({ output, files: await workspaceFiles() }))
      failures.push(`${set} ${name} ${argumentText(args)}: ${output.slice(0, 300)}`)
  }
  expect(failures).toEqual([])
})

test('there are enough calls', () => {
  expect(Object.values(malformedCalls).flat().length).toBeGreaterThanOrEqual(150)
})
