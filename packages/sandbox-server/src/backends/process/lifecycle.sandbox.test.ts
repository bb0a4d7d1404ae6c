import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive, waitForValue } from '../backend.contract.ts'
import type { Backend, ObservedSandbox } from '../backend.ts'
import { ProcessBackend, type ProcessBackendOptions } from './process-backend.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import { findSupervisor } from './supervisor.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

const minuteMs = 60_000
/** Four kills each, and for each kind: fewer than of a database, which comes back sooner. */
const crashRounds = Math.min(8, Math.ceil(Number(process.env.SLIPWAY_CRASH_ROUNDS ?? 3) / 2))

/** Kinds of a host, from all that it can do to nothing. By day the first and the last. */
const allKinds: readonly (readonly [name: string, options: Partial<ProcessBackendOptions>])[] = [
  ['jail and limits', {}],
  ['jail', { limit: 'none' }],
  ['limits', { isolate: 'none' }],
  ['a plain process', { isolate: 'none', limit: 'none' }],
]
const kinds =
  process.env.SLIPWAY_NIGHTLY === '1' ? allKinds : [...allKinds.slice(0, 1), ...allKinds.slice(-1)]

async function open(options: Partial<ProcessBackendOptions> = {}, diskBytes?: number) {
  const at = await openProcessBackend(options, diskBytes === undefined ? {} : { diskBytes })
  onTestFinished(() => at.close())
  return at
}

function stopped(backend: Backend, id: string): Promise<ObservedSandbox> {
  return waitForValue(async () => {
    const now = await observe(backend, id)
    return now.state === 'stopped' ? now : undefined
  }, 'it has stopped')
}

/** A server of another process that does one thing with a sandbox. */
function server(
  directory: string,
  ledgerId: string,
  options: object,
  verb: string,
  order: object,
): ChildProcess {
  const program = `
    import { ProcessBackend } from ${JSON.stringify(join(import.meta.dirname, 'process-backend.ts'))}
    const [given, verb, order] = process.argv.slice(1).map((text) => { try { return JSON.parse(text) } catch { return text } })
    const backend = new ProcessBackend({ agentCommand: [], log: () => {}, ...given })
    await backend[verb](verb === 'pause' || verb === 'remove' ? order.id : order)
    console.log('done')`
  const backendOptions = { directory, ledgerId, readable: [process.execPath], ...options }
  const args = [
    '--input-type=module',
    '-e',
    program,
    JSON.stringify(backendOptions),
    verb,
    JSON.stringify(order),
  ]
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
}

for (const [name, options] of kinds.filter(([, { limit, isolate }]) => limit === isolate))
  test(`${name}: a copy of its folder, as of a backup, leaves it alone and starts beside it`, {
    timeout: 3 * minuteMs,
  }, async () => {
    const at = await open(options)
    const order = at.createConfig({ command: at.node(probeScript) })
    await at.backend.start(order)
    const { epoch } = await waitAlive(at.backend, order.id)
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-copy-')))
    await cp(at.directory, directory, {
      recursive: true,
      filter: async (path) => statSync(path).isDirectory() || statSync(path).isFile(),
    })
    const copy = new ProcessBackend({
      ...{ directory, ledgerId: at.ledgerId, agentCommand: [], readable: [process.execPath], log: () => {} },
      ...options,
    })
    onTestFinished(async () => {
      await copy.remove(order.id)
      await rm(directory, { recursive: true, force: true })
    })
    expect(await observe(copy, order.id)).toMatchObject({
      state: 'stopped',
      detail: expect.stringContaining('restored or copied'),
    })
    await copy.pause(order.id)
    await copy.stop(order.id)
    await copy.resume(order)
    await waitAlive(copy, order.id)
    expect(await waitAlive(at.backend, order.id)).toMatchObject({ state: 'running', epoch })
    await copy.remove(order.id)
    expect(await waitAlive(at.backend, order.id)).toMatchObject({ state: 'running', epoch })
  })

