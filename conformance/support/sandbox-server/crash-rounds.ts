import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { bundledProgram } from '@slipway/shared/process/testing'
import { expect } from 'vitest'
import type { SandboxInfo, SandboxServer } from './server.ts'

const selfKillingMain = bundledProgram('conformance/support/sandbox-server/self-killing-server.ts')

/** What a client does with a server that may be killed meanwhile, and what must hold after the next start. */
export interface CrashScenario {
  readonly name: string
  /** Settings of both starts. */
  readonly env?: Readonly<Record<string, string>>
  /** Whether commits of the databases are steps too. */
  readonly hasCommits?: boolean
  /** From no sandbox to no sandbox; rejects when the server does not answer. */
  run(server: SandboxServer, client: ClientState): Promise<void>
  /** The server runs again: acknowledged results must hold, and everything can be repeated and completed. */
  check(server: SandboxServer, client: ClientState): Promise<void>
}

/** What a client knows: its last request, whether that was answered, and what it has observed. */
export class ClientState {
  /** Different in each round. */
  readonly name: string
  lastRequest = 'nothing'
  isAcknowledged = false
  /** The sandbox when it was last running. */
  sandbox: SandboxInfo | undefined
  /** Whether it has a file of the client. */
  hasFile = false

  constructor(name: string) {
    this.name = name
  }

  async request<T>(verb: string, work: () => Promise<T>): Promise<T> {
    this.lastRequest = verb
    this.isAcknowledged = false
    const result = await work()
    this.isAcknowledged = true
    return result
  }
}

export interface CrashRound {
  /** Whether it was killed before the end of the scenario. */
  readonly isKilled: boolean
  /** Steps until then, by number and name: `1 before add`. */
  readonly steps: readonly string[]
}

/**
 * One round: a server that is killed at a step (or by `kill`), the next start, and the checks. When a check
 * fails, the error has everything that is known.
 */
export async function runCrashRound(
  server: SandboxServer,
  scenario: CrashScenario,
  options: {
    readonly name: string
    /** A step, by number and name. */
    readonly killAt?: string
    /** Kills it during the scenario. */
    readonly kill?: (server: SandboxServer) => Promise<void>
    /** Kills it once more during its next start. */
    readonly again?: (server: SandboxServer) => Promise<void>
  },
): Promise<CrashRound> {
  const { killAt = '', name } = options
  const file = join(server.data, `steps-${name}`)
  const args = ['--steps', file, '--kill-at', killAt, ...(scenario.hasCommits ? ['--commits'] : [])]
  const client = new ClientState(name)
  const env = scenario.env ?? {}
  let isKilled = false
  try {
    const killing = options.kill?.(server)
    try {
      await server.start({ env, program: { main: selfKillingMain, args } })
      await scenario.run(server, client)
    } catch (error) {
      if (!(await wasKilled(server))) throw error
    }
    isKilled = (await server.stop()) === 'SIGKILL'
    await killing
    const restartEnv = { ...env, SLIPWAY_RECONCILE_SECONDS: '1' }
    if (options.again !== undefined) {
      const killingAgain = options.again(server)
      // It may be killed before it answers.
      await server.start({ env: restartEnv }).catch(() => {})
      await killingAgain
      await server.stop('SIGKILL')
    }
    await server.start({ env: restartEnv })
    await scenario.check(server, client)
    expect(errorLogLines(server)).toEqual([])
    await server.stop()
  } catch (error) {
    const steps = await readSteps(file)
    const context = `${scenario.name}, killed at ${steps.at(-1)}, after ${client.lastRequest} (answered: ${client.isAcknowledged})`
    throw new Error(`${context}: ${String(error)}\n${server.output().slice(-6_000)}`, { cause: error })
  }
  return { isKilled, steps: await readSteps(file) }
}

/** A failed request may be reported before the end of the process. */
async function wasKilled(server: SandboxServer): Promise<boolean> {
  const exit = await Promise.race([server.waitForExit(), sleep(5_000)])
  return exit === 'SIGKILL'
}

/** Internal errors in the server's log. */
function errorLogLines(server: SandboxServer): string[] {
  return server
    .output()
    .split('\n')
    .filter((line) => line.includes('"level":"error"'))
}

async function readSteps(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.split('\n').filter((line) => line !== '')
}

