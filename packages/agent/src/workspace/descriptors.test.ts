import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Terminal, Workspace } from './workspace.ts'

const env = { PATH: process.env.PATH ?? '/usr/bin:/bin' }
const listDescriptors = 'ls -l /proc/self/fd'
const testOnLinux = test.skipIf(process.platform !== 'linux')

let directory: string
let workspace: Workspace
let other: Terminal
/** What this process itself was started with, and passes on. */
let ambient: readonly string[] = []

/** A terminal of another conversation is open while every kind of child starts. */
beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-descriptors-')))
  workspace = await Workspace.open({ directory, env })
  ambient = inherited(String((await workspace.run('sh', ['-c', listDescriptors])).stdout))
  other = await workspace.openTerminal('sh', [], { columns: 80, rows: 24 })
})

afterAll(async () => {
  await workspace[Symbol.asyncDispose]()
  await rm(directory, { recursive: true })
})

/** Descriptors above standard error that a child holds, as `number target`. */
function inherited(output: string): readonly string[] {
  const all = [...output.matchAll(/ (\d+) -> ([^\r\n]*)/g)].map(
    ([, fd, target]) => `${fd} ${target?.replaceAll("'", '')}`,
  )
  expect(all.length, output).toBeGreaterThan(2)
  const isOwn = (each: string) => / \/proc\/\d+\/fd$/.test(each) || ambient.includes(each)
  return all.filter((each) => Number.parseInt(each, 10) > 2 && !isOwn(each))
}

testOnLinux('a program inherits no descriptor of the server', async () => {
  const { stdout } = await workspace.run('sh', ['-c', listDescriptors])
  expect(inherited(String(stdout))).toEqual([])
})

testOnLinux('a program with streamed output inherits no descriptor of the server', async () => {
  let output = ''
  await workspace.runStreaming('sh', ['-c', listDescriptors], {
    name: 'descriptors',
    onOutput: (_, bytes) => {
      output += String(bytes)
    },
  })
  expect(inherited(output)).toEqual([])
})

testOnLinux('a long-running program inherits no descriptor of the server', async () => {
  const child = workspace.spawn('sh', ['-c', listDescriptors])
  const chunks = await Array.fromAsync(child.stdout)
  expect(inherited(chunks.join(''))).toEqual([])
})

testOnLinux("a terminal inherits no descriptor of the server, another terminal's least of all", async () => {
  const terminal = await workspace.openTerminal('sh', ['-c', `${listDescriptors}; sleep 60`], {
    columns: 200,
    rows: 24,
  })
  let output = ''
  terminal.pty.onData((data) => {
    output += String(data)
  })
  await expect.poll(() => / 3 -> [^\n]*\n/.test(output)).toBe(true)
  await terminal.close()
  expect(inherited(output)).toEqual([])
  expect(output).not.toContain('ptmx')
  expect(other.pty.pid).toBeGreaterThan(0)
})
