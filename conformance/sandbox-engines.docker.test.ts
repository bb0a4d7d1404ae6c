import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bash as command, finish, scripted } from './agent.ts'
import { bash, inside } from './sandbox-crash.ts'
import { EnginePlace, type TestEngine, testEngine } from './sandbox-engine.ts'
import type { SandboxInfo, SandboxServer } from './sandbox-server.ts'
import { type AppConversation, eventually, makeUser, type PageOf, type StartTask, type User } from './sandbox-user.ts'
import { WebSocket } from 'ws'

/** Conversations in containers, from outside: on each engine what they promise on any backend, and what only containers can show. */

const limit = { timeout: 300_000 }
const conversations = '/api/v1/app-conversations'

for (const [name, variable] of [
  ['docker', 'SLIPWAY_TEST_DOCKER_SOCKET'],
  ['podman', 'SLIPWAY_TEST_PODMAN_SOCKET'],
] as const) {
  const engine = testEngine(variable)
  if (engine === undefined) {
    test.skip(`${name}: ${variable} is not set; \`.ci/engines npx vitest run <file>\` starts an engine and sets it`, () => {})
  } else {
    describe(name, () => suite(name, engine))
  }
}

function suite(name: string, engine: TestEngine): void {
  const opened = async (env: Readonly<Record<string, string>> = {}) => {
    const place = await EnginePlace.open(engine, env)
    onTestFinished(async () => {
      await place[Symbol.asyncDispose]()
    }, 200_000)
    return place
  }
  const began = performance.now()
  const timed = async <T>(what: string, work: Promise<T>): Promise<T> => {
    const from = performance.now()
    const done = await work
    console.info(`${name}: ${what} took ${Math.round(performance.now() - from)} ms`)
    return done
  }

  test('a conversation goes on over a pause, and over the end of the server at any time', limit, async () => {
    const { server, ...place } = await opened()
  })
  void began
  void timed
}
