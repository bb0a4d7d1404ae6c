import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive, waitForValue } from '../backend.contract.ts'
import type { Resources } from '../backend.ts'
import { cgroupLimits, detectCgroupHierarchies } from './cgroups/cgroups.ts'
import { cgroupPaths } from './cgroups/sandbox-cgroups.ts'
import { listMountsBelow, unmountAllBelow } from './host/disk-image.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

const minuteMs = 60_000

/**
 * A running probe with small limits. Whether the host really has set them is looked up before anything tries
 * to break them; the test is skipped where this host cannot.
 */
async function startLimited(context: TestContext, resources: Resources) {
  const at = await openProcessBackend({ isolate: 'auto' })
  onTestFinished(() => at.close())
  const { enforced, notes } = await at.backend.isolation()
  for (const name of Object.keys(resources)) {
    if (!enforced.some((each) => each === name))
      context.skip(`${name} is not enforced on this host: ${notes.join(' ')}`)
  }
  const order = at.createConfig({ command: at.node(probeScript), resources })
  await at.backend.start(order)
  await waitAlive(at.backend, order.id)
  const hierarchies = await detectCgroupHierarchies()
  const cgroups = cgroupPaths(hierarchies, at.ledgerId, order.id)
  for (const [index, hierarchy] of hierarchies.entries()) {
    for (const { file, value, isOptional } of cgroupLimits(hierarchy, resources)) {
      if (!isOptional) expect(readFileSync(join(cgroups[index] ?? '', file), 'utf8').trim()).toBe(value)
    }
  }
  const place = sandboxPaths(at.directory, order.id)
  if (resources.diskBytes !== undefined) expect(await listMountsBelow(place.root)).toEqual([place.files])
  return { at, order, place, groups: cgroups, run: (code: string) => runInside(at.backend, order.id, code) }
}

test('a process that eats memory is ended at the limit, and the others continue', {
  timeout: 3 * minuteMs,
}, async (context) => {
  const { run, at, order } = await startLimited(context, { memoryBytes: 192 << 20 })
  const { result } = await run(`
    const { spawnSync } = require('node:child_process')
    const eat = 'const all = []; for (let i = 0; i < 60; i++) all.push(Buffer.alloc(8 << 20, 1)); console.log(all.length)'
    const { signal, stdout } = spawnSync(process.execPath, ['-e', eat], { encoding: 'utf8' })
    return { signal, stdout }`)
  expect(result).toEqual({ signal: 'SIGKILL', stdout: '' })
  await waitAlive(at.backend, order.id)
})

test('a program that uses too much memory is stopped, with the reason', {
  timeout: 3 * minuteMs,
}, async (context) => {
  const { run, at, order } = await startLimited(context, { memoryBytes: 128 << 20 })
  const eaten = run(
    'globalThis.all = []; for (let i = 0; i < 60; i++) globalThis.all.push(Buffer.alloc(8 << 20, 1))',
  )
  await expect(eaten).rejects.toThrow()
  const dead = await waitForValue(async () => {
    const now = await observe(at.backend, order.id)
    return now.state === 'stopped' ? now : undefined
  }, 'it has stopped')
  expect(dead.detail).toMatch(/SIGKILL after it had used up its memory/)
  await at.backend.resume(order)
  await waitAlive(at.backend, order.id)
})

test('a fork bomb ends at the limit of processes', { timeout: 3 * minuteMs }, async (context) => {
  const { run, at, order } = await startLimited(context, { maxProcesses: 50, memoryBytes: 256 << 20 })
  const { result } = await run(`
    const { spawnSync } = require('node:child_process')
    const bomb = 'i=0; while [ $i -lt 200 ]; do sleep 60 > /dev/null 2> /dev/null & i=$((i+1)); done; echo all'
    const { stdout, stderr } = spawnSync('sh', ['-c', bomb], { encoding: 'utf8', timeout: 20000 })
    const alive = require('node:fs').readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).length
    return { stdout, stderr: stderr.slice(0, 300), alive }`)
  expect(result).toMatchObject({ stderr: expect.stringMatching(/fork/i) })
  expect(result).not.toMatchObject({ stdout: expect.stringContaining('all') })
  expect(Number(Object(result).alive)).toBeLessThanOrEqual(50)
  // All of them are paused, continued and removed like anything else.
  await at.backend.pause(order.id)
  expect((await observe(at.backend, order.id)).state).toBe('paused')
  await at.backend.remove(order.id)
  expect(await at.listRemains(order.id)).toEqual([])
})

test('open files end at the limit', { timeout: 3 * minuteMs }, async (context) => {
  const { run } = await startLimited(context, { maxOpenFiles: 128 })
  const { result } = await run(`
    const fs = require('node:fs')
    const open = []
    try { for (let i = 0; i < 1000; i++) open.push(fs.openSync('/dev/null')) } catch (error) { return { code: error.code, count: open.length } }
    finally { for (const fd of open) fs.closeSync(fd) }`)
  expect(result).toMatchObject({ code: 'EMFILE' })
  expect(Number(Object(result).count)).toBeLessThan(128)
  const { result: core } = await run(
    `return require('node:child_process').spawnSync('sh', ['-c', 'ulimit -c'], { encoding: 'utf8' }).stdout`,
  )
  expect(core).toBe('0\n')
})

