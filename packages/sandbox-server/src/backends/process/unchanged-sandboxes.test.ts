import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { findProcess } from './host/processes.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import { readStamp, UnchangedSandboxes } from './unchanged-sandboxes.ts'

/** Of this test: longer than a tick of a file system's clock. */
const settledMs = 30
const running = { id: 'one', epoch: 'e', state: 'running', addresses: {}, workingDir: undefined } as const

/** A sandbox as its files, a supervisor, a socket and a freezer show it. */
async function openSandbox() {
  const directory = temporaryDirectory()
  const paths = sandboxPaths(directory.path, 'one')
  const [group, socket] = [join(directory.path, 'group'), join(directory.path, 's.sock')]
  for (const folder of [paths.root, group]) mkdirSync(folder)
  writeFileSync(paths.record, '{"version":1}\n')
  const freezer = join(group, 'freezer.state')
  writeFileSync(freezer, 'THAWED\n')
  const listener = createServer().listen(socket)
  await once(listener, 'listening')
  const child: ChildProcess = spawn('sleep', ['60'])
  await once(child, 'spawn')
  const supervisor = must(await findProcess(must(child.pid, 'a pid')), 'a process')
  return {
    paths,
    socket,
    freezer,
    child,
    finding: { observed: running, supervisor, socket, groups: [join(directory.path, 'none'), group] },
    [Symbol.dispose]: () => {
      child.kill('SIGKILL')
      listener.close()
      directory[Symbol.dispose]()
    },
  }
}

type TestSandbox = Awaited<ReturnType<typeof openSandbox>>

const changes: Readonly<Record<string, (sandbox: TestSandbox) => unknown>> = {
  'a file of a start, an exit or a measurement is new': ({ paths }) => writeFileSync(paths.thawing, ''),
  'its record is replaced': ({ paths }) => {
    writeFileSync(`${paths.record}.new`, '{"version":1}\n')
    renameSync(`${paths.record}.new`, paths.record)
  },
  'its record is damaged in place': ({ paths }) => writeFileSync(paths.record, '{"version":2}\n'),
  'its record is gone': ({ paths }) => rmSync(paths.record),
  'its folder is gone': ({ paths }) => rmSync(paths.root, { recursive: true }),
  'its folder is another one': ({ paths }) => {
    const text = readFileSync(paths.record)
    rmSync(paths.root, { recursive: true })
    mkdirSync(paths.root)
    writeFileSync(paths.record, text)
  },
  'its supervisor has ended': async ({ child }) => {
    child.kill('SIGKILL')
    await once(child, 'exit')
  },
  'its socket is gone': ({ socket }) => rmSync(socket),
  'its socket is a file': ({ socket }) => {
    rmSync(socket)
    writeFileSync(socket, '')
  },
  'its freezer is gone': ({ freezer }) => rmSync(freezer),
}

test.skipIf(process.platform !== 'linux').each(Object.keys(changes))(
  'it is looked at as a whole when %s',
  async (name) => {
    using sandbox = await openSandbox()
    const unchanged = new UnchangedSandboxes(settledMs)
    await sleep(settledMs * 2)
    const { paths, finding } = sandbox
    expect(unchanged.find('one', paths)).toBeUndefined()
    unchanged.remember('one', paths, readStamp(paths), finding)
    expect(unchanged.find('one', paths)).toEqual(running)
    writeFileSync(sandbox.freezer, 'FROZEN\n')
    expect(unchanged.find('one', paths)).toEqual({ ...running, state: 'paused' })
    writeFileSync(sandbox.freezer, 'THAWED\n')
    expect(unchanged.find('one', paths)).toEqual(running)
    await changes[name]?.(sandbox)
    expect(unchanged.find('one', paths)).toBeUndefined()
  },
)

test.skipIf(process.platform !== 'linux')(
  'nothing is kept of a folder that changes during a look, or just before it',
  async () => {
    using sandbox = await openSandbox()
    const { paths, finding } = sandbox
    const unchanged = new UnchangedSandboxes(settledMs)
    writeFileSync(paths.thawing, '')
    unchanged.remember('one', paths, readStamp(paths), finding)
    expect(unchanged.find('one', paths)).toBeUndefined()
    await sleep(settledMs * 2)
    const before = readStamp(paths)
    rmSync(paths.thawing)
    unchanged.remember('one', paths, before, finding)
    expect(unchanged.find('one', paths)).toBeUndefined()
    await sleep(settledMs * 2)
    unchanged.remember('one', paths, readStamp(paths), finding)
    unchanged.retain(['one'])
    expect(unchanged.find('one', paths)).toEqual(running)
    unchanged.retain([])
    expect(unchanged.find('one', paths)).toBeUndefined()
  },
)
