import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { waitForValue } from '../backend.contract.ts'
import { readLastOutput } from './output.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import {
  findSupervisor,
  type LaunchOptions,
  launchSupervisor,
  readExit,
  readSupervisorId,
} from './supervisor.ts'

async function open() {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-supervisor-'))
  // Its last process may still write a file.
  onTestFinished(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }))
  const paths = sandboxPaths(directory, 'box')
  await mkdir(paths.root)
  const options = (script: string, overrides: Partial<LaunchOptions> = {}): LaunchOptions => ({
    paths,
    epoch: 'aaaa',
    maxOpenFiles: undefined,
    maxFileBytes: undefined,
    groups: [],
    command: ['/bin/sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    cwd: paths.root,
    inputs: [],
    ...overrides,
  })
  const ended = (epoch = 'aaaa') => waitForValue(() => readExit(paths, epoch), 'an exit')
  return { place: paths, options, ended }
}

test('a supervisor whose epoch is not in the record any more ends without starting anything', async () => {
  const { place, options } = await open()
  for (const record of ['{"epoch":"bbbb"}\n', '{"epoch":""}\n', '']) {
    await writeFile(place.record, record)
    await launchSupervisor(options(`touch ${place.root}/began`))
    await waitForValue(
      async () => ((await findSupervisor(place, 'aaaa')) === undefined ? true : undefined),
      'its end',
    )
    expect(existsSync(join(place.root, 'began'))).toBe(false)
  }
  await writeFile(place.record, '{"epoch":"aaaa"}\n')
  await launchSupervisor(options(`touch ${place.root}/began`))
  await waitForValue(async () => existsSync(join(place.root, 'began')) || undefined, 'the begin')
})

test('a supervisor in a folder that is gone starts nothing', async () => {
  const { place, options } = await open()
  await rm(place.root, { recursive: true })
  await launchSupervisor(options(`touch ${place.root}.began`, { cwd: '/' }))
  expect(existsSync(`${place.root}.began`)).toBe(false)
})

test('the reader of the output ends with the program when the folder was removed', async () => {
  const { place, options } = await open()
  await writeFile(place.record, '{"epoch":"aaaa"}\n')
  const child = await launchSupervisor(options(`touch ${place.root}.began; sleep 1; echo out`, { cwd: '/' }))
  await waitForValue(async () => existsSync(`${place.root}.began`) || undefined, 'the begin')
  await rm(place.root, { recursive: true })
  const group = -(child.pid ?? Number.NaN)
  await waitForValue(async () => !isAlive(group) || undefined, 'the end of the supervisor and its reader')
})

/** Whether a process group has a process. */
function isAlive(group: number): boolean {
  try {
    return process.kill(group, 0)
  } catch {
    return false
  }
}

test('exit codes, signals and the end of the output are stored, however the program ends', async () => {
  const { place, options, ended } = await open()
  const cases = [
    ['echo out; echo err >&2; exit 3', 3, 'out\nerr'],
    ['printf "no newline"', 0, 'no newline'],
    ['kill -9 $$', 137, 'Killed'],
    ['exec /no/such', 127, '/no/such: not found'],
    ['true', 0, ''],
  ] as const
  for (const [index, [script, code, end]] of cases.entries()) {
    const epoch = `epoch${index}`
    await writeFile(place.record, `{"epoch":"${epoch}"}\n`)
    await rm(join(place.root, 'output'), { force: true })
    await launchSupervisor(options(script, { epoch }))
    expect((await ended(epoch)).code).toBe(code)
    const said = (await readLastOutput(place.root)).split('\n').slice(-end.split('\n').length).join('\n')
    expect(said).toContain(end)
    expect(existsSync(join(place.root, `fifo.${epoch}`))).toBe(false)
    await rm(join(place.root, 'output.1'), { force: true })
  }
})

test('lists of arguments come whole, by a file without a name, also large ones', async () => {
  const { place, options, ended } = await open()
  await writeFile(place.record, '{"epoch":"aaaa"}\n')
  const list = Array.from({ length: 3_000 }, (_, i) => `ä ${i} "'$\\ ${'x'.repeat(100)}`)
  const script = `ls -a ${place.root} > ${place.root}/names; cat <&3 > ${place.root}/three; cat <&4 > ${place.root}/four`
  await launchSupervisor(options(script, { inputs: [list, ['second']] }))
  expect(await ended()).toEqual({ code: 0, message: '' })
  expect(await readFile(join(place.root, 'three'), 'utf8')).toBe(`${list.join('\0')}\0`)
  expect(await readFile(join(place.root, 'four'), 'utf8')).toBe('second\0')
  expect(await readFile(join(place.root, 'names'), 'utf8')).not.toContain('arguments')
})

test('who a supervisor is, is known by pid and start together', async () => {
  const { place, options } = await open()
  await writeFile(place.record, '{"epoch":"aaaa"}\n')
  const child = await launchSupervisor(options('sleep 60'))
  onTestFinished(() => void process.kill(-(child.pid ?? Number.NaN), 'SIGKILL'))
  const who = await readSupervisorId(place, 'aaaa')
  expect(who?.pid).toBe(child.pid)
  expect(await findSupervisor(place, 'aaaa')).toMatchObject({ ...who })
  const line = await readFile(place.pid('aaaa'), 'utf8')
  for (const other of [
    '',
    line.slice(0, -1),
    `${process.pid} x`,
    '1 1 (init) S 0',
    '-1 x\n',
    'x y\n',
    line.replace(/\d+/, '2'),
  ]) {
    await writeFile(place.pid('aaaa'), other)
    expect([other, await findSupervisor(place, 'aaaa')]).toEqual([other, undefined])
  }
})