const fillScript = (folder: string) => `
  const fs = require('node:fs')
  const file = fs.openSync(${JSON.stringify(folder)} + '/big', 'w')
  let written = 0
  try { for (let i = 0; i < 200; i++) written += fs.writeSync(file, Buffer.alloc(1 << 20, i)) }
  catch (error) { return { code: error.code, written } }
  finally { fs.closeSync(file) }
  return { written }`

test('writes end at the limit of the disk, and deleted files free space', {
  timeout: 3 * minuteMs,
}, async (context) => {
  const diskBytes = 20 << 20
  const { run, at, order, place } = await startLimited(context, { diskBytes })
  for (const folder of ['/workspace', '/data', '/home/slipway']) {
    const { kind } = await at.backend.isolation()
    const { result } = await run(fillScript(kind === 'none' ? place.workspace : folder))
    expect(result).toMatchObject({ code: 'ENOSPC' })
    expect(Number(Object(result).written)).toBeLessThan(diskBytes)
    expect(Number(Object(result).written)).toBeGreaterThan(diskBytes / 4)
    await run(
      `require('node:fs').rmSync(${JSON.stringify(kind === 'none' ? place.workspace : folder)} + '/big')`,
    )
  }
  expect(statSync(place.image).blocks * 512).toBeLessThanOrEqual(diskBytes + (1 << 20))
  const used = () => statSync(place.image).blocks * 512
  await waitForValue(async () => used() < diskBytes / 2 || undefined, 'free space')
  // It starts again on a disk that is not mounted, as after a start of the host.
  await run(`require('node:fs').writeFileSync('stored', 'x')`)
  await at.kill(order.id)
  await waitForValue(
    async () => ((await observe(at.backend, order.id)).state === 'stopped' ? true : undefined),
    'it has stopped',
  )
  expect(await unmountAllBelow(place.root)).toBe(true)
  await (await at.reopen()).resume(order)
  await waitAlive(at.backend, order.id)
  expect((await run(`return require('node:fs').readFileSync('stored', 'utf8')`)).result).toBe('x')
  expect(await listMountsBelow(place.root)).toEqual([place.files])
})

test('volatile folders have an end too', { timeout: 3 * minuteMs }, async (context) => {
  const { run, at } = await startLimited(context, { memoryBytes: 128 << 20 })
  if ((await at.backend.isolation()).kind === 'none')
    context.skip('without a jail they are folders of the host')
  const { result } = await run(`
    const fs = require('node:fs')
    return ['/tmp', '/dev/shm', '/var/tmp'].map((path) => { const { blocks, bsize } = fs.statfsSync(path); return blocks * bsize })`)
  expect(result).toEqual([64 << 20, 64 << 20, 64 << 20])
})

test('processor time ends at the limit', { timeout: 3 * minuteMs }, async (context) => {
  const { run, groups } = await startLimited(context, { cpus: 0.2 })
  await run(
    'const worker = new (require("node:worker_threads").Worker)("for (;;);", { eval: true }); worker.unref()',
  )
  const files = groups.map((group) => join(group, 'cpu.stat'))
  await waitForValue(async () => {
    const texts = files.map((file) => {
      try {
        return readFileSync(file, 'utf8')
      } catch {
        return ''
      }
    })
    return texts.some((text) => Number(/^nr_throttled (\d+)$/m.exec(text)?.[1] ?? 0) > 3) || undefined
  }, 'the kernel holds it back')
})

test('nothing is reported as enforced when limits are off', async () => {
  const at = await openProcessBackend({ limit: 'none', isolate: 'none' })
  onTestFinished(() => at.close())
  const { kind, enforced, notes } = await at.backend.isolation()
  expect({ kind, enforced }).toEqual({ kind: 'none', enforced: ['maxOpenFiles'] })
  expect(notes.join('\n')).toMatch(/memoryBytes.*\n.*diskBytes/)
  // The trials are cleaned up.
  expect(await listMountsBelow(at.directory)).toEqual([])
})

test('without its own file system, single files have an end', { timeout: 3 * minuteMs }, async () => {
  const at = await openProcessBackend({ limit: 'none' })
  onTestFinished(() => at.close())
  const order = at.createConfig({ command: at.node(probeScript), resources: { diskBytes: 1 << 20 } })
  await at.backend.start(order)
  await waitAlive(at.backend, order.id)
  const { result } = await runInside(
    at.backend,
    order.id,
    `const { spawnSync } = require('node:child_process')
     const { status, signal } = spawnSync('dd', ['if=/dev/zero', 'of=big', 'bs=65536', 'count=64'])
     return { isOk: status === 0, size: require('node:fs').statSync('big').size }`,
  )
  expect(result).toEqual({ isOk: false, size: 1 << 20 })
})
