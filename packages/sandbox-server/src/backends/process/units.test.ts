import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isWithin } from '@slipway/shared/fs'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { workingDirMount } from './bubblewrap/arguments.ts'
import { cgroupLimits, parseCgroupMounts } from './cgroups/cgroups.ts'
import { findProcess, listDescendants, listProcesses, parseProcStat, sendSignal } from './host/processes.ts'
import { describeExitCode, outputSize, readLastOutput, stripControlCharacters } from './output.ts'
import { hostUserId, idPattern } from './sandbox-paths.ts'

test('text of a program is shown without anything that acts on the reader', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      expect(stripControlCharacters(text)).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}\u2028\u2029]/u)
    }),
  )
  expect(
    stripControlCharacters(
      '\u001b[1;31mred\u001b[0m \u001b]8;;http://x\u0007link\u001b]8;;\u0007\r\nnext\tüß🙂\u202e',
    ),
  ).toBe('red link\nnext\tüß🙂')
})

test('an exit code is described', () => {
  expect([0, 7, 127, 137, 143].map(describeExitCode)).toEqual([
    'It ended with exit code 0',
    'It ended with exit code 7',
    'It ended with exit code 127',
    'It was ended by SIGKILL',
    'It was ended by SIGTERM',
  ])
})

test('a process is read from its line whatever its name is', () => {
  const rest = `T 7 8 9 ${Array.from({ length: 15 }, (_, i) => i).join(' ')} 4711 0 0`
  fc.assert(
    fc.property(fc.string({ maxLength: 15 }), (name) => {
      expect(parseProcStat(42, `42 (${name}) ${rest}\n`)).toEqual({
        pid: 42,
        parent: 7,
        session: 9,
        state: 'T',
        start: '4711',
      })
    }),
  )
  expect(parseProcStat(1, '1 (x) Z 0 0 0 0')).toBeUndefined()
  expect(parseProcStat(1, '')).toBeUndefined()
})

test('the list of processes has this one, and no signal reaches groups or everybody', async () => {
  const all = await listProcesses()
  expect(all.find(({ pid }) => pid === process.pid)).toEqual(await findProcess(process.pid))
  expect(listDescendants(all, process.ppid).map(({ pid }) => pid)).toContain(process.pid)
  for (const pid of [0, -1, 1, Number.NaN, 1.5, -process.pid]) expect(sendSignal(pid, 'SIGCONT')).toBe(false)
})

test('descendants of a process are all that are below it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(), { maxLength: 40 }), (seeds) => {
      // Each has a parent of a smaller number; 1 is above all.
      const all = seeds.map((seed, i) => ({
        pid: i + 2,
        parent: (seed % (i + 1)) + 1,
        session: 0,
        state: 'S',
        start: '',
      }))
      expect(listDescendants(all, 1)).toHaveLength(all.length)
      for (const { pid } of all) {
        const below = new Set(listDescendants(all, pid).map((each) => each.pid))
        for (const each of all)
          expect(below.has(each.pid)).toBe(each.parent === pid || below.has(each.parent))
      }
    }),
  )
})

test('control groups are found in hybrid, new and container hosts', () => {
  const hybrid = [
    '32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu',
    '35 31 0:32 /docker/x /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory',
    '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
    '37 31 0:34 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd',
    '50 31 0:39 / /proc rw - proc proc rw',
  ].join('\n')
  const own = '4:memory:/docker/x/y\n1:cpu:/\n0::/z\n'
  expect(parseCgroupMounts(hybrid, own)).toEqual([
    { version: 2, mount: '/sys/fs/cgroup/unified', own: '/z', controllers: [] },
    { version: 1, mount: '/sys/fs/cgroup/cpu', own: '/', controllers: ['cpu'] },
    { version: 1, mount: '/sys/fs/cgroup/memory', own: '/y', controllers: ['memory'] },
  ])
  expect(parseCgroupMounts('', '')).toEqual([])
})

test('limits become the words of both versions of the kernel', () => {
  const resources = { memoryBytes: 1000.7, maxProcesses: 50, cpus: 0.25, diskBytes: 1, maxOpenFiles: 1 }
  const features = ['memory', 'pids', 'cpu', 'freeze'] as const
  const words = (version: 1 | 2) =>
    cgroupLimits({ version, features }, resources).map(({ file, value }) => `${file} ${value}`)
  expect(words(2)).toEqual(['memory.max 1000', 'memory.swap.max 0', 'pids.max 50', 'cpu.max 25000 100000'])
  expect(words(1)).toEqual([
    'memory.limit_in_bytes 1000',
    'memory.memsw.limit_in_bytes 1000',
    'pids.max 50',
    'cpu.cfs_period_us 100000',
    'cpu.cfs_quota_us 25000',
  ])
  expect(cgroupLimits({ version: 2, features: [] }, resources)).toEqual([])
  expect(cgroupLimits({ version: 2, features }, {})).toEqual([])
})

test('a working directory never lies in or over a place of the system or the program', () => {
  const readable = ['/opt/app/node_modules']
  const part = fc.constantFrom(
    'opt',
    'app',
    'node_modules',
    'workspace',
    'usr',
    'home',
    'slipway',
    'srv',
    'x',
    '..',
    '.',
    '',
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
      const path = `/${parts.join('/')}`
      const mount = workingDirMount(path, readable)
      if (typeof mount === 'string') return
      for (const place of ['/usr', '/opt/app/node_modules']) {
        expect(isWithin(place, path)).toBe(false)
        expect(isWithin(path, place)).toBe(false)
      }
      expect(parts.slice(0, -1)).not.toContain('..')
      if (mount.target === undefined) expect(path).toMatch(/^\/(workspace|home\/slipway|data)(\/|$)/)
      else for (const own of ['/workspace', '/home/slipway']) expect(isWithin(mount.target, own)).toBe(false)
    }),
  )
})

test('an id cannot name a path', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 70 }), (id) => {
      if (idPattern.test(id)) expect(id).toMatch(/^[a-z0-9-]{1,63}$/)
    }),
  )
  expect(['a', '0', 'a-b', 'x'.repeat(63)].every((id) => idPattern.test(id))).toBe(true)
  expect(['', '-', 'a\n', 'a-', 'x'.repeat(64)].some((id) => idPattern.test(id))).toBe(false)
})

test('users of the host are stable and in the unused range', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (ledger, id) => {
      const user = hostUserId(ledger, id)
      expect(user).toBe(hostUserId(ledger, id))
      expect(user).toBeGreaterThanOrEqual(1_900_000_000)
      expect(user).toBeLessThan(1_917_000_000)
    }),
  )
})

test('the last output is that of the newest start, also when a new file was begun since', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'slipway-output-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'output'), 'not found\n')
  const from = await outputSize(folder)
  expect(await readLastOutput(folder, from)).toBe('')
  appendFileSync(join(folder, 'output'), 'not found again\n')
  expect(await readLastOutput(folder)).toBe('not found\nnot found again')
  expect(await readLastOutput(folder, from)).toBe('not found again')
  writeFileSync(join(folder, 'output'), 'end\n')
  expect(await readLastOutput(folder, from)).toBe('end')
})
