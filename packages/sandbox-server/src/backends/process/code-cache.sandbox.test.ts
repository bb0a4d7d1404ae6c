import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unixFetch } from '@slipway/http'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { observe } from '../backend.contract.ts'
import type { Jail } from './bubblewrap/arguments.ts'
import { CodeCache } from './code-cache.ts'
import { waitUntil } from './host/files.ts'
import { findProcess } from './host/processes.ts'
import { detectHostCapabilities } from './host-capabilities.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

const minuteMs = 60_000
const answering = (exitCode = 0) =>
  `process.on('SIGTERM', () => process.exit(${exitCode})); setInterval(() => {}, 1000); console.log('http://127.0.0.1:1')`
const expectSoon = async (look: () => Promise<boolean>) => expect(await waitUntil(look, minuteMs)).toBe(true)

async function folder(): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'slipway-code-')))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** A small program, and caches of it in one directory. */
async function smallProgram(code = `require('./part.cjs'); ${answering()}`) {
  const [program, directory] = [await folder(), join(await folder(), 'code')]
  await chmod(program, 0o755)
  await writeFile(join(program, 'main.cjs'), code)
  await writeFile(join(program, 'part.cjs'), 'exports.part = () => 1; exports.part()')
  const warnings: string[] = []
  const options = {
    directory,
    ledgerId: 'a'.repeat(32),
    agentCommand: [process.execPath, join(program, 'main.cjs')],
    readable: [process.execPath, program],
    inaccessible: [],
    log: (_level: string, _message: string, about?: object) => void warnings.push(JSON.stringify(about)),
  }
  const make = async (jail: Jail | undefined) => {
    const cache = new CodeCache(options)
    const alive = setInterval(() => {}, 1000)
    await cache.make(jail).finally(() => clearInterval(alive))
    return cache
  }
  return { program, directory, options, warnings, make }
}

async function requireJail(context: TestContext): Promise<Jail> {
  const { jail, isolation } = await detectHostCapabilities(join(await folder(), 'trial-'), 'auto', false)
  return jail ?? context.skip(`no isolation on this host: ${isolation.notes[0]}`)
}

/** Everything in a folder that is not a folder. */
function listFiles(path: string): string[] {
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))
  return names.filter((name) => !lstatSync(name).isDirectory())
}

test.for(['in a jail', 'plain'])(
  '%s, compiled code is stored, and only the server can change it',
  {
    timeout: 2 * minuteMs,
  },
  async (kind, context) => {
    const at = await smallProgram()
    const jail = kind === 'plain' ? undefined : await requireJail(context)
    const { folder: made = '' } = await at.make(jail)
    expect(at.warnings).toEqual([])
    const files = listFiles(made)
    expect(files.length).toBeGreaterThanOrEqual(2)
    for (const file of [made, ...files]) {
      const { mode, uid } = lstatSync(file)
      expect([mode & 0o044, mode & 0o022, uid]).toEqual([0o044, 0, process.getuid?.()])
    }
    expect(readdirSync(at.directory)).toHaveLength(1)
  },
)

test('a server that starts again finds it; a changed program is compiled again', {
  timeout: 2 * minuteMs,
}, async () => {
  const at = await smallProgram()
  const { folder: first = '' } = await at.make(undefined)
  const { ino } = lstatSync(first)
  const { folder: second = '' } = await at.make(undefined)
  expect([second, lstatSync(second).ino]).toEqual([first, ino])
  await writeFile(join(at.program, 'more.cjs'), '')
  const { folder: third = '' } = await at.make(undefined)
  expect(third).not.toBe(first)
  expect(readdirSync(at.directory).map((name) => join(at.directory, name))).toEqual([third])
  expect(at.warnings).toEqual([])
})

test('the first sandbox of a server that starts again has it, and waits for no compilation', {
  timeout: 2 * minuteMs,
}, async () => {
  const at = await smallProgram()
  const first = new CodeCache(at.options)
  await first.find(undefined)
  expect(first.folder).toBeUndefined()
  const alive = setInterval(() => {}, 1000)
  await first.make(undefined).finally(() => clearInterval(alive))
  const again = new CodeCache(at.options)
  await again.find(undefined)
  expect([typeof again.folder, again.folder]).toEqual(['string', first.folder])
})

