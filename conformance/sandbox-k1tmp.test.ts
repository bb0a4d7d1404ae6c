import { expect, test } from 'vitest'
import { round, type Scenario } from './sandbox-crash.ts'
import { conversation, life, pool } from './sandbox-scenarios.ts'
import { SandboxServer } from './sandbox-server.ts'

/** How often the server is killed at a random moment; from 100 on at every commit of a conversation's start too. */
const kills = Number(process.env.SLIPWAY_SANDBOX_KILLS ?? 3)
const isThorough = kills >= 100
const limitMs = 600_000 + kills * 120_000

/** A round without a kill tells the steps; then there is one for each of them. Answers the names of those where it was killed. */
async function everyStep(
  scenario: Scenario,
  pick: (steps: readonly string[]) => readonly string[],
): Promise<ReadonlySet<string>> {
  await using server = await SandboxServer.prepare()
  const { steps } = await round(server, scenario, { name: 'whole' })
  const seen = new Set<string>()
  for (const [at, killAt] of pick(steps).entries()) {
    const { isKilled } = await round(server, scenario, { killAt, name: `step-${at}` })
    console.log(scenario.name, killAt, isKilled)
    if (isKilled) seen.add(killAt.replace(/^\d+ /, ''))
  }
  return seen
}

const pairs = (...names: readonly string[]) => names.flatMap((name) => [`before ${name}`, `after ${name}`])

test(
  'killed at any step of start, pause, resume and delete, it loses nothing and leaves nothing behind',
  async () => {
    const seen = await everyStep(life, (steps) => steps)
    const wishes = ['write wanted paused', 'write wanted running', 'write wanted gone']
    const calls = ['add', 'start', 'pause', 'resume', 'remove', 'forget']
    expect([...seen]).toEqual(
      expect.arrayContaining(pairs(...wishes, ...calls, 'write RUNNING', 'write PAUSED')),
    )
  },
  limitMs,
)

test(
  'killed at any step of a start from the warm pool, it loses nothing and leaves nothing behind',
  async () => {
    const seen = await everyStep(pool, (steps) =>
      isThorough ? steps : steps.filter((step) => step.startsWith('1 ')),
    )
    expect([...seen]).toEqual(
      expect.arrayContaining(pairs('add', 'start', 'claim', 'init', 'remove', 'forget')),
    )
  },
  limitMs,
)

test(
  'killed at any step of a conversation, it can be started again and deleted, and nothing is there twice',
  async () => {
    const seen = await everyStep(conversation, (steps) => {
      const commits = steps.filter((step) => step.endsWith(' commit'))
      return isThorough ? commits : commits.filter((_, at) => at % 7 === 0)
    })
    expect([...seen]).toEqual(expect.arrayContaining(pairs('commit')))
  },
  limitMs,
)