for (const [name, options] of kinds) {
  test(`${name}: a server that is killed at any moment leaves nothing that the next one does not find`, {
    timeout: 10 * minuteMs,
  }, async () => {
    const at = await open(options)
    for (let round = 0; round < crashRounds; round++) {
      const order = at.createConfig({ command: at.node(probeScript) })
      const place = sandboxPaths(at.directory, order.id)
      for (const verb of ['start', 'pause', 'resume', 'remove']) {
        const child = server(at.directory, at.ledgerId, options, verb, order)
        const ended = once(child, 'exit')
        const begun =
          verb === 'start'
            ? waitForValue(
                async () => existsSync(place.root) || child.exitCode !== null || undefined,
                'a begin',
              )
            : undefined
        await begun
        await new Promise((resolve) => setTimeout(resolve, Math.random() * (verb === 'start' ? 120 : 350)))
        child.kill('SIGKILL')
        await ended
        const next = await at.reopen()
        const [before] = await next.list(order.id)
        if (verb === 'remove') {
          await next.remove(order.id)
          expect(await at.listRemains(order.id)).toEqual([])
          continue
        }
        // Whatever it was in the middle of, it can be finished, once or twice.
        if (before?.state === 'starting')
          await waitForValue(
            async () => ((await observe(next, order.id)).state !== 'starting' ? true : undefined),
            'it is known',
          )
        await next.resume(order)
        await waitAlive(next, order.id)
        const all = readdirSync(place.root).filter((each) => each.startsWith('pid.'))
        const running = await Promise.all(all.map((each) => findSupervisor(place, each.slice(4))))
        expect(running.filter((each) => each !== undefined)).toHaveLength(1)
      }
    }
  })

  test(`${name}: processes that it left behind do not outlive a new start or the removal`, {
    timeout: 3 * minuteMs,
  }, async () => {
    const at = await open(options)
    const leave = `
      const { spawn } = require('node:child_process')
      spawn('sh', ['-c', 'while :; do sleep 1; done'], { detached: true, stdio: 'inherit' }).unref()
      setTimeout(() => process.exit(9), 100)`
    const order = at.createConfig({ command: at.node(leave) })
    await at.backend.start(order)
    expect((await stopped(at.backend, order.id)).detail).toContain('9')
    await at.backend.start(order)
    await stopped(at.backend, order.id)
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
  })

  test(`${name}: without its supervisor it is stopped, and starts again`, {
    timeout: 3 * minuteMs,
  }, async () => {
    const at = await open(options)
    const order = at.createConfig({ command: at.node(probeScript) })
    await at.backend.start(order)
    const { epoch } = await waitAlive(at.backend, order.id)
    const supervisor = await findSupervisor(sandboxPaths(at.directory, order.id), epoch)
    process.kill(supervisor?.pid ?? Number.NaN, 'SIGKILL')
    expect((await stopped(at.backend, order.id)).detail).toContain('ended from outside')
    await at.backend.resume(order)
    await waitAlive(at.backend, order.id)
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
  })

  test(`${name}: folders that are deep, closed and full of links are removed, and no more than them`, {
    timeout: 3 * minuteMs,
  }, async () => {
    const at = await open(options, 32 << 20)
    const order = at.createConfig({ command: at.node(probeScript) })
    const outside = join(at.directory, 'outside')
    await mkdir(outside)
    await writeFile(join(outside, 'file'), 'x')
    await at.backend.start(order)
    await waitAlive(at.backend, order.id)
    const { result } = await runInside(
      at.backend,
      order.id,
      `const fs = require('node:fs')
       fs.symlinkSync(${JSON.stringify(outside)}, 'link')
       fs.writeFileSync('Ümlaut\\n-rf *', 'x')
       const previous = process.cwd()
       for (let i = 0; i < 60; i++) { fs.mkdirSync('d'.repeat(200)); process.chdir('d'.repeat(200)) }
       fs.writeFileSync('x', 'x')
       process.chdir(previous)
       fs.mkdirSync('closed'); fs.writeFileSync('closed/x', 'x'); fs.chmodSync('closed', 0)
       return 'made'`,
    )
    expect(result).toBe('made')
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('x')
  })
}

test('endless output fills no disk, and its end is stored', {
  timeout: 3 * minuteMs,
}, async () => {
  const at = await open()
  const script = `
    const line = 'x'.repeat(99) + '\\n'
    for (let i = 0; i < 60; i++) require('node:fs').writeSync(2, line.repeat(5000))
    require('node:fs').writeSync(2, 'the last line\\n')
    process.exit(1)`
  const order = at.createConfig({ command: at.node(script) })
  await at.backend.start(order)
  const { detail } = await stopped(at.backend, order.id)
  expect(detail).toMatch(/the last line$/)
  expect(detail?.length).toBeLessThan(2_200)
  const { root } = sandboxPaths(at.directory, order.id)
  const files = readdirSync(root).filter((name) => name.startsWith('output'))
  const sizes = files.map((name) => statSync(join(root, name)).size)
  expect(Math.max(...sizes)).toBeLessThanOrEqual((512 << 10) + (1 << 20))
  expect(files.length).toBeLessThanOrEqual(2)
})

