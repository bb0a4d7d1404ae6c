import { type BackgroundTerminalObservation, backgroundTerminalObservation } from '@slipway/protocol'
import { beforeEach, expect, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import type { Tool, ToolContext } from '../core/tool.ts'
import { ToolFixtures } from '../testing/fixtures.ts'
import { openBackgroundTerminal } from './background.ts'

vi.setConfig({ testTimeout: 120_000 })

let fixtures: ToolFixtures
let context: ToolContext
let tool: Tool
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  const secrets = new Secrets({
    TOKEN: { kind: 'StaticSecret', value: 'hidden-value-1', description: undefined },
  })
  context = { ...fixtures.context, secrets }
  tool = (await openBackgroundTerminal(context, {})) as Tool
  return async () => {
    await tool.close?.()
    await fixtures[Symbol.asyncDispose]()
  }
})

type Seen = BackgroundTerminalObservation & { readonly text: string }

async function call(
  args: Record<string, unknown>,
  signal: AbortSignal = new AbortController().signal,
): Promise<Seen> {
  const parsed = tool.parse(args)
  if ('error' in parsed) throw new Error(parsed.error)
  const seen = backgroundTerminalObservation.parse(await tool.run(parsed.action, signal))
  return { ...seen, text: seen.content.map((block) => ('text' in block ? block.text : '')).join('\n') }
}

const start = (command: string, more: Record<string, unknown> = {}) =>
  call({ operation: 'start', command, ...more })
const output = (id: unknown, more: Record<string, unknown> = {}) => call({ operation: 'output', id, ...more })

/** Waits until the whole output has the text. */
async function outputWith(id: unknown, wanted: RegExp): Promise<Seen> {
  for (;;) {
    const seen = await output(id, { cursor: 0, timeout: 1 })
    if (wanted.test(seen.text)) return seen
    if (seen.status !== 'running' && seen.status !== 'waiting_for_input') throw new Error(seen.text)
  }
}

test('a command that ends gives its output and exit code', async () => {
  const seen = await start('echo out; (exit 3)', { timeout: 60 })
  expect(seen).toMatchObject({ is_error: false, status: 'ended', exit_code: 3, cursor: 4 })
  expect(seen.text).toBe(`out\n[Terminal ${seen.id}. Ended with exit code 3. The cursor is 4.]`)
})

test('commands run at the same time, and each has its own output', async () => {
  const ids: unknown[] = []
  for (let at = 0; at < 8; at++) {
    const seen = await start(`echo begin ${at}; cat; sleep 1000`, { timeout: 0 })
    expect(seen).toMatchObject({ exit_code: null })
    ids.push(seen.id)
  }
  expect(new Set(ids).size).toBe(8)
  expect(await start('true')).toMatchObject({ is_error: true })
  for (const [at, id] of ids.entries()) {
    await outputWith(id, new RegExp(`begin ${at}`))
    await call({ operation: 'input', id, command: `typed ${at}`, timeout: 0 })
    await outputWith(id, new RegExp(`typed ${at}`))
  }
  const listed = await call({ operation: 'list' })
  expect(listed.text.split('\n')).toHaveLength(8)
  expect(listed.text).toContain(`${ids[0]} `)
  expect(listed.text).toContain('echo begin 7')
  expect(await call({ operation: 'kill', id: ids[0] })).toMatchObject({ status: 'ended', exit_code: 137 })
  expect(await output(ids[0])).toMatchObject({ is_error: true })
  expect((await start('echo again', { timeout: 60 })).text).toContain('again')
})

test('output comes once, and again from a cursor', async () => {
  const { id } = await start('echo one; read x; echo two; read x; echo three', { timeout: 60 })
  const first = await output(id)
  expect(first.text).not.toContain('one')
  expect((await output(id, { cursor: 0 })).text).toContain('one')
  await call({ operation: 'input', id, command: 'go', timeout: 0 })
  await outputWith(id, /two/)
  const again = await output(id, { cursor: 0 })
  expect(again.text).toMatch(/^one\n(.*\n)?two\n/)
  const part = await output(id, { cursor: 4 })
  expect(part.text).not.toContain('one')
  expect(part.text).toContain('two')
  expect((await output(id, { cursor: 1_000_000 })).cursor).toBe(again.cursor)
})

test('a long output is read in parts, and only its end is kept', async () => {
  const seen = await start('seq 200000', { timeout: 60 })
  expect(seen.status).toBe('ended')
  expect(seen.text).toMatch(/^\[\d+ older characters are no longer stored\.\]/)
  expect(seen.text).toMatch(/\d+ more characters wait/)
  let last = seen
  while (last.text.includes('more characters wait')) {
    expect(last.text.length).toBeLessThan(31_000)
    last = await output(seen.id)
  }
  expect(last.text).toContain('\n200000\n')
})

