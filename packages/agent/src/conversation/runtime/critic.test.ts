import { once } from 'node:events'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Critic } from '@slipway/protocol'
import { HostileRepository } from '@slipway/shared/git/testing'
import { systemClock } from '@slipway/shared/time'
import { expect, onTestFinished, test } from 'vitest'
import { Workspace } from '../../workspace/workspace.ts'
import { createCritic } from './critic.ts'

const neverAborted = new AbortController().signal
const mode = { mode: 'finish_and_message', iterative_refinement: undefined } as const
const env = {
  PATH: '/usr/bin:/bin',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_AUTHOR_NAME: 'T',
  GIT_AUTHOR_EMAIL: 't@example.com',
  GIT_COMMITTER_NAME: 'T',
  GIT_COMMITTER_EMAIL: 't@example.com',
}

async function openWorkspace(): Promise<Workspace> {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-critic-'))
  const workspace = await Workspace.open({ directory, env })
  onTestFinished(async () => {
    await workspace[Symbol.asyncDispose]()
    await rm(directory, { recursive: true, force: true })
  })
  return workspace
}

const finish = { kind: 'ActionEvent', action: { kind: 'FinishAction', message: 'done' } }
const work = { kind: 'ActionEvent', action: { kind: 'TerminalAction', command: 'ls' } }

test('the critic that passes everything gives 1, with a message member', async () => {
  const workspace = await openWorkspace()
  const result = await createCritic({ kind: 'PassCritic', ...mode }, systemClock)(
    { events: [], message: '', workspace },
    neverAborted,
  )
  expect(result).toEqual({ score: 1, message: null })
})

test('the critic of finishing gives 1 only when the last action is to finish', async () => {
  const workspace = await openWorkspace()
  const judge = createCritic({ kind: 'AgentFinishedCritic', ...mode }, systemClock)
  const scores = [[work, finish], [finish, work], [], [{ kind: 'ActionEvent', action: null }]].map(
    async (events) => (await judge({ events, message: '', workspace }, neverAborted))?.score,
  )
  expect(await Promise.all(scores)).toEqual([1, 0, 0, 0])
})

test('the critic of patches sees changes, new files and new commits, and does not judge without a repository', async () => {
  const workspace = await openWorkspace()
  const git = async (...args: string[]) => {
    const exit = await workspace.run('git', args)
    expect(exit.stderr.toString()).toBe('')
    expect(exit.exitCode).toBe(0)
  }
  const judge = createCritic({ kind: 'EmptyPatchCritic', ...mode }, systemClock)
  const start = new Date(Date.now() - 60_000).toISOString().replace('Z', '')
  const score = async (events: { kind: string; timestamp?: string }[] = []) =>
    (await judge({ events, message: '', workspace }, neverAborted))?.score
  expect(await score()).toBe(undefined)
  await git('init', '-q', '-b', 'main')
  expect(await score([{ kind: 'MessageEvent', timestamp: start }])).toBe(0)
  await writeFile(join(workspace.directory, 'a'), '1')
  expect(await score()).toBe(1)
  await git('add', 'a')
  expect(await score()).toBe(1)
  await git('commit', '-q', '-m', 'first')
  expect(await score()).toBe(0)
  for (const timestamp of [start, `${start}Z`, `${start}+00:00`])
    expect(await score([{ kind: 'MessageEvent', timestamp }])).toBe(1)
  const later = new Date(Date.now() + 60_000).toISOString()
  expect(await score([{ kind: 'MessageEvent', timestamp: later }])).toBe(0)
  await writeFile(join(workspace.directory, 'a'), '2')
  expect(await score()).toBe(1)
})

test('the critic of patches judges a repository with hundreds of tracked branches', async () => {
  const workspace = await openWorkspace()
  await workspace.run('git', ['init', '-q', '-b', 'main'])
  const branches = Array.from(
    { length: 1000 },
    (_, n) => `[branch "a-branch-with-a-long-name-${n}"]\n\tremote = origin\n\tmerge = refs/heads/${n}\n`,
  )
  await appendFile(join(workspace.directory, '.git/config'), branches.join(''))
  const judge = createCritic({ kind: 'EmptyPatchCritic', ...mode }, systemClock)
  expect((await judge({ events: [], message: '', workspace }, neverAborted))?.score).toBe(0)
})

