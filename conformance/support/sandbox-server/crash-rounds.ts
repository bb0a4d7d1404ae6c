import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { SandboxInfo, SandboxServer } from './server.ts'

const main = resolve(import.meta.dirname, 'self-killing-server.ts')

/** What a client does with a server that may be killed under it, and what must hold after the next start. */
export interface Scenario {
  readonly name: string
  /** Settings of both starts. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether commits of the databases are steps too. */
  readonly hasCommits?: boolean
  /** From nothing to nothing; rejects when the server does not answer. */
  run(server: SandboxServer, known: Known): Promise<void>
  /** The server runs again: what was answered must be true, and everything can be repeated and comes to its end. */
  check(server: SandboxServer, known: Known): Promise<void>
}

/** What a client remembers: the last thing that it asked for, whether that was answered, and what it has seen. */
export class Known {
  /** Another one in each round. */
  readonly name: string
  verb = 'nothing'
  isAnswered = false
  /** The sandbox, as it was when it ran last. */
  box: SandboxInfo | undefined
  /** Whether it has a file of ours. */
  hasFile = false

  constructor(name: string) {
    this.name = name
  }

  async ask<T>(verb: string, work: () => Promise<T>): Promise<T> {
    this.verb = verb
    this.isAnswered = false
    const answer = await work()
    this.isAnswered = true
    return answer
  }
}

export interface Round {
  /** Whether it was killed before it had come to its end. */
  readonly isKilled: boolean
  /** Steps up to then, by number and name: `1 before add`. */
  readonly steps: readonly string[]
}

/**
 * One round: a server that is killed at a step (or by `kill`), the next start, and the checks. Rejects with all that is known when
 * one of them fails.
 */
export async function round(
  server: SandboxServer,
  scenario: Scenario,
  options: {
    readonly name: string
    /** A step, by number and name. */
    readonly killAt?: string
    /** Kills it while the scenario goes on. */
    readonly kill?: (server: SandboxServer) => Promise<void>
    /** Kills it once more while it comes back. */
    readonly again?: (server: SandboxServer) => Promise<void>
  },
): Promise<Round> {
  const { killAt = '', name } = options
  const file = join(server.data, `steps-${name}`)
  const args = ['--steps', file, '--kill-at', killAt, ...(scenario.hasCommits ? ['--commits'] : [])]
  const known = new Known(name)
  const env = scenario.env ?? {}
  let isKilled = false
  try {
    const over = options.kill?.(server)
    try {
      await server.start({ env, program: { main, args } })
      await scenario.run(server, known)
    } catch (error) {
      if (!(await isKilledBy(server))) throw error
    }
    isKilled = (await server.stop()) === 'SIGKILL'
    await over
    const quick = { ...env, SLIPWAY_RECONCILE_SECONDS: '1' }
    if (options.again !== undefined) {
      const killed = options.again(server)
      // It may be killed before it answers.
      await server.start({ env: quick }).catch(() => {})
      await killed
      await server.stop('SIGKILL')
    }
    await server.start({ env: quick })
    await scenario.check(server, known)
    expect(faultsIn(server)).toEqual([])
    await server.stop()
  } catch (error) {
    const steps = await stepsIn(file)
    const where = `${scenario.name}, killed at ${steps.at(-1)}, after ${known.verb} (answered: ${known.isAnswered})`
    throw new Error(`${where}: ${String(error)}\n${server.output().slice(-6_000)}`, { cause: error })
  }
  return { isKilled, steps: await stepsIn(file) }
}

/** A request that failed may be heard of before the end of the process. */
async function isKilledBy(server: SandboxServer): Promise<boolean> {
  const end = await Promise.race([server.ended(), sleep(5_000)])
  return end === 'SIGKILL'
}

/** What the server says of mistakes of its own. */
function faultsIn(server: SandboxServer): string[] {
  return server
    .output()
    .split('\n')
    .filter((line) => line.includes('"level":"error"'))
}

async function stepsIn(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.split('\n').filter((line) => line !== '')
}

/** What the ledger says of the sandboxes, those of the warm pool too. */
export function rowsOf(
  data: string,
): { readonly id: string; readonly owner: string | null; readonly status: string }[] {
  using database = new DatabaseSync(join(data, 'control.db'), { readOnly: true })
  return database
    .prepare("SELECT id, owner, status FROM sandbox WHERE wanted <> 'gone'")
    .all()
    .map(({ id, owner, status }) => ({
      id: String(id),
      owner: owner === null ? null : String(owner),
      status: String(status),
    }))
}

