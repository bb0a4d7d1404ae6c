import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { BashService, type BashServiceOptions } from './bash-service.ts'

const neverAborted = new AbortController().signal

/** A bash in its own directory, which is also where its commands run. */
async function openService(more: Partial<BashServiceOptions> & { readonly path?: string } = {}) {
  const path = more.path ?? mkdtempSync(join(tmpdir(), 'slipway-bash-'))
  const bash = await BashService.open({
    directory: path,
    workingDirectory: path,
    environment: { PATH: process.env.PATH ?? '/usr/bin:/bin', MARK: 'seen' },
    redactedValues: ['hunter2-is-secret'],
    log: () => {},
    now: () => Date.now() * 1000,
    retentionMs: undefined,
    ...more,
  })
  const run = (command: string, timeout = 60, cwd?: string) =>
    bash.execute({ command, timeout, cwd }, neverAborted)
  const search = async (query: object = {}) => {
    const defaults = { sort_order: 'TIMESTAMP', limit: 100, page_id: undefined } as const
    return JSON.parse((await bash.events.search({ ...defaults, ...query })).toString())
  }
  return {
    bash,
    path,
    run,
    search,
    async [Symbol.asyncDispose]() {
      await bash[Symbol.asyncDispose]()
      rmSync(path, { recursive: true, force: true })
    },
  }
}

/** The numbers of living processes whose command line holds a text. */
function livingPids(text: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(text) ? [Number(name)] : []
    } catch {
      return []
    }
  })
}

async function waitUntil(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20)
}

test('a command answers its output, its code and its environment, and finds nothing to read', async () => {
  await using it = await openService()
  expect(await it.run('echo "$MARK"; echo wrong >&2; cat; pwd; exit 3')).toMatchObject({
    order: 0,
    exit_code: 3,
    stdout: `seen\n${it.path}\n`,
    stderr: 'wrong\n',
    kind: 'BashOutput',
  })
  expect(await it.run('true')).toMatchObject({ exit_code: 0, stdout: null, stderr: null })
  expect(await it.run('kill -9 $$')).toMatchObject({ exit_code: -9 })
  expect(await it.run('pwd', 60, '/')).toMatchObject({ stdout: '/\n' })
})

test('a command that cannot run ends with -1 and says why', async () => {
  await using it = await openService()
  const missing = join(it.path, 'missing')
  expect(await it.run('true', 60, missing)).toMatchObject({
    exit_code: -1,
    stderr: `Error executing command: there is no directory ${missing}.`,
  })
  expect((await it.run('true \0')).exit_code).toBe(-1)
  expect((await it.run(`true ${'x'.repeat(200_000)}`)).stderr).toContain('longer than')
  expect(await it.run('')).toMatchObject({ exit_code: 0 })
})

test('a command that times out is killed with all its processes, even those that ignore SIGTERM', async () => {
  await using it = await openService()
  const mark = `9${process.pid}.25`
  const command = `trap '' TERM; echo begun; sleep ${mark} & setsid sleep ${mark} & wait; wait`
  const output = await it.run(command, 1)
  expect(output).toMatchObject({
    exit_code: -1,
    stdout: 'begun\n',
    stderr: 'The command timed out after 1 seconds.',
  })
  await waitUntil(() => livingPids(mark).length === 0)
})

test('SIGTERM comes first, and the output of its handler is stored', async () => {
  await using it = await openService()
  const output = await it.run('trap "echo bye; exit 0" TERM; while :; do sleep 0.05; done', 1)
  expect(output).toMatchObject({ exit_code: -1, stdout: 'bye\n' })
})

test('a background process outlives its command, but not the server', async () => {
  const it = await openService()
  const mark = `8${process.pid}.25`
  const output = await it.run(
    `sleep ${mark} & (cd /; exec setsid sleep ${mark}) > /dev/null 2>&1 & echo started`,
  )
  expect(output).toMatchObject({ exit_code: 0, stdout: 'started\n' })
  await waitUntil(() => livingPids(mark).length === 2)
  await it[Symbol.asyncDispose]()
  await waitUntil(() => livingPids(mark).length === 0)
})

