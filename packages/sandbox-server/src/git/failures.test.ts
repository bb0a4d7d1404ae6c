import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, onTestFinished, test } from 'vitest'
import type { ProviderFetch } from './provider-api.ts'
import { fakeToken } from './testing/fake-provider.ts'
import { fakeGithub, github, openGitServer } from './testing/git-server.ts'

test('providers that cannot be asked are named', async () => {
  const tokens = {
    azure_devops: { token: fakeToken },
    bitbucket_data_center: { token: fakeToken, host: 'x.y' },
  }
  const { call } = await openGitServer(tokens, fakeGithub().fetch)
  for (const provider of Object.keys(tokens)) {
    const { status, body } = await call(`git/repositories/search?provider=${provider}`)
    expect([status, body.detail]).toEqual([400, `The provider ${provider} cannot be asked here`])
  }
  const names = 'azure_devops, bitbucket_data_center'
  const detail = `Provider ${names} doesn't support suggested tasks`
  expect(await call('git/suggested-tasks/search')).toMatchObject({ status: 400, body: { detail } })
  expect((await call('users/git-info')).status).toBe(400)
  // Another one has a token.
  expect((await call('git/repositories/search?provider=github')).status).toBe(403)
})

const graphqlErrors = (type: string) => () =>
  Response.json({ data: { repository: null }, errors: [{ type, message: `canary ${fakeToken}` }] })
const status =
  (code: number, headers: Record<string, string> = {}) =>
  () =>
    new Response(`canary ${fakeToken}`, { status: code, headers })

/** The failure of the provider; status and words of the answer. */
const failures: readonly (readonly [() => Response, number, string])[] = [
  [status(401), 401, 'Invalid github token'],
  [status(403), 403, 'The github token may not read that'],
  [status(403, { 'x-ratelimit-remaining': '0' }), 429, 'github API rate limit exceeded'],
  [status(404), 404, 'Resource not found on github API'],
  [status(429, { 'retry-after': '17' }), 429, 'github API rate limit exceeded'],
  [status(422), 400, 'github API refuses the request with status 422'],
  [status(503), 502, 'github API answers with status 503'],
  [
    status(302, { location: 'https://evil.example/' }),
    502,
    'github API redirects the request, which is not followed',
  ],
  [() => new Response('<html>'), 502, 'github API cannot be reached or sent no valid answer'],
  [() => new Response('{"a":1}'), 502, 'github API sent an unexpected answer'],
  [() => new Response('[1]'), 502, 'github API sent an unexpected answer'],
  // Never parsed: 700,000 objects would hold up every other request.
  [
    () => new Response(`[${'{},'.repeat(700_000)}{}]`),
    502,
    'github API cannot be reached or sent no valid answer',
  ],
  [() => Response.json(Array(1_001).fill({})), 502, 'github API sent an unexpected answer'],
  [
    () => {
      throw new Error(`connect ${fakeToken}`)
    },
    502,
    'github API cannot be reached or sent no valid answer',
  ],
]

test('each failure of a provider has its status and words, and is no empty list', async () => {
  const fake = fakeGithub()
  const { call } = await openGitServer(github, fake.fetch)
  const paths = [
    ...['installations/search?provider=github', 'repositories/search?provider=github'],
    ...['branches/search?provider=github&repository=a/b&query=', 'suggested-tasks/search'],
    ...[
      'branches/search?provider=github&repository=a/b&query=x',
      'repositories/search?provider=github&query=x',
    ],
  ]
  for (const [failure, expected, detail] of failures) {
    fake.failures = { 'api.github.com': failure }
    for (const path of paths) {
      const answer = await call(`git/${path}`)
      expect([path, answer.status, answer.body.detail]).toEqual([path, expected, detail])
    }
  }
  // No redirect is followed.
  expect(new Set(fake.requests.map(({ url }) => url.origin))).toEqual(new Set(['https://api.github.com']))
  fake.failures = { 'api.github.com': status(429, { 'retry-after': '17' }) }
  expect((await call('git/suggested-tasks/search')).retryAfter).toBe('17')
  for (const [type, expected] of [
    ['RATE_LIMITED', 429],
    ['NOT_FOUND', 404],
    ['FORBIDDEN', 403],
    ['OTHER', 502],
  ] as const) {
    fake.failures = { graphql: graphqlErrors(type) }
    expect([type, (await call(`git/${paths[4]}`)).status]).toEqual([type, expected])
  }
})

test('a provider that does not answer in time is a 504', async () => {
  const clock = new FakeClock()
  const silent: ProviderFetch = (_, { signal }) =>
    new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
  const { call } = await openGitServer(github, silent, clock)
  const answer = call('git/installations/search?provider=github')
  await clock.untilWaiting(20_000)
  await clock.advance(20_000)
  expect(await answer).toMatchObject({ status: 504, body: { detail: 'github API request timed out' } })
})

test('hosts are asked by https, and private ones for the administrator of the server alone', async () => {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const path = 'git/repositories/search?provider=gitlab'
  const stored = { gitlab: { token: fakeToken, host: '' } }
  const { call } = await openGitServer(stored)
  const ask = async (host: string, who: string) => {
    stored.gitlab.host = host
    const { status, body } = await call(path, who)
    return [status, body.detail]
  }
  const isPrivate = [400, 'The host of gitlab is in a private network or on this machine']
  for (const host of [`127.0.0.1:${port}`, `https://localhost:${port}/x`, `[::ffff:127.0.0.1]:${port}`])
    for (const who of ['ann', 'bound']) expect([host, await ask(host, who)]).toEqual([host, isPrivate])
  const noHttps = [400, 'The host of gitlab must be reached by https']
  for (const host of [`http://127.0.0.1:${port}`, `file://x`, 'https://user:pass@x.y', 'a b'])
    expect([host, await ask(host, 'root')]).toEqual([host, noHttps])
  expect(connections).toBe(0)
  const closed = [502, 'gitlab API cannot be reached or sent no valid answer']
  expect(await ask(`127.0.0.1:${port}`, 'root')).toEqual(closed)
  expect(connections).toBe(1)
})

test('Bitbucket at an IP address, whose interface has no address, is named', async () => {
  for (const host of ['10.0.0.1', '[::1]', 'https://192.0.2.1:8443/x']) {
    const { call } = await openGitServer({ bitbucket: { token: fakeToken, host } }, fakeGithub().fetch)
    const detail = 'The host of bitbucket must be a name, not an IP address'
    for (const path of ['git/repositories/search?provider=bitbucket', 'users/git-info'])
      expect([host, await call(path)]).toMatchObject([host, { status: 400, body: { detail } }])
  }
})

test('a workspace whose name is no text has no address', async () => {
  const answer: ProviderFetch = async () => Response.json({ values: [{ workspace: { slug: '\ud800' } }] })
  const { call } = await openGitServer({ bitbucket: { token: fakeToken } }, answer)
  expect((await call('git/repositories/search?provider=bitbucket')).status).toBe(400)
})

test.each([
  ['null', 'git/repositories/search?provider=github&query=https://github.com/a/b'],
  ['{}', 'git/repositories/search?provider=github&query=https://github.com/a/b'],
  ['[{}]', 'git/repositories/search?provider=github'],
  ['{}', 'users/git-info'],
  ['null', 'users/git-info'],
])('%s is neither a repository nor a user: %s', async (text, path) => {
  const fake = fakeGithub()
  fake.failures = { 'api.github.com': () => new Response(text) }
  const { call } = await openGitServer(github, fake.fetch)
  expect(await call(path)).toMatchObject({
    status: 502,
    body: { detail: 'github API sent an unexpected answer' },
  })
})