test.for([
  ['ends at once', 'process.exit(1)', 'plain'],
  ['ends at once', 'process.exit(1)', 'in a jail'],
  ['ends badly', answering(3), 'plain'],
  ['ends badly', answering(3), 'in a jail'],
])(
  'a program that %s is reported: there is no cache, and nothing is left',
  {
    // Less than the time after which it is given up.
    timeout: 50_000,
  },
  async ([, code, kind], context) => {
    const at = await smallProgram(code)
    const cache = await at.make(kind === 'plain' ? undefined : await requireJail(context))
    expect(cache.folder).toBeUndefined()
    expect(at.warnings).toHaveLength(1)
    expect(readdirSync(at.directory)).toEqual([])
  },
)

test('the program ends with a server that is killed', { timeout: 2 * minuteMs }, async () => {
  const beside = join(await folder(), 'pid')
  const at = await smallProgram(
    `require('node:fs').writeFileSync(${JSON.stringify(beside)}, String(process.pid)); setInterval(() => {}, 1000)`,
  )
  const script = `
    const { CodeCache } = await import(${JSON.stringify(new URL('code-cache.ts', import.meta.url).href)})
    setInterval(() => {}, 1000)
    await new CodeCache({ ...${JSON.stringify(at.options)}, log: () => {} }).make(undefined)`
  const server = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })
  const ended = once(server, 'exit')
  const pid = () => {
    try {
      return Number(readFileSync(beside, 'utf8'))
    } catch {
      return 0
    }
  }
  await expectSoon(async () => pid() > 0)
  server.kill('SIGKILL')
  await ended
  await expectSoon(async () => (await findProcess(pid())) === undefined)
})

test('a sandbox of our own agent server reads it and cannot write it', {
  timeout: 3 * minuteMs,
}, async (context) => {
  await requireJail(context)
  const codeDirectory = join(await folder(), 'code')
  const at = await openProcessBackend({ codeDirectory })
  onTestFinished(() => at.close())
  await at.backend.isolation()
  // The draft goes after it.
  await expectSoon(async () => /^[^.,]+$/.test(ls(codeDirectory).join()))
  const before = listFiles(codeDirectory)
  const key = 'sk-of-the-test'
  const order = at.createConfig({ env: { SLIPWAY_SESSION_API_KEY: key } })
  await at.backend.start(order)
  const address = async () => (await observe(at.backend, order.id)).addresses.AGENT_SERVER
  const run = async (command: string) => {
    const response = await unixFetch(`${await address()}/api/bash/execute_bash_command`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-api-key': key },
      body: JSON.stringify({ command }),
    })
    return String(JSON.parse(await response.text()).stdout ?? '').trim()
  }
  await expectSoon(async () =>
    unixFetch(`${await address()}/ready`).then(
      (response) => response.ok,
      () => false,
    ),
  )
  // The agent server reads its own environment alone; the programs that it starts have no such variable.
  expect(await run('cat /proc/$PPID/environ 2>&1; echo "[$NODE_COMPILE_CACHE]"')).toMatch(
    /Permission denied\n\[\]$/,
  )
  expect(Number(await run('cat /run/slipway-code/*/* | wc -c'))).toBeGreaterThan(100_000)
  const tries = [
    'touch /run/slipway-code/x',
    'cd /run/slipway-code/* && echo x > $(ls | head -1)',
    'rm -rf /run/slipway-code/*',
    'mv /run/slipway-code /run/other',
    'chmod -R 777 /run/slipway-code/*',
  ]
  for (const each of tries)
    expect([each, await run(`(${each}) 2> /dev/null && echo done`)]).toEqual([each, ''])
  // Not only because the files are another user's.
  expect(await run('touch /run/slipway-code/x 2>&1')).toContain('Read-only file system')
  expect(listFiles(codeDirectory)).toEqual(before)
})

function ls(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