test('long output comes in pieces of a million characters that lose and split nothing', async () => {
  await using it = await openService()
  const text = '€😀x'
  const count = 600_000
  const program = `process.stdout.write(${JSON.stringify(text)}.repeat(${count}))`
  const output = await it.run(`"${process.execPath}" -e '${program}'`)
  expect(output.exit_code).toBe(0)
  expect(output.stdout === text.repeat(count)).toBe(true)
  const { items } = await it.search({ kind__eq: 'BashOutput' })
  const codes = items.map((item: { exit_code: unknown }) => item.exit_code)
  expect(codes).toEqual([...Array(items.length - 1).fill(null), 0])
  expect(items.map((item: { order: number }) => item.order)).toEqual([...items.keys()])
  for (const { stdout } of items) {
    expect(stdout.length).toBeLessThanOrEqual(1024 * 1024)
    expect(stdout.isWellFormed()).toBe(true)
  }
})

test('output is there while the command still runs, and secrets are in none of it, however it is cut', async () => {
  await using it = await openService()
  const command =
    'printf "first hunter2-is"; sleep 1.5; printf -- "-secret last"; until [ -e go ]; do sleep 0.05; done'
  const { id } = JSON.parse((await it.bash.start({ command, timeout: 60, cwd: undefined })).toString())
  const outputs = async () => (await it.search({ command_id__eq: id, kind__eq: 'BashOutput' })).items
  await waitUntil(async () => (await outputs()).length > 0)
  expect((await outputs())[0]).toMatchObject({ order: 0, exit_code: null, stdout: 'first ' })
  writeFileSync(join(it.path, 'go'), '')
  await waitUntil(async () => (await outputs()).at(-1).exit_code !== null)
  const text = (await outputs()).map((item: { stdout: string | null }) => item.stdout ?? '').join('')
  expect(text).toBe('first <secret-hidden> last')
  const echo = await it.run('echo hunter2-is-secret')
  expect(echo.stdout).toBe('<secret-hidden>\n')
  for (const name of ['bash.db', 'bash.db-wal'])
    expect(readFileSync(join(it.path, name), 'latin1')).not.toContain('hunter2-is-secret')
})

test('text that redaction held back is there at the end', async () => {
  await using it = await openService()
  expect((await it.run('printf "x hunter2-is"')).stdout).toBe('x hunter2-is')
  expect((await it.run("printf 'a\\xe2\\x82'")).stdout).toBe('a\ufffd')
})

test('the beginning of endless output is stored, and how many bytes were left out', async () => {
  await using it = await openService({ maxOutputBytes: 3_000_000 })
  const output = await it.run('yes 0123456789 | head -c 20000000; echo the end >&2')
  expect(output.exit_code).toBe(0)
  expect(output.stdout?.length).toBeGreaterThan(2_000_000)
  expect(output.stdout?.length).toBeLessThan(6_000_000)
  const left = /(\d+) bytes of output were not kept/.exec(output.stderr ?? '')?.[1]
  expect(Number(left) + (output.stdout?.length ?? 0)).toBe(20_000_000 + 'the end\n'.length)
})

test('commands above the limit are refused, and the others run', async () => {
  await using it = await openService({ maxRunning: 2 })
  const start = () => it.bash.start({ command: 'sleep 30', timeout: 60, cwd: undefined })
  const outcomes = await Promise.allSettled([start(), start(), start()])
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
})

test('a caller that stops waiting does not end the command', async () => {
  await using it = await openService()
  const stop = new AbortController()
  const waiting = it.bash.execute(
    { command: 'sleep 0.3; echo done > file', timeout: 60, cwd: undefined },
    stop.signal,
  )
  await waitUntil(async () => (await it.search()).items.length === 1)
  stop.abort()
  await expect(waiting).rejects.toThrow('abort')
  await waitUntil(async () => (await it.search()).items.length === 2)
  expect(readFileSync(join(it.path, 'file'), 'utf8')).toBe('done\n')
})

test('a stop of the server ends running commands and stores that it did', async () => {
  const it = await openService()
  const { id } = JSON.parse(
    (await it.bash.start({ command: 'echo a; sleep 60', timeout: 90, cwd: undefined })).toString(),
  )
  await it.bash[Symbol.asyncDispose]()
  await expect(it.run('true')).rejects.toThrow('stopping')
  await using again = await openService({ path: it.path })
  const { items } = await again.search({ command_id__eq: id })
  expect(items).toHaveLength(2)
  expect(items[1].exit_code).toBe(-1)
  expect(items[1].stderr).toContain('The server was stopped while this command ran.')
})
