import { expect, onTestFinished, test } from 'vitest'
import { bashStep, findLogIssues, finishStep } from '../support/agent-driver.ts'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { createTestDatabase, hasTestDatabase } from '../support/test-database.ts'

/** The agent server from outside: a run over HTTP and a socket, kill -9, reopen; on both storage engines. */

if (!hasTestDatabase) console.warn('SKIPPED: the smoke of PostgreSQL; Debian: apt-get install postgresql')

async function openServer(engine: string): Promise<OwnAgentServer> {
  const database = engine === 'PostgreSQL' ? await createTestDatabase() : undefined
  const env = database === undefined ? {} : { SLIPWAY_DATABASE_URL: database.url }
  const server = await OwnAgentServer.open({ env })
  onTestFinished(async () => {
    await server[Symbol.asyncDispose]()
    await database?.[Symbol.asyncDispose]()
  })
  return server
}

test.each(['SQLite', ...(hasTestDatabase ? ['PostgreSQL'] : [])])(
  'a run on %s is followed over a socket, and a kill in its middle loses nothing that was acknowledged',
  { timeout: 60_000 },
  async (engine) => {
    const server = await openServer(engine)
    const script = [bashStep('echo first'), bashStep('sleep 2; echo second'), finishStep('It continues.')]
    const { id } = await server.driver.createScripted(script)
    const socket = server.driver.openSocket(`/sockets/events/${id}?resend_mode=all`)
    await socket.waitUntil((events) => JSON.stringify(events).includes('echo second'))
    await socket[Symbol.asyncDispose]()
    const acknowledged = await server.driver.getEvents(id)
    await server.restart('SIGKILL')

    await server.driver.waitUntilIdle(id)
    const kept = await server.driver.getEvents(id)
    expect(kept.slice(0, acknowledged.length)).toEqual(acknowledged)
    const { status } = await server.driver.sendMessage(id, [{ type: 'text', text: 'Continue.' }], {
      run: true,
    })
    expect(status).toBe(200)
    await server.driver.waitForEvent(id, (event) => JSON.stringify(event).includes('It continues.'))
    expect(findLogIssues(await server.driver.waitUntilIdle(id))).toEqual([])
  },
)
