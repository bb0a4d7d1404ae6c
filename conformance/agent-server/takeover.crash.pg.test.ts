import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { bashStep, findLogIssues, scriptedModel, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import { ServerGroup } from '../support/server-group.ts'

/** 200 for a thorough run. */
const rounds = Number(process.env.SLIPWAY_TAKEOVER_ROUNDS ?? 2)
/** Rounds with one set of conversations, because the time to verify grows with each. */
const roundsOfGroup = 20
const leaseSeconds = 5
const isPostgres = process.env.SLIPWAY_TEST_DATABASE_URL !== undefined
vi.setConfig({ testTimeout: 240_000 + rounds * 30_000 })

describe.skipIf(!isPostgres)('takeover of conversations', () => {
  test(`the owner is killed or frozen under load, ${rounds} times: nothing is lost, doubled or reordered`, async () => {
    const delays: number[] = []
    let acknowledged = 0
    let calls = 0
    for (let left = rounds; left > 0; left -= roundsOfGroup) {
      const counts = await runGroup(Math.min(left, roundsOfGroup), delays)
      acknowledged += counts.acknowledged
      calls += counts.calls
    }
    delays.sort((a, b) => a - b)
    const at = (share: number) => Math.round(delays[Math.ceil(delays.length * share) - 1] ?? Number.NaN)
    console.info(
      `${rounds} takeovers, lease ${leaseSeconds} s: ${acknowledged} messages and ${calls} tool calls, after the end of the lease p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, at most ${at(1)} ms`,
    )
    expect(delays).toHaveLength(rounds)
  })
})

async function runGroup(count: number, delays: number[]): Promise<{ acknowledged: number; calls: number }> {
  await using group = await ServerGroup.open(3, { leaseSeconds })
  const script = Array.from({ length: 2_000 }, (_, n) => ({
    ...(n % 4 === 3
      ? toolCallsStep(
          toolCall('terminal', { command: `echo ${n}a` }),
          toolCall('think', { thought: `${n}b` }),
        )
      : bashStep(`echo ${n}`)),
    delay_ms: 40,
  }))
  const runs: string[] = []
  for (let n = 0; n < 3; n++) {
    const { driver } = group.member(n)
    const more = {
      stuck_detection: false,
      max_iterations: 5_000,
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    }
    // A server that the machine keeps waiting for longer than a lease refuses for a moment.
    const create = () => driver.create({ llm: scriptedModel(script) }, more)
    runs.push((await until(create)).id)
  }
  const logs = [
    await until(() => group.member(0).api.import('')),
    await until(() => group.member(1).api.import('')),
  ]
  const over = new AbortController()
  const writers = Array.from({ length: 4 }, (_, n) => write(group, logs, n, over.signal))
  try {
    for (let round = 0; round < count; round++) {
      await sleep(200 + Math.random() * 500)
      delays.push(
        await endOwner(group, runs[round % runs.length] ?? '', round % 2 === 0 ? 'SIGKILL' : 'SIGSTOP'),
      )
    }
  } finally {
    over.abort()
  }
  const acknowledged = (await Promise.all(writers)).flat()
  for (const id of logs) await verifyMessages(group, id, acknowledged)
  let calls = 0
  for (const id of runs) {
    const { driver } = group.member(0)
    await until(async () => ((await driver.post(id, 'interrupt')).status === 200 ? true : undefined))
    await until(async () => ((await driver.getInfo(id)).execution_status === 'paused' ? true : undefined))
    const events = await group.member(1).driver.getEvents(id)
    expect(findLogIssues(events)).toEqual([])
    expect(events.length).toBe(await group.member(2).api.count(id))
    calls += events.filter(({ kind }) => kind === 'ActionEvent').length
  }
  const { rows } = await group.db.query(
    'SELECT 1 FROM conversation WHERE is_visible AND head <> (SELECT count(*) FROM event WHERE conversation = ordinal)',
  )
  expect(rows).toEqual([])
  return { acknowledged: acknowledged.length, calls }
}

/**
 * Kills or freezes the server that has a run, waits until another continues with it, and brings the server
 * back. Returns the milliseconds from the end of the lease to the first event of the next owner.
 */
async function endOwner(group: ServerGroup, id: string, signal: 'SIGKILL' | 'SIGSTOP'): Promise<number> {
  const lease = await until(() => group.leaseOf(id))
  const { process: owner } = lease.member
  if (signal === 'SIGKILL') await owner.stop(signal)
  else process.kill(owner.pid ?? 0, signal)
  const before = await group.db.query<{ head: number; due: number }>(
    `SELECT head, (extract(epoch FROM expires_at) * 1000)::float8 AS due FROM conversation
     JOIN agent_server ON agent_server.id = $2 WHERE conversation.id = $1`,
    [id, lease.server],
  )
  const { due = 0 } = before.rows[0] ?? {}
  const takenAt = await until(async () => {
    const { rows } = await group.db.query<{ now: number }>(
      `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now FROM conversation
       WHERE id = $1 AND server <> $2 AND epoch > $3 AND status = 'running' AND head > $4`,
      [id, lease.server, lease.epoch, before.rows[0]?.head ?? 0],
    )
    return rows[0]?.now
  })
  if (signal === 'SIGKILL') await group.restart(lease.member)
  else {
    process.kill(owner.pid ?? 0, 'SIGCONT')
    const sql = 'SELECT id FROM agent_server WHERE url = $1 AND id <> $2'
    await until(async () => (await group.db.query(sql, [owner.url, lease.server])).rows[0])
  }
  return takenAt - due
}

/** Sends numbered messages through all servers in turn, each until it is acknowledged. */
async function write(
  group: ServerGroup,
  logs: readonly string[],
  writer: number,
  signal: AbortSignal,
): Promise<string[]> {
  const acknowledged: string[] = []
  for (let n = 0; !signal.aborted; n++) {
    const id = logs[n % logs.length] ?? ''
    const text = `${id} writer ${writer} message ${n}`
    for (let attempt = 0; ; attempt++) {
      const status = await send(group, writer + n + attempt, id, text)
      if (status === 200) break
      expect([0, 502, 503]).toContain(status)
      await sleep(50)
    }
    acknowledged.push(text)
  }
  return acknowledged
}

/** 0 when there was no answer. A frozen server gives none: another attempt goes to the next server. */
async function send(group: ServerGroup, at: number, id: string, text: string): Promise<number> {
  try {
    const response = await group.member(at).api.fetch(`/api/conversations/${id}/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': text },
      body: JSON.stringify({ content: [{ type: 'text', text }] }),
      signal: AbortSignal.timeout(1_500),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}

async function verifyMessages(
  group: ServerGroup,
  id: string,
  acknowledged: readonly string[],
): Promise<void> {
  const { rows } = await group.db.query<{ body: Buffer; position: number }>(
    `SELECT body, position FROM event JOIN conversation ON ordinal = conversation
     WHERE conversation.id = $1 AND is_visible ORDER BY position`,
    [id],
  )
  const texts = rows.map(({ body }) => JSON.parse(body.toString()).llm_message.content[0].text as string)
  expect(rows.map(({ position }) => position)).toEqual(rows.map((_, at) => at + 1))
  expect(new Set(texts).size).toBe(texts.length)
  expect(acknowledged.filter((text) => text.startsWith(id) && !texts.includes(text))).toEqual([])
  for (let writer = 0; writer < 4; writer++) {
    const numbers = texts
      .filter((text) => text.includes(`writer ${writer} `))
      .map((text) => Number(text.split(' ').at(-1)))
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
  }
}

/** Repeats an attempt until it has a result. */
async function until<T>(attempt: () => Promise<T | undefined>): Promise<T> {
  for (const endMs = performance.now() + 90_000; performance.now() < endMs; await sleep(25)) {
    const result = await attempt().catch(() => undefined)
    if (result !== undefined) return result
  }
  throw new Error('It did not happen in time')
}
