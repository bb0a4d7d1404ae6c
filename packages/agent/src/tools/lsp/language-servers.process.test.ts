import { randomUUID } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, realpath, symlink, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ProgramFolder } from '../../workspace/program-folder.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { openEdit } from '../files/edit.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { LanguageServer } from './language-server.ts'
import { LanguageServers } from './language-servers.ts'

vi.setConfig({ testTimeout: 180_000 })

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
})
afterEach(() => fixtures[Symbol.asyncDispose]())

const scripted = join(import.meta.dirname, 'testing/scripted-server.mjs')

/** A workspace whose PATH has a program of this name, which runs a command line. */
async function install(name: string, line: string, env: Record<string, string> = {}, folder = 'bin') {
  const directory = join(fixtures.outside, folder)
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, name), `#!/bin/sh\nexec ${line}\n`)
  await chmod(join(directory, name), 0o755)
  return await Workspace.open({
    directory: fixtures.directory,
    env: { PATH: `${directory}:${dirname(process.execPath)}:/usr/bin:/bin`, ...env },
  })
}

const waitMs = 60_000
const node = `${process.execPath} ${scripted}`

test.each(['publish', 'pull'])(
  '%s: errors that an edit brings are told, older ones and warnings are not',
  async (mode) => {
    await using workspace = await install('pyright-langserver', node, { LSP_MODE: mode })
    const servers = new LanguageServers(workspace, { waitMs })
    const before = 'a\nwrong one\n'
    const first = { before, after: `top\n${before}wrong two\ndoubtful\n` }
    expect(await servers.newErrors('a.py', first)).toBe(
      '\n[New errors in a.py, found by pyright-langserver:\n- line 4: Not so: wrong two]',
    )
    expect(await servers.newErrors('a.py', { before: first.after, after: 'wrong one\n' })).toBe('')
    expect(await servers.newErrors('b.py', { before: undefined, after: 'wrong\n'.repeat(12) })).toMatch(
      /(\n- line \d+: Not so: wrong){8}\n- and 4 more\]$/,
    )
    expect(await servers.newErrors('a.txt', { before: undefined, after: 'wrong' })).toBe('')
  },
)

test.each(['silent', 'exit', 'garbage'])(
  'a server that is %s holds up no edit and ends none',
  async (mode) => {
    await using workspace = await install('pyright-langserver', node, { LSP_MODE: mode })
    const servers = new LanguageServers(workspace, {
      waitMs: mode === 'silent' ? 300 : waitMs,
    })
    for (let round = 0; round < 2; round++)
      expect(await servers.newErrors('a.py', { before: undefined, after: 'wrong' })).toBe('')
  },
)

test('a server that does not answer costs the later edits less, and then nothing', async () => {
  await using workspace = await install('pyright-langserver', node, { LSP_MODE: 'silent' })
  const waits: number[] = []
  const clock = { sleep: async (ms: number) => void waits.push(ms) }
  const servers = new LanguageServers(workspace, { waitMs: 800, clock })
  for (let round = 0; round < 12; round++)
    expect(await servers.newErrors('a.py', { before: undefined, after: 'wrong' })).toBe('')
  expect(waits).toEqual([800, ...Array(9).fill(100)])
})

test('a program of the workspace is no language server, and without one nothing is said', async () => {
  const bin = fixtures.path('node_modules/.bin')
  await mkdir(bin, { recursive: true })
  await writeFile(join(bin, 'pyright-langserver'), `#!/bin/sh\ntouch ${fixtures.path('ran')}\n`, {
    mode: 0o755,
  })
  for (const path of [bin, 'node_modules/.bin', '']) {
    const env = { PATH: `${path}:${fixtures.outside}` }
    await using workspace = await Workspace.open({ directory: fixtures.directory, env })
    const servers = new LanguageServers(workspace, { waitMs })
    expect(await servers.newErrors('a.py', { before: undefined, after: 'wrong' })).toBe('')
  }
  // As `npm link` leaves it.
  await symlink(join(bin, 'pyright-langserver'), join(fixtures.outside, 'pyright-langserver'))
  const env = { PATH: `${fixtures.outside}:/usr/bin:/bin` }
  await using workspace = await Workspace.open({ directory: fixtures.directory, env })
  const servers = new LanguageServers(workspace, { waitMs })
  expect(await servers.newErrors('a.py', { before: undefined, after: 'wrong' })).toBe('')
  expect(await readdir(fixtures.directory)).not.toContain('ran')
})

test('one server serves all edits of a language, and ends with the workspace', async () => {
  const pids = join(fixtures.outside, 'pids')
  const workspace = await install('pyright-langserver', `sh -c 'echo $$ >> ${pids}; exec ${node}'`)
  const servers = new LanguageServers(workspace, { waitMs })
  const change = { before: undefined, after: 'wrong' }
  await Promise.all(['a.py', 'b.py', 'c.pyi'].map((path) => servers.newErrors(path, change)))
  const [pid, ...others] = (await readFile(pids, 'utf8')).trim().split('\n')
  expect(others).toEqual([])
  await workspace[Symbol.asyncDispose]()
  await expect
    .poll(async () => await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => 'gone'), { timeout: 60_000 })
    .toMatch(/^gone$|\) [ZX] /)
})

