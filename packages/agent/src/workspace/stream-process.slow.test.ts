import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Workspace } from './workspace.ts'

let count = 0

async function openWorkspace(env: Readonly<Record<string, string>> = {}) {
  const workspace = await Workspace.open({
    directory: tmpdir(),
    env: { PATH: process.env.PATH ?? '/bin', ...env },
  })
  const follow = (
    script: string,
    onOutput: (stream: string, bytes: Buffer) => Promise<void> | undefined = () => undefined,
    more: { readonly signal?: AbortSignal; readonly name?: string; readonly timeoutMs?: number } = {},
  ) => {
    const { signal, name = `test-${process.pid}-${count++}`, ...options } = more
    return workspace.runStreaming('bash', ['-c', script], { name, onOutput, ...options }, signal)
  }
  return { workspace, follow, [Symbol.asyncDispose]: () => workspace[Symbol.asyncDispose]() }
}

function countProcesses(text: string): number {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(text)
    } catch {
      return false
    }
  }).length
}

async function waitUntil(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(20)
}

test('both streams are handed on, and the ending says how it was', async () => {
  await using it = await openWorkspace()
  const texts: Record<string, string> = { stdout: '', stderr: '' }
  const take = (stream: string, bytes: Buffer) => {
    texts[stream] = `${texts[stream] ?? ''}${bytes}`
    return undefined
  }
  expect(await it.follow('echo a; echo b >&2; exit 4', take)).toEqual({
    exitCode: 4,
    signal: null,
    isTimedOut: false,
  })
  expect(texts).toEqual({ stdout: 'a\n', stderr: 'b\n' })
  expect(await it.follow('kill -TERM $$')).toMatchObject({ exitCode: null, signal: 'SIGTERM' })
  const missing = it.workspace.runStreaming('no-such-program-at-all', [], {
    name: 'x',
    onOutput: () => undefined,
  })
  await expect(missing).rejects.toThrow('ENOENT')
})

test('reading pauses while output is pending, and nothing is lost', async () => {
  await using it = await openWorkspace()
  let open = 0
  let most = 0
  let sizeBytes = 0
  const take = (_: string, bytes: Buffer) => {
    sizeBytes += bytes.length
    most = Math.max(most, ++open)
    // Longer than the silence that ends the wait.
    return sleep(150).then(() => {
      open--
    })
  }
  const ending = await it.follow('head -c 600000 /dev/zero', take)
  expect(ending.exitCode).toBe(0)
  expect(sizeBytes).toBe(600_000)
  expect(most).toBeLessThanOrEqual(2)
})

test('an abort ends everything at once, also what has left the group', async () => {
  await using it = await openWorkspace()
  const mark = `7${process.pid}.5`
  const stop = new AbortController()
  const following = it.follow(`trap '' TERM; setsid sleep ${mark} & sleep ${mark}`, undefined, {
    signal: stop.signal,
  })
  await waitUntil(() => countProcesses(mark) >= 3)
  stop.abort()
  expect((await following).exitCode).toBe(null)
  await waitUntil(() => countProcesses(mark) === 0)
})

test('processes that an earlier server process left running are killed by its name', async () => {
  const server = `left-${process.pid}`
  await using it = await openWorkspace({ SLIPWAY_SERVER: server })
  const mark = `6${process.pid}.5`
  await it.follow(`setsid sleep ${mark} > /dev/null 2>&1 &`)
  await waitUntil(() => countProcesses(mark) === 1)
  await Workspace.killLeftovers(`${server}x`)
  await Workspace.killLeftovers('left')
  expect(countProcesses(mark)).toBe(1)
  await Workspace.killLeftovers(server)
  await waitUntil(() => countProcesses(mark) === 0)
})

test.each([{ TZ: 'UTC' }, {}])(
  'they are killed by a home directory of the server, too (%j)',
  async (others) => {
    const homes = `/nothing/left-${process.pid}`
    await using it = await openWorkspace({ ...others, HOME: `${homes}/app/home` })
    const mark = `8${process.pid}.5`
    // A child in its group has another home directory.
    const leader = `HOME=/ sleep ${mark} & sleep ${mark}; wait`
    await it.follow(`setsid bash -c '${leader}' > /dev/null 2>&1 &`)
    await waitUntil(() => countProcesses(mark) === 3)
    await Workspace.killLeftovers('none-of-this-name', [`${homes}/ap`])
    await Workspace.killLeftovers('none-of-this-name')
    expect(countProcesses(mark)).toBe(3)
    await Workspace.killLeftovers('none-of-this-name', [homes])
    await waitUntil(() => countProcesses(mark) === 0)
  },
)

test('what runs in the background is read on, and not handed on', async () => {
  await using it = await openWorkspace()
  let sizeBytes = 0
  const take = (_: string, bytes: Buffer) => {
    sizeBytes += bytes.length
    return undefined
  }
  const mark = `5${process.pid}.5`
  const ending = await it.follow(`echo a; (sleep 1; echo late; exec sleep ${mark}) &`, take)
  expect(ending.exitCode).toBe(0)
  // It has printed, and no one ended it for that.
  await waitUntil(() => countProcesses(`sleep\0${mark}`) === 1)
  expect(sizeBytes).toBe(2)
})
