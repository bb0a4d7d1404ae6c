import { setTimeout as sleep } from 'node:timers/promises'
import { getJson, startFloor } from '../support/fixtures.ts'
import { residentMb, type Server } from '../support/processes.ts'
import { Floor } from './floor.ts'

/** Milliseconds from the start of a server's process to its first answer; stops the server. */
export async function measureStart(open: () => Promise<Server>, path = '/ready'): Promise<number> {
  const startedAt = performance.now()
  await using server = await open()
  await getJson(server, path)
  return performance.now() - startedAt
}

/** The same of the smallest server that can be started. */
export function measureBareStart(): Promise<number> {
  return measureStart(() => startFloor('hello'))
}

/** Of samples of `measureBareStart`. */
export function bareStart(samples: readonly number[]): Floor {
  return Floor.of('the start of a bare `node:http` server', samples)
}

/** Resident memory in MB of that server after some idle time: Node itself, with its libraries mapped. */
export async function measureBareMemory(idleMs: number): Promise<Floor> {
  await using server = await startFloor('hello')
  await getJson(server, '/ready')
  await sleep(idleMs)
  return Floor.of('a bare `node:http` server', [residentMb(server.pid)])
}