test('a question is noticed, also later', async () => {
  const asked = await start('read -r -p "Name? " name; echo "hello $name"', { timeout: 60 })
  expect(asked).toMatchObject({ status: 'waiting_for_input', exit_code: null })
  for (const cursor of [0, null])
    expect(await output(asked.id, { cursor })).toMatchObject({ status: 'waiting_for_input' })
  const answered = await call({ operation: 'input', id: asked.id, command: 'Bob', timeout: 60 })
  expect(answered).toMatchObject({ status: 'ended', exit_code: 0 })
  expect(answered.text).toContain('hello Bob')
  expect(await call({ operation: 'input', id: asked.id, command: 'x' })).toMatchObject({ is_error: true })
})

test('the next command of a terminal has its directory and variables', async () => {
  const { id } = await start('mkdir sub && cd sub && X=5', { timeout: 60 })
  const next = await start('echo $X; basename "$PWD"', { id, timeout: 60 })
  expect(next).toMatchObject({ id, status: 'ended' })
  expect(next.text).toMatch(/^5\nsub\n/)
  const { id: busy } = await start('sleep 1000', { timeout: 0 })
  expect(await start('true', { id: busy })).toMatchObject({ is_error: true })
})

test('a shell that ends takes its terminal with it', async () => {
  const seen = await start('exit 4', { timeout: 60 })
  expect(seen).toMatchObject({ status: 'ended', exit_code: 4 })
  expect(await output(seen.id)).toMatchObject({ is_error: true })
})

test('ended terminals make room for new ones', async () => {
  for (let at = 0; at < 10; at++)
    expect(await start(`echo ${at}`, { timeout: 60 })).toMatchObject({ status: 'ended', exit_code: 0 })
  expect((await call({ operation: 'list' })).text.split('\n')).toHaveLength(8)
})

test('calls that cannot be done are refused with a sentence', async () => {
  expect(tool.parse({ operation: 'other' })).toMatchObject({ error: expect.any(String) })
  expect(tool.parse({ operation: 'output', id: 'x', cursor: -1 })).toMatchObject({
    error: expect.any(String),
  })
  expect(await start('')).toMatchObject({ is_error: true })
  expect(await start('if true; then')).toMatchObject({ is_error: true })
  for (const operation of ['output', 'input', 'kill'])
    expect(await call({ operation, id: 'missing' })).toMatchObject({ is_error: true })
})

test('a secret is in the environment of a command that names it, and in no output from any cursor', async () => {
  const seen = await start('echo "a $TOKEN b"; cd /', { timeout: 60 })
  expect(seen.text).toContain('a <secret-hidden> b')
  for (let cursor = 0; cursor < 20; cursor++)
    expect((await output(seen.id, { cursor })).text).not.toMatch(/idden-v|value-1/)
  await start('echo hidden-value-1', { timeout: 60 })
  expect((await call({ operation: 'list' })).text).not.toContain('hidden-value-1')
})

test('an interrupted start leaves nothing, an interrupted wait leaves the command', async () => {
  const stop = new AbortController()
  const starting = call({ operation: 'start', command: 'sleep 1000', timeout: 100 }, stop.signal)
  await vi.waitUntil(async () => (await call({ operation: 'list' })).text.includes('sleep 1000'), 60_000)
  stop.abort()
  await starting
  expect((await call({ operation: 'list' })).text).toBe('No terminal is open.')
  const { id } = await start('sleep 1000', { timeout: 0 })
  const other = new AbortController()
  const waiting = call({ operation: 'output', id, timeout: 100 }, other.signal)
  other.abort()
  await waiting.catch(() => undefined)
  expect(await output(id, { timeout: 0 })).toMatchObject({ status: 'running' })
})

test('closing ends every process', async () => {
  const { id } = await start('(trap "" TERM HUP; sleep 1000) & echo $!; sleep 1000', { timeout: 0 })
  const pid = Number(/^(\d+)$/m.exec((await outputWith(id, /^\d+$/m)).text)?.[1])
  await tool.close?.()
  await vi.waitUntil(() => !isAlive(pid), 60_000)
  expect(await start('true')).toMatchObject({ is_error: true })
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test.each(['sleep 1000', '(sleep 1000 &)', 'setsid -f sleep 1000'])(
  'is occupied while a program of it runs, until it is killed: %s',
  async (command) => {
    expect(await tool.isOccupied?.()).toBe(false)
    const { id } = await start('true', { timeout: 60 })
    expect(await tool.isOccupied?.()).toBe(false)
    await start(command, { id, timeout: 1 })
    expect(await tool.isOccupied?.()).toBe(true)
    await call({ operation: 'kill', id })
    expect(await tool.isOccupied?.()).toBe(false)
  },
)