/** A request to the agent server of a sandbox. */
export async function inside(box: SandboxInfo, path: string, init: RequestInit = {}): Promise<Response> {
  const url = box.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  if (url === undefined || box.session_api_key === null) throw new Error(`${box.id} has no address`)
  return await fetch(`${url}${path}`, {
    ...init,
    headers: { 'x-session-api-key': box.session_api_key, ...init.headers },
  })
}

/** Runs a command in a sandbox and answers what it printed. */
export async function bash(box: SandboxInfo, command: string): Promise<string> {
  const response = await inside(box, '/api/bash/execute_bash_command', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ command }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`the command answered ${response.status}: ${text}`)
  return String(JSON.parse(text).stdout ?? '')
}

/** Whether its agent server answers; one that stands still does not, within a second. */
export async function answers(box: SandboxInfo): Promise<boolean> {
  return await inside(box, '/api/conversations/count', { signal: AbortSignal.timeout(1_000) }).then(
    (response) => response.ok,
    () => false,
  )
}

export async function writeFile(box: SandboxInfo, known: Known): Promise<void> {
  // On the disk, not in the cache of a program that may be killed.
  expect(await bash(box, `echo ${known.name} > kept.txt && sync kept.txt && cat kept.txt`)).toBe(
    `${known.name}\n`,
  )
  known.hasFile = true
}

/** One that is wanted running or paused has come to rest there. */
export async function settled(server: SandboxServer, id: string): Promise<SandboxInfo> {
  for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(50)) {
    const box = await server.sandbox(id)
    if (box !== undefined && box.status !== 'STARTING') return box
  }
  throw new Error(`the sandbox ${id} does not come to rest: ${JSON.stringify(await server.sandbox(id))}`)
}

/** What a row says and what is there are the same: one agent server that answers, or one that stands still. */
export async function agrees(server: SandboxServer, box: SandboxInfo, known: Known): Promise<void> {
  if (box.status === 'RUNNING') {
    expect(await answers(box)).toBe(true)
    if (known.hasFile) expect(await bash(box, 'cat kept.txt')).toBe(`${known.name}\n`)
  } else if (known.box !== undefined) {
    expect(await answers(known.box)).toBe(false)
  }
  const things = await server.remains(box.id)
  expect(things.filter((thing) => /^(?:listener|container) /.test(thing))).toHaveLength(
    isOnDisk(things) ? 1 : 0,
  )
}

function isOnDisk(things: readonly string[]): boolean {
  return things.some((thing) => /^(?:file|container|volume) /.test(thing))
}

/** Nothing is there without a row: neither files nor anything that belongs to them. */
export async function hasNoStrays(server: SandboxServer): Promise<void> {
  const strays = async () => {
    const ids = rowsOf(server.data).map(({ id }) => id)
    return (await server.remains()).filter(
      (thing) =>
        /^(?:file|mount|control group|container|volume) /.test(thing) &&
        !ids.some((id) => thing.includes(id)),
    )
  }
  for (const deadline = Date.now() + 60_000; Date.now() < deadline; await sleep(100)) {
    if ((await strays()).length === 0) return
  }
  expect(await strays()).toEqual([])
}

/** Waits until something holds; not any longer when the server of it has ended. */
export async function eventually(
  server: SandboxServer,
  check: () => void | Promise<void>,
  limitMs = 60_000,
): Promise<void> {
  for (const deadline = Date.now() + limitMs; ; await sleep(50)) {
    try {
      return await check()
    } catch (error) {
      if (Date.now() > deadline || !server.isRunning) throw error
    }
  }
}

/** A round without a kill tells the steps; then there is one for each of them. Answers the names of those where it was killed. */
export async function everyStep(
  server: SandboxServer,
  scenario: Scenario,
  pick: (steps: readonly string[]) => readonly string[],
): Promise<ReadonlySet<string>> {
  const { steps } = await round(server, scenario, { name: 'whole' })
  const seen = new Set<string>()
  for (const [at, killAt] of pick(steps).entries()) {
    const { isKilled } = await round(server, scenario, { killAt, name: `step-${at}` })
    if (isKilled) seen.add(killAt.replace(/^\d+ /, ''))
  }
  return seen
}

export function pairs(...names: readonly string[]): string[] {
  return names.flatMap((name) => [`before ${name}`, `after ${name}`])
}