test('a server starts in an empty folder, and knows the workspace', async () => {
  await writeFile(fixtures.path('helper'), '')
  const seen = join(fixtures.outside, 'seen')
  const line = `sh -c 'pwd > ${seen}; ls -A >> ${seen}; echo "$SLIPWAY_WORKSPACE" >> ${seen}; exec ${node}'`
  await using workspace = await install('pyright-langserver', line)
  const servers = new LanguageServers(workspace, { waitMs })
  expect(await servers.newErrors('a.py', { before: undefined, after: 'wrong' })).toContain('Not so')
  const [place, ...rest] = (await readFile(seen, 'utf8')).trim().split('\n')
  expect(place).toMatch(/\/slipway\/programs\/unmarked\/run-\w+$/)
  expect(rest).toEqual([await realpath(fixtures.directory)])
})

test('a server that cannot be started leaves no folder', async () => {
  const marker = `test-${randomUUID()}`
  const workspace = await install('pyright-langserver', node, { SLIPWAY_SERVER: marker })
  await workspace[Symbol.asyncDispose]()
  const command = { program: 'pyright-langserver', args: [] }
  await expect(LanguageServer.start(workspace, command)).rejects.toThrow('closed')
  const folder = join(homedir(), '.cache/slipway/programs', marker)
  expect(await readdir(folder)).toEqual([])
  await ProgramFolder.removeLeftovers(workspace.env)
  await expect(readdir(folder)).rejects.toThrow('ENOENT')
})

test('the TypeScript of a repository does not run: the server gets its own, or does not start', async () => {
  const lib = fixtures.path('node_modules/typescript/lib')
  await mkdir(lib, { recursive: true })
  await writeFile(join(lib, 'tsserver.js'), '')
  const change = { before: undefined, after: 'wrong' }
  const seen = join(fixtures.outside, 'seen')
  // As the real one does, the scripted server notes what it is told.
  await using workspace = await install('typescript-language-server', `sh -c 'tee ${seen} | ${node}'`)
  const own = join(fixtures.outside, 'bin/node_modules/typescript/lib')
  for (const hasOwn of [false, true]) {
    if (hasOwn) {
      await mkdir(own, { recursive: true })
      await writeFile(join(own, 'tsserver.js'), '')
    }
    const servers = new LanguageServers(workspace, { waitMs })
    expect(await servers.newErrors('a.ts', change)).toEqual(
      hasOwn ? expect.stringContaining('Not so: wrong') : '',
    )
  }
  expect(await readFile(seen, 'utf8')).toContain(
    `"tsserver":{"path":"${await realpath(join(own, 'tsserver.js'))}"}`,
  )
})

test.each([
  ['typescript-language-server', 'a.ts', false],
  ['tsgo', 'a.ts', true],
  ['pyright-langserver', 'a.py', true],
  ['basedpyright-langserver', 'a.py', true],
  ['pylsp', 'a.py', false],
  ['gopls', 'a.go', true],
  ['rust-analyzer', 'a.rs', false],
  ['clangd', 'a.c', true],
])('outside of a sandbox, %s starts for %s: %s', async (name, file, starts) => {
  const seen = join(fixtures.outside, 'seen')
  await using workspace = await install(name, `sh -c 'echo "$GOTOOLCHAIN" > ${seen}; exec ${node}'`)
  const servers = new LanguageServers(workspace, { waitMs })
  const told = await servers.newErrors(file, { before: undefined, after: 'wrong' })
  expect(told).toEqual(starts ? expect.stringContaining('Not so: wrong') : '')
  const toolchain = await readFile(seen, 'utf8').catch(() => undefined)
  expect(toolchain).toBe(starts ? (name === 'gopls' ? 'local\n' : '\n') : undefined)
})

test('TypeScript itself finds the errors of an edit, also those in types of other files', async () => {
  const tsc = join(import.meta.dirname, '../../../../../node_modules/typescript/bin/tsc')
  await using workspace = await install('tsgo', `${process.execPath} ${tsc} --lsp --stdio`)
  await writeFile(fixtures.path('tsconfig.json'), '{"compilerOptions": {"strict": true}}')
  await writeFile(fixtures.path('sum.ts'), 'export const sum = (a: number, b: number) => a + b\n')
  const text = "import { sum } from './sum.ts'\nexport const three = sum(1, 2)\n"
  await writeFile(fixtures.path('use.ts'), text)
  const languageServers = new LanguageServers(workspace, { waitMs })
  const tool = await Promise.resolve(openEdit({ ...fixtures.context, workspace, languageServers }, {}))
  if (Array.isArray(tool)) throw new Error('one tool')
  const edit = (old_string: string, new_string: string) =>
    fixtures.run(tool as never, 'EditObservation', { file_path: 'use.ts', old_string, new_string })
  const wrong = await edit('sum(1, 2)', "sum(1, '2')")
  expect(wrong.outputText).toContain('[New errors in use.ts, found by tsgo:\n- line 2: Argument of type')
  expect((await edit("'2'", '3')).outputText).not.toContain('New errors')
})
