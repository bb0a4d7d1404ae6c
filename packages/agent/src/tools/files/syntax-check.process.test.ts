import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { beforeEach, expect, test, vi } from 'vitest'
import { Workspace } from '../../workspace/workspace.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openEdit, openWriteFile } from './edit.ts'
import { openFileEditor } from './file-editor.ts'
import { brokenSyntax } from './syntax-check.ts'

// Each parser is asked again until it answers in time.
vi.setConfig({ testTimeout: 240_000 })

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  return () => fixtures[Symbol.asyncDispose]()
})

const check = (path: string, before: string | undefined, after: string) =>
  brokenSyntax(path, { before, after }, fixtures.context.workspace)

/** With a PATH of the system, or with that of this process. */
function isInstalled(command: string, path = process.env.PATH ?? ''): boolean {
  try {
    execFileSync('bash', ['-c', `${command} </dev/null`], {
      env: { ...process.env, PATH: path },
      stdio: 'ignore',
    })
    return true
  } catch {
    return false
  }
}
const hasPython = isInstalled("python3 -c ''", '/usr/local/bin:/usr/bin:/bin')

/** A parser on a loaded machine may not answer in time; then nothing is said, and the check is repeated. */
async function firstIssue(path: string, before: string | undefined, after: string): Promise<string> {
  for (let round = 0; round < 30; round++) {
    const issue = await check(path, before, after)
    if (issue !== '') return issue
  }
  return ''
}

const broken: [string, string, string, RegExp][] = [
  ['a.json', '{"a": 1}', '{"a": 1,}', /a\.json is broken now: .*JSON/],
  ['a.yaml', 'a: 1\nb: 2\n', 'a: 1\n b: 2\n', /line 2|line 1/],
  ['a.ts', 'const a: number = 1\n', 'const a: number = 1\nconst b = (\n\n', /is broken now: .*xpected/],
  ['a.js', 'f()\n', 'f(\n', /is broken now/],
  ['a.sh', 'if true; then ls; fi\n', 'if true; then ls\n', /line 2: syntax error/],
]
test.each(broken)('%s: what a change broke is said', async (name, before, after, expected) => {
  expect(await firstIssue(name, before, after)).toMatch(expected)
  expect(await firstIssue(name, undefined, after)).toMatch(expected)
  expect(await check(name, after, before)).toBe('')
  expect(await check(name, after, after)).toBe('')
})

test.skipIf(!hasPython)('a.py: what a change broke is said with its line', async () => {
  const before = 'if a:\n\tb()\n'
  expect(await firstIssue('a.py', before, `${before}        c()\n`)).toMatch(/line 3: .*tab|line 3/)
  expect(await check('a.py', 'f(', 'g(')).toBe('')
})

/** With the programs of this machine; the fixtures know only those of the system. */
async function checkInstalled(path: string, before: string | undefined, after: string, rounds = 30) {
  const env = Object.fromEntries(['PATH', 'HOME'].map((name) => [name, process.env[name] ?? '']))
  await using workspace = await Workspace.open({ directory: fixtures.directory, env })
  for (let round = 0; round < rounds; round++) {
    const issue = await brokenSyntax(path, { before, after }, workspace)
    if (issue !== '') return issue
  }
  return ''
}

test.skipIf(!isInstalled('gofmt -l'))('a.go: what a change broke is said with its line', async () => {
  const before = 'package main\n\nfunc main() {\n\tx := 1\n\t_ = x\n}\n'
  const after = before.replace('x := 1', 'x := (')
  expect(await checkInstalled('a.go', before, after)).toMatch(/a\.go is broken now: line [45]: .*expected/)
  expect(await checkInstalled('a.go', undefined, after)).toMatch(/broken now/)
  expect(await checkInstalled('a.go', after, after, 1)).toBe('')
  expect(await checkInstalled('a.go', after, before, 1)).toBe('')
})

test.skipIf(!isInstalled('rustfmt'))('a.rs: what a change broke is said with its line', async () => {
  const before = 'mod other;\n\nfn main() {\n  let x   = other::f();\n}\n'
  const after = before.replace('other::f()', '')
  // rustup would install it.
  await writeFile(fixtures.path('rust-toolchain.toml'), '[toolchain]\nchannel = "0.0.1"\n')
  expect(await checkInstalled('a.rs', before, after)).toMatch(/a\.rs is broken now: line 4: expected expr/)
  expect(await checkInstalled('a.rs', after, after, 1)).toBe('')
  expect(await checkInstalled('a.rs', after, before, 1)).toBe('')
})

test.each([
  ['a.txt', '{'],
  ['tsconfig.json', '{"a": 1,}'],
  ['a.json', '// comment\n{"a": 1}'],
  ['a.json', ''],
  ['a.yml', 'a: {{ .Values.a }}\n b: 1'],
  ['a.ts', 'enum A { x }\n@dec class B { constructor(private a: string) {} }\n'],
  ['a.js', 'export const A = () => <div>x</div>\n'],
  ['a.json', `{"a": "${'x'.repeat(500_000)}"`],
  ['a.sh', '#!/usr/bin/env zsh\nif (( ; then'],
])('%s with %.40s is not called broken', async (name, after) => {
  expect(await check(name, undefined, after)).toBe('')
})

test('a file of the workspace is not loaded by the parser', async () => {
  await writeFile(fixtures.path('ast.py'), 'raise SystemExit(1)')
  await writeFile(fixtures.path('module.js'), 'process.exit(1)')
  if (hasPython) expect(await firstIssue('a.py', undefined, 'f(')).toMatch(/line 1/)
  expect(await firstIssue('a.ts', undefined, 'f(')).toMatch(/broken/)
})

test('every tool that writes a file says what it broke', async () => {
  const path = fixtures.path('a.json')
  const editor = await fixtures.tool(openFileEditor)
  const create = { command: 'create', path, file_text: '{"a": 1' }
  expect((await fixtures.run(editor, 'FileEditorObservation', create)).outputText).toMatch(/broken now/)
  await writeFile(path, '{"a": 1}')
  const replace = { command: 'str_replace', path, old_str: '1}', new_str: '2' }
  const edited = await fixtures.run(editor, 'FileEditorObservation', replace)
  expect(edited).toMatchObject({ is_error: false, new_content: '{"a": 2' })
  expect(edited.outputText).toMatch(/broken now/)
  await writeFile(path, '{"a": 1}')
  const edit = await fixtures.tool(openEdit)
  const args = { file_path: path, old_string: '1}', new_string: '2' }
  expect((await fixtures.run(edit, 'EditObservation', args)).outputText).toMatch(/broken now/)
  const write = await fixtures.tool(openWriteFile)
  await writeFile(path, '{"a": 1}')
  const content = { file_path: path, content: '{"a": ' }
  expect((await fixtures.run(write, 'WriteFileObservation', content)).outputText).toMatch(/broken now/)
})