test('a folder that is not ours is left alone, and nothing starts in its place', {
  timeout: 3 * minuteMs,
}, async () => {
  const at = await open()
  const addFolder = async (id: string, text: string | undefined) => {
    const root = join(at.directory, id)
    await mkdir(root, { recursive: true })
    await writeFile(join(root, 'file'), 'stored')
    if (text !== undefined) await writeFile(join(root, 'process.json'), text)
    return root
  }
  for (const [id, text] of [
    ['none', undefined],
    ['other', '{"version":1,"ledger":"other","id":"other"}'],
    ['renamed', `{"version":1,"ledger":"${at.ledgerId}","id":"before"}`],
  ] as const) {
    const root = await addFolder(id, text)
    await expect(at.backend.start(at.createConfig({ id }))).rejects.toThrow(/does not belong/)
    await at.backend.remove(id)
    await at.backend.pause(id)
    expect(await at.backend.list(id)).toEqual([])
    expect(await readFile(join(root, 'file'), 'utf8')).toBe('stored')
  }
  // Whether their processes run is not known.
  for (const [id, text] of [
    ['odd', 'not json'],
    ['newer', `{"version":2,"ledger":"${at.ledgerId}","id":"newer"}`],
  ] as const) {
    const root = await addFolder(id, text)
    const unreadable = `${join(root, 'process.json')} cannot be read`
    for (const verb of [
      () => at.backend.start(at.createConfig({ id })),
      () => at.backend.remove(id),
      () => at.backend.pause(id),
    ])
      await expect(verb()).rejects.toThrow(unreadable)
    expect(await at.backend.list(id)).toMatchObject([
      { state: 'broken', detail: expect.stringContaining(unreadable) },
    ])
    expect(await readFile(join(root, 'file'), 'utf8')).toBe('stored')
    await rm(root, { recursive: true })
  }
  expect(await at.backend.list()).toEqual([])
  for (const id of ['..', '.', '', 'a/b', '../x', 'A', '-a', 'a-', 'x'.repeat(64), 'a\0b', 'ü']) {
    await at.backend.remove(id)
    await expect(at.backend.start(at.createConfig({ id }))).rejects.toThrow(/is not an id/)
    await expect(at.backend.resume(at.createConfig({ id }))).rejects.toThrow(/is not an id/)
    expect(await at.backend.list(id)).toEqual([])
  }
})

test('after a start of the host everything is stopped, and starts again on its files', {
  timeout: 3 * minuteMs,
}, async () => {
  const at = await open({}, 32 << 20)
  const order = at.createConfig({ command: at.node(probeScript) })
  await at.backend.start(order)
  await waitAlive(at.backend, order.id)
  await runInside(at.backend, order.id, 'require("node:fs").writeFileSync("stored", "x")')
  await at.kill(order.id)
  await stopped(at.backend, order.id)
  const place = sandboxPaths(at.directory, order.id)
  const record = JSON.parse(await readFile(place.record, 'utf8'))
  // The number of its supervisor is that of another process by now.
  await writeFile(place.record, `${JSON.stringify({ ...record, bootId: 'another' })}\n`)
  await writeFile(place.pid(record.epoch), `${process.pid} ${readFileSync('/proc/self/stat', 'utf8')}`)
  const backend = await at.reopen()
  expect(await observe(backend, order.id)).toMatchObject({
    state: 'stopped',
    detail: 'The host was restarted',
  })
  await backend.pause(order.id)
  await backend.resume(order)
  await waitAlive(backend, order.id)
  expect(
    (await runInside(backend, order.id, 'return require("node:fs").readFileSync("stored", "utf8")')).result,
  ).toBe('x')
})

test('a socket in a folder with a long name is reached, and its short name goes with it', {
  timeout: 3 * minuteMs,
}, async (context) => {
  const outer = await open()
  const directory = join(outer.directory, 'a-folder-with-a-long-name')
  const at = await open({ directory })
  if ((await at.backend.isolation()).kind === 'none') context.skip('needs bubblewrap')
  const order = at.createConfig({ id: `x${'y'.repeat(61)}z`, command: at.node(probeScript), network: 'none' })
  await at.backend.start(order)
  await waitAlive(at.backend, order.id)
  expect(readdirSync(join(directory, '.s'))).toHaveLength(1)
  await at.backend.remove(order.id)
  expect(readdirSync(join(directory, '.s'))).toEqual([])
  const deep = await open({ directory: join(directory, 'z'.repeat(90)) })
  const again = deep.createConfig({ command: deep.node(probeScript), network: 'none' })
  await deep.backend.start(again)
  await waitAlive(deep.backend, again.id)
  await deep.backend.remove(again.id)
})
