import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { DockerBackend } from './docker-backend.ts'
import { Engine } from './engine.ts'

/** The far side: something that listens where an engine would. */
async function listen(answer: RequestListener): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-engine-'))
  const socketPath = join(directory, 'engine.sock')
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await rm(directory, { recursive: true })
  })
  return socketPath
}

const look = ['GET', '/containers/json'] as const

test('an engine that takes a call and never answers is an error that names its socket', async () => {
  const socketPath = await listen(() => {})
  const engine = new Engine(socketPath, 300)
  await expect(engine.call(...look)).rejects.toThrow(`${socketPath} did not answer within 0.3 s`)
})

test('an engine that answers the half of it is an error that names its socket', async () => {
  const socketPath = await listen((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('[')
  })
  await expect(new Engine(socketPath, 300).call(...look)).rejects.toThrow(`${socketPath} did not answer`)
})

test('an engine that hangs up in the middle is an error that names its socket', async () => {
  const socketPath = await listen((request) => request.socket.destroy())
  await expect(new Engine(socketPath).call(...look)).rejects.toThrow(`${socketPath} is not reachable`)
})

test('each verb of a backend whose engine hangs rejects and says what to do', {
  timeout: 60_000,
}, async () => {
  const socketPath = await listen(() => {})
  const backend = new DockerBackend({
    socketPath: `unix://${socketPath}`,
    ledgerId: 'f'.repeat(32),
    log: () => {},
    defaultImage: 'x',
  })
  const order = {
    id: 'a',
    image: null,
    command: [],
    env: {},
    workingDir: '',
    resources: {},
    network: 'shared',
  } as const
  const verbs = [
    backend.start(order),
    backend.resume(order),
    backend.pause('a'),
    backend.remove('a'),
    backend.isolation(),
    backend.gatewayAddress(),
  ]
  for (const settled of await Promise.allSettled(verbs)) {
    expect(settled).toMatchObject({ status: 'rejected' })
    expect(String('reason' in settled && settled.reason)).toContain(
      `The container engine at ${socketPath} did not answer within 10 s: look at its log, or restart it`,
    )
  }
})

test('an engine that is missing is an error that says to start one', async () => {
  const engine = new Engine('/nonexistent/docker.sock')
  await expect(engine.call(...look)).rejects.toThrow(
    'The container engine at /nonexistent/docker.sock is not reachable (ENOENT): start Docker or Podman',
  )
})

test('an engine that is started after a failed call is found', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-engine-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const engine = new Engine(join(directory, 'engine.sock'))
  await expect(engine.call(...look)).rejects.toThrow('ENOENT')
  const server = createServer((_, response) => response.end('[]'))
  await new Promise<void>((resolve) => server.listen(join(directory, 'engine.sock'), resolve))
  onTestFinished(() => void server.close())
  expect(await engine.call(...look)).toEqual({ ok: true, value: [] })
})

test('only Unix sockets are accepted, and credentials in the address are not shown', () => {
  expect(() => new Engine('tcp://somebody:secret@10.0.0.1:2375')).toThrow(
    'over a Unix socket, not at tcp://…',
  )
})

test('what is sent is in the body and never in the address', async () => {
  const calls: { url: string; body: string }[] = []
  const socketPath = await listen(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    calls.push({ url: request.url ?? '', body })
    response.end('{}')
  })
  const body = { Env: ['KEY=sesame'] }
  await new Engine(socketPath).call('POST', '/containers/create', { query: { name: 'a b' }, body })
  expect(calls).toEqual([{ url: '/containers/create?name=a%20b', body: JSON.stringify(body) }])
})

test('the environment of the process does not lead to another engine', async () => {
  process.env.DOCKER_HOST = 'tcp://127.0.0.1:1'
  onTestFinished(() => {
    delete process.env.DOCKER_HOST
  })
  const socketPath = await listen((_, response) => response.end('"here"'))
  expect(await new Engine(socketPath).call(...look)).toEqual({ ok: true, value: 'here' })
})

test('a refusal is a value with the words of the engine in one line', async () => {
  const socketPath = await listen((_, response) => {
    response.writeHead(409, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ message: 'it is\nin use' }))
  })
  const engine = new Engine(socketPath)
  expect(await engine.call(...look)).toEqual({ ok: false, status: 409, reason: 'it is in use' })
  await expect(engine.callOrThrow(...look)).rejects.toThrow(
    'refused GET /containers/json (409): it is in use',
  )
})