test('the critic of patches runs no program that the repository names', async () => {
  using it = new HostileRepository()
  await using workspace = await Workspace.open({ directory: it.root, env: it.env })
  const judge = createCritic({ kind: 'EmptyPatchCritic', ...mode }, systemClock)
  const result = await judge({ events: [], message: '', workspace }, neverAborted)
  expect(result?.score).toBe(1)
  expect(it.marks).toEqual([])
})

type Answer = (request: IncomingMessage, body: string, response: ServerResponse) => void

async function serve(answer: Answer): Promise<string> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    answer(request, Buffer.concat(chunks).toString(), response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  // The address of a server that listens on a port is no text.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/judge`
}

function remote(server_url: string, timeout = 30): Critic {
  return { kind: 'APIBasedCritic', server_url, api_key: 'k3y', model_name: 'judge-1', timeout, ...mode }
}

test('a remote critic is sent model, message and events, and its answer is the result', async () => {
  const workspace = await openWorkspace()
  const seen: unknown[] = []
  const url = await serve((request, body, response) => {
    seen.push(request.method, request.headers.authorization, JSON.parse(body))
    response.end(
      JSON.stringify({ score: 0.25, message: 'tests are missing', metadata: { a: 1 }, more: true }),
    )
  })
  const input = { events: [work, finish], message: 'done', workspace }
  expect(await createCritic(remote(url), systemClock)(input, neverAborted)).toEqual({
    score: 0.25,
    message: 'tests are missing',
    metadata: { a: 1 },
  })
  expect(seen).toEqual(['POST', 'Bearer k3y', { model: 'judge-1', message: 'done', events: [work, finish] }])
})

test('a remote critic is sent the newest events that fit', async () => {
  const workspace = await openWorkspace()
  let count = 0
  const url = await serve((_request, body, response) => {
    expect(body.length).toBeLessThan(5 * 1024 * 1024)
    const { events } = JSON.parse(body)
    count = events.length
    expect(events.at(-1)).toEqual(finish)
    response.end('{"score": 1}')
  })
  const large = { kind: 'ObservationEvent', text: 'x'.repeat(1024 * 1024) }
  const input = { events: [large, large, large, large, large, finish], message: '', workspace }
  expect(await createCritic(remote(url), systemClock)(input, neverAborted)).toEqual({
    score: 1,
    message: null,
  })
  expect(count).toBe(4)
})

test('an invalid answer, an error or a redirection of a remote critic gives no result', async () => {
  const workspace = await openWorkspace()
  const answers: Answer[] = [
    (_request, _body, response) => response.end('{"score": 2}'),
    (_request, _body, response) => response.end('{"score": "1"}'),
    (_request, _body, response) => response.end('{"score": null}'),
    (_request, _body, response) => response.end('null'),
    (_request, _body, response) => response.end('no JSON'),
    (_request, _body, response) => response.end(`{"score": 1, "message": "${'x'.repeat(2 * 1024 * 1024)}"}`),
    (_request, _body, response) => response.writeHead(500).end('{"score": 1}'),
    (_request, _body, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end(),
    (request) => request.socket.destroy(),
  ]
  for (const answer of answers) {
    const url = await serve(answer)
    expect(
      await createCritic(remote(url), systemClock)({ events: [], message: '', workspace }, neverAborted),
    ).toBe(undefined)
  }
})

test('a request to a remote critic ends after its time-out and when the signal aborts', async () => {
  const workspace = await openWorkspace()
  const url = await serve(() => {})
  const input = { events: [], message: '', workspace }
  expect(await createCritic(remote(url, 0.1234), systemClock)(input, neverAborted)).toBe(undefined)
  expect(await createCritic(remote(url), systemClock)(input, AbortSignal.timeout(100))).toBe(undefined)
})

test('a result always has its message member', async () => {
  const workspace = await openWorkspace()
  const url = await serve((_request, _body, response) =>
    response.end('{"score": 0, "message": 7, "metadata": []}'),
  )
  const result = await createCritic(remote(url), systemClock)(
    { events: [], message: '', workspace },
    neverAborted,
  )
  expect(result).toStrictEqual({ score: 0, message: null })
})