/** The rows of the sandboxes in the control-plane store, those of the warm pool too. */
export function readSandboxRows(
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
export async function fetchInSandbox(
  sandbox: SandboxInfo,
  path: string,
  init: RequestInit = {},
): Promise<Response> {
  const url = sandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  if (url === undefined || sandbox.session_api_key === null) throw new Error(`${sandbox.id} has no address`)
  return await fetch(`${url}${path}`, {
    ...init,
    headers: { 'x-session-api-key': sandbox.session_api_key, ...init.headers },
  })
}

/** Runs a command in a sandbox and returns its output. */
export async function runInSandbox(sandbox: SandboxInfo, command: string): Promise<string> {
  const response = await fetchInSandbox(sandbox, '/api/bash/execute_bash_command', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ command }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`the command answered ${response.status}: ${text}`)
  return String(JSON.parse(text).stdout ?? '')
}

/**
 * Whether its agent server answers in time. A paused one does not; one that runs may need long beside a load.
 */
export async function isResponsive(sandbox: SandboxInfo, timeoutMs = 1_000): Promise<boolean> {
  return await fetchInSandbox(sandbox, '/api/conversations/count', {
    signal: AbortSignal.timeout(timeoutMs),
  }).then(
    (response) => response.ok,
    () => false,
  )
}

export async function writeMarkerFile(sandbox: SandboxInfo, client: ClientState): Promise<void> {
  // Synced to disk, because a program that may be killed has no cache to rely on.
  expect(await runInSandbox(sandbox, `echo ${client.name} > kept.txt && sync kept.txt && cat kept.txt`)).toBe(
    `${client.name}\n`,
  )
  client.hasFile = true
}

/** A sandbox whose desired state is running or paused has reached it. */
export async function waitUntilSettled(server: SandboxServer, id: string): Promise<SandboxInfo> {
  for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(50)) {
    const sandbox = await server.getSandbox(id)
    if (sandbox !== undefined && sandbox.status !== 'STARTING') return sandbox
  }
  throw new Error(
    `the sandbox ${id} does not reach its desired state: ${JSON.stringify(await server.getSandbox(id))}`,
  )
}

/** The row and the backend agree: one agent server that answers, or one that is paused. */
export async function expectConsistent(
  server: SandboxServer,
  sandbox: SandboxInfo,
  client: ClientState,
): Promise<void> {
  if (sandbox.status === 'RUNNING') {
    expect(await isResponsive(sandbox, 30_000)).toBe(true)
    if (client.hasFile) expect(await runInSandbox(sandbox, 'cat kept.txt')).toBe(`${client.name}\n`)
  } else if (client.sandbox !== undefined) {
    expect(await isResponsive(client.sandbox)).toBe(false)
  }
  const resources = await server.listResources(sandbox.id)
  expect(resources.filter((thing) => /^(?:listener|container) /.test(thing))).toHaveLength(
    isOnDisk(resources) ? 1 : 0,
  )
}

function isOnDisk(resources: readonly string[]): boolean {
  return resources.some((thing) => /^(?:file|container|volume) /.test(thing))
}

/** Nothing exists without a row: neither files nor other resources. */
export async function waitForNoStrays(server: SandboxServer): Promise<void> {
  const strays = async () => {
    const ids = readSandboxRows(server.data).map(({ id }) => id)
    return (await server.listResources()).filter(
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

/** Waits until a condition holds; stops waiting when the server has ended. */
export async function retryUntil(
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

/**
 * A round without a kill lists the steps; then one round for each selected one, on the given servers at the
 * same time: a round mostly waits for processes. Rejects unless a server was killed at a step of each wanted
 * name.
 */
export async function crashAtEveryStep(
  servers: readonly [SandboxServer, ...SandboxServer[]],
  scenario: CrashScenario,
  selectSteps: (steps: readonly string[]) => readonly string[],
  wanted: readonly string[],
): Promise<void> {
  const { steps } = await runCrashRound(servers[0], scenario, { name: 'whole' })
  const rounds = selectSteps(steps).entries()
  const killedAt = new Set<string>()
  const stepsWithoutKill: Record<string, readonly string[]> = { whole: steps }
  const runRounds = async (server: SandboxServer) => {
    // Each takes the next step that no other one has.
    for (const [at, killAt] of rounds) {
      const round = await runCrashRound(server, scenario, { killAt, name: `step-${at}` })
      if (round.isKilled) killedAt.add(killAt.replace(/^\d+ /, ''))
      else stepsWithoutKill[killAt] = round.steps
    }
  }
  const results = await Promise.allSettled(servers.map(runRounds))
  for (const result of results) if (result.status === 'rejected') throw result.reason
  const missed = wanted.filter((name) => !killedAt.has(name))
  expect(missed, `never killed at them; rounds to their end: ${JSON.stringify(stepsWithoutKill)}`).toEqual([])
}

export function beforeAndAfter(...names: readonly string[]): string[] {
  return names.flatMap((name) => [`before ${name}`, `after ${name}`])
}
