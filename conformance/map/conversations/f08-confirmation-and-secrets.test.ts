import { access, mkdir, mkdtemp, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect } from 'vitest'
import { endFamily, mapCase, notApplicable } from '../frame.ts'
import {
  commandReply,
  finishReply,
  heldReply,
  type Json,
  type MapClient,
  OwnMapServer,
  openMapServer,
  openModel,
  type ScriptedReply,
  unknownId,
  waitFor,
  waitForFrames,
} from '../map-server.ts'

const server = openMapServer()
const plain = { autotitle: false }

const setPolicy = (id: string, policy: unknown, on: MapClient = server) =>
  on.post(id, 'confirmation_policy', { policy })
const respond = (id: string, body: unknown, on: MapClient = server) =>
  on.post(id, 'events/respond_to_confirmation', body)
const kinds = async (id: string, on: MapClient = server) => (await on.getEvents(id)).map(({ kind }) => kind)

/** A conversation in its own folder, asked for confirmation of everything, with a message that runs. */
async function waiting(on: MapClient = server, ...replies: readonly ScriptedReply[]) {
  const folder = await mkdtemp(join(on.directory, 'confirm-'))
  const model = await server.openModel(...replies)
  const { id } = await on.createConversation(model, { ...plain, workspace: { working_dir: folder } })
  await setPolicy(id, { kind: 'AlwaysConfirm' }, on)
  await on.sendMessage(id, 'Begin.', true)
  await on.waitForStatus(id, 'waiting_for_confirmation')
  return { id, folder, model }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

mapCase('F08.policy-set', 'a policy is set, shown and told', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect(await server.getConversation(id)).toMatchObject({ confirmation_policy: { kind: 'NeverConfirm' } })
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  const risky = { kind: 'ConfirmRisky', threshold: 'MEDIUM', confirm_unknown: false }
  for (const policy of [{ kind: 'AlwaysConfirm' }, risky, { kind: 'NeverConfirm' }]) {
    expect(await setPolicy(id, policy)).toMatchObject({ status: 200, body: { success: true } })
    expect((await server.getConversation(id)).confirmation_policy).toMatchObject(policy)
  }
  await waitForFrames(
    socket,
    (frames) => frames.filter(({ key }) => key === 'confirmation_policy').length >= 3,
  )
})

mapCase('F08.policy-errors', 'invalid policies change nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const policy of [
    { kind: 'Unknown' },
    { kind: 'ConfirmRisky', threshold: 'UNKNOWN' },
    { kind: 'ConfirmRisky', threshold: 'SEVERE' },
    {},
  ])
    expect((await setPolicy(id, policy)).status, JSON.stringify(policy)).toBe(422)
  expect((await server.post(id, 'confirmation_policy', {})).status).toBe(422)
  expect(JSON.stringify((await setPolicy(id, { kind: 'Unknown' })).body)).toContain('Unknown kind')
  expect((await setPolicy(unknownId, { kind: 'AlwaysConfirm' })).status).toBe(404)
  expect(await server.getConversation(id)).toMatchObject({ confirmation_policy: { kind: 'NeverConfirm' } })
})

mapCase('F08.always-confirm-wait', 'the next action waits and is not run', async () => {
  const { id, folder } = await waiting(server, commandReply('echo x > ran.txt'), finishReply())
  expect(await kinds(id)).toContain('ActionEvent')
  expect(await kinds(id)).not.toContain('ObservationEvent')
  expect(await exists(join(folder, 'ran.txt'))).toBe(false)
})

mapCase('F08.confirm-accept', 'accept runs the command and the run continues', async () => {
  const { id, folder } = await waiting(server, commandReply('echo x > ran.txt'), finishReply())
  expect((await respond(id, { accept: true })).status).toBe(200)
  const status = await server.waitForStatus(id, 'finished', 'waiting_for_confirmation')
  if (status.execution_status === 'waiting_for_confirmation') await respond(id, { accept: true })
  await server.waitForStatus(id, 'finished')
  expect(await kinds(id)).toContain('ObservationEvent')
  expect(await exists(join(folder, 'ran.txt'))).toBe(true)
})

mapCase('F08.confirm-reject', 'reject records the reason once and is idle', async () => {
  const { id, folder } = await waiting(server, commandReply('echo x > ran.txt'), finishReply())
  expect((await respond(id, { accept: false, reason: 'Not now.' })).status).toBe(200)
  expect((await server.waitForStatus(id, 'idle')).execution_status).toBe('idle')
  const rejections = (await server.getEvents(id)).filter(({ kind }) => kind === 'UserRejectObservation')
  expect(rejections).toMatchObject([{ rejection_reason: 'Not now.' }])
  expect((await respond(id, { accept: false })).status).toBe(200)
  expect((await kinds(id)).filter((kind) => kind === 'UserRejectObservation')).toHaveLength(1)
  expect(await exists(join(folder, 'ran.txt'))).toBe(false)
})

mapCase('F08.confirm-errors', 'invalid answers are 422, 404 or 401', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const body of [{}, { accept: 'maybe' }]) expect((await respond(id, body)).status).toBe(422)
  expect((await respond('no-uuid', { accept: true })).status).toBe(422)
  expect((await respond(unknownId, { accept: true })).status).toBe(404)
  const path = `/api/conversations/${id}/events/respond_to_confirmation`
  expect(await server.requestStatus('POST', path, { body: { accept: true }, isAnonymous: true })).toBe(401)
})

mapCase(
  'F08.confirm-capacity',
  'accept above the limit of runs is 429 and leaves the action; reject works',
  async () => {
    await using own = await OwnMapServer.open({ key: 'k', env: { SLIPWAY_MAX_CONCURRENT_RUNS: '1' } })
    const { id, folder } = await waiting(own, commandReply('echo x > ran.txt'), finishReply())
    const held = heldReply(finishReply())
    await using model = await openModel()
    model.replies = [held.reply(model)]
    const busy = await own.createConversation(model, plain)
    await own.sendMessage(busy.id, 'Begin.', true)
    await held.arrived
    expect(await respond(id, { accept: true }, own)).toMatchObject({
      status: 429,
      body: { detail: expect.stringContaining('run limit') },
    })
    expect(await exists(join(folder, 'ran.txt'))).toBe(false)
    expect((await respond(busy.id, { accept: true }, own)).status).toBe(200)
    expect((await respond(id, { accept: false }, own)).status).toBe(200)
    held.release()
  },
  { hasOwnServer: true },
)

mapCase('F08.confirm-real', 'a run under AlwaysConfirm ends when all its actions are accepted', async () => {
  const { id } = await waiting(server, commandReply('echo one'), commandReply('echo two'), finishReply())
  for (let calls = 1; calls <= 2; calls++) {
    const isCalled = (all: readonly string[]) => all.filter((kind) => kind === 'ActionEvent').length === calls
    await waitFor(() => kinds(id), isCalled)
    await server.waitForStatus(id, 'waiting_for_confirmation')
    await respond(id, { accept: true })
  }
  await server.waitForStatus(id, 'finished')
  expect((await kinds(id)).filter((kind) => kind === 'ObservationEvent').length).toBeGreaterThanOrEqual(2)
})

const setAnalyzer = (id: string, security_analyzer: unknown) =>
  server.post(id, 'security_analyzer', { security_analyzer })

mapCase('F08.analyzer-set-clear', 'an analyzer is set, shown, told and cleared', async () => {
  const { id } = await server.createConversation(undefined, plain)
  await using socket = server.openSocket(`/sockets/events/${id}`)
  await waitForFrames(socket, (frames) => frames.length > 0)
  for (const kind of ['PatternSecurityAnalyzer', 'LLMSecurityAnalyzer']) {
    expect((await setAnalyzer(id, { kind })).status).toBe(200)
    expect((await server.getConversation(id)).security_analyzer).toMatchObject({ kind })
  }
  expect((await setAnalyzer(id, null)).status).toBe(200)
  expect((await server.getConversation(id)).security_analyzer).toBe(null)
  await waitForFrames(socket, (frames) => frames.filter(({ key }) => key === 'security_analyzer').length >= 3)
})

mapCase('F08.analyzer-errors', 'invalid analyzers change nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  await setAnalyzer(id, { kind: 'PatternSecurityAnalyzer' })
  expect((await setAnalyzer(id, { kind: 'Unknown' })).status).toBe(422)
  expect((await server.post(id, 'security_analyzer', {})).status).toBe(422)
  expect((await setAnalyzer(unknownId, null)).status).toBe(404)
  expect(await server.getConversation(id)).toMatchObject({
    security_analyzer: { kind: 'PatternSecurityAnalyzer' },
  })
})

mapCase(
  'F08.confirm-risky',
  'a low risk runs unasked, removal waits, and unrated ones wait too',
  async () => {
    const folder = await mkdtemp(join(server.directory, 'risky-'))
    await mkdir(join(folder, 'victim'))
    const model = await server.openModel(
      commandReply('echo low > low.txt'),
      commandReply('rm -rf victim'),
      commandReply('echo unrated > unrated.txt'),
      finishReply(),
    )
    const { id } = await server.createConversation(model, { ...plain, workspace: { working_dir: folder } })
    await setPolicy(id, { kind: 'ConfirmRisky', threshold: 'HIGH', confirm_unknown: true })
    await setAnalyzer(id, { kind: 'PatternSecurityAnalyzer' })
    await server.sendMessage(id, 'Begin.', true)
    await server.waitForStatus(id, 'waiting_for_confirmation')
    expect(await exists(join(folder, 'low.txt'))).toBe(true)
    expect(await exists(join(folder, 'victim'))).toBe(true)
    await respond(id, { accept: false })
    await setAnalyzer(id, null)
    await server.post(id, 'run')
    await server.waitForStatus(id, 'waiting_for_confirmation')
    expect(await exists(join(folder, 'unrated.txt'))).toBe(false)
  },
)

const setSecrets = (id: string, secrets: unknown, on: MapClient = server) =>
  on.post(id, 'secrets', { secrets })

mapCase('F08.secrets-update', 'three forms of a secret, masked in GET', async () => {
  const { id } = await server.createConversation(undefined, plain)
  const secrets = {
    ONE: 'sentinel-1',
    TWO: { value: 'sentinel-2' },
    THREE: { kind: 'StaticSecret', value: 'sentinel-3' },
  }
  expect((await setSecrets(id, secrets)).status).toBe(200)
  // The names are promised once the state is saved.
  await server.sendMessage(id, 'Any.')
  const text = JSON.stringify(await server.getConversation(id))
  for (const name of Object.keys(secrets)) expect(text).toContain(name)
  expect(text).not.toContain('sentinel-')
})

mapCase(
  'F08.secrets-visible',
  'a secret is listed at once',
  async () => {
    const { id } = await server.createConversation(undefined, plain)
    await setSecrets(id, { AT_ONCE: 'sentinel' })
    const { secret_registry } = await server.getConversation(id)
    expect(secret_registry).toMatchObject({ secret_sources: { AT_ONCE: expect.anything() } })
  },
  { faultThere: 'listed with the next change of state' },
)

mapCase('F08.secrets-errors', 'invalid secrets store nothing', async () => {
  const { id } = await server.createConversation(undefined, plain)
  expect((await server.post(id, 'secrets', {})).status).toBe(422)
  for (const secrets of ['text', { A: { kind: 'Unknown' } }, { A: { kind: 'LookupSecret' } }])
    expect((await setSecrets(id, secrets)).status, JSON.stringify(secrets)).toBe(422)
  expect((await setSecrets(unknownId, { A: 'x' })).status).toBe(404)
  const path = `/api/conversations/${id}/secrets`
  expect(await server.requestStatus('POST', path, { body: { secrets: {} }, isAnonymous: true })).toBe(401)
})

mapCase('F08.secrets-bad-value', 'numbers, null and booleans are 422', async () => {
  const { id } = await server.createConversation(undefined, plain)
  for (const value of [1, null, true]) expect((await setSecrets(id, { A: value })).status).toBe(422)
})

/** Runs a command in a conversation with secrets; returns its folder and what the model saw. */
async function runWithSecrets(secrets: unknown, command: string, more: object = {}, on: MapClient = server) {
  const folder = await mkdtemp(join(on.directory, 'secrets-'))
  const model = await server.openModel(commandReply(command), finishReply())
  const { id } = await on.createConversation(model, { ...plain, workspace: { working_dir: folder }, ...more })
  expect((await setSecrets(id, secrets, on)).status).toBe(200)
  await on.sendMessage(id, 'Begin.', true)
  await on.waitForStatus(id, 'finished')
  const seen = JSON.stringify(model.requests.map(({ body }) => body))
  return { id, folder, model, seen, stored: JSON.stringify(await on.getEvents(id)) }
}

mapCase('F08.secrets-terminal', 'a command gets the value; the model and the log do not', async () => {
  const command = 'printf %s "$MAP_TOKEN" > token.txt; echo "token=$MAP_TOKEN"'
  const { folder, seen, stored } = await runWithSecrets({ MAP_TOKEN: 'sentinel-value-1' }, command)
  expect(await readFile(join(folder, 'token.txt'), 'utf8')).toBe('sentinel-value-1')
  for (const text of [seen, stored]) {
    expect(text).toContain('token=<secret-hidden>')
    expect(text).not.toContain('sentinel-value-1')
  }
})

mapCase('F08.secrets-override', 'a later secret replaces one of the start', async () => {
  const more = { secrets: { MAP_TOKEN: { kind: 'StaticSecret', value: 'sentinel-old' } } }
  const { folder } = await runWithSecrets(
    { MAP_TOKEN: 'sentinel-new' },
    'printf %s "$MAP_TOKEN" > token.txt',
    more,
  )
  expect(await readFile(join(folder, 'token.txt'), 'utf8')).toBe('sentinel-new')
})

mapCase('F08.secrets-lookup', 'a looked-up secret is fetched when a command names it', async () => {
  const requests: (string | undefined)[] = []
  const source = createServer((request, response) => {
    requests.push(request.headers.authorization)
    response.end('sentinel-fetched')
  })
  await new Promise<void>((done) => source.listen(0, '127.0.0.1', done))
  try {
    const url = `http://127.0.0.1:${(source.address() as AddressInfo).port}/secret` // it listens on a port
    const secret = { kind: 'LookupSecret', url, headers: { Authorization: 'Bearer sentinel-header' } }
    const command = 'printf %s "$MAP_LOOKUP" > token.txt; echo "got=$MAP_LOOKUP"'
    const { id, folder, seen } = await runWithSecrets({ MAP_LOOKUP: secret }, command)
    expect(await readFile(join(folder, 'token.txt'), 'utf8')).toBe('sentinel-fetched')
    expect(requests).toContain('Bearer sentinel-header')
    expect(seen).toContain('got=<secret-hidden>')
    expect(JSON.stringify(await server.getConversation(id))).not.toContain('sentinel-header')
  } finally {
    source.closeAllConnections()
    source.close()
  }
})

mapCase('F08.secrets-lookup-self', "addresses of the server's own secrets give the value", async () => {
  const body = { name: 'MAP_STORED', value: 'sentinel-stored' }
  await server.requestOrThrow('PUT', '/api/settings/secrets', { body })
  const path = '/api/settings/secrets/MAP_STORED'
  const secrets = {
    MAP_HOSTLESS: { kind: 'LookupSecret', url: path },
    MAP_ABSOLUTE: { kind: 'LookupSecret', url: `${server.url}${path}` },
  }
  const command = 'printf %s "$MAP_HOSTLESS" > one.txt; printf %s "$MAP_ABSOLUTE" > two.txt'
  const { folder } = await runWithSecrets(secrets, command)
  expect(await readFile(join(folder, 'one.txt'), 'utf8')).toBe('sentinel-stored')
  expect(await readFile(join(folder, 'two.txt'), 'utf8')).toBe('sentinel-stored')
})

mapCase(
  'F08.secrets-profile-scope',
  'secrets outside of a profile are dropped without an error',
  async () => {
    const model = await server.openModel(
      commandReply('printf %s "$MAP_OUT" > out.txt; printf %s "$MAP_IN" > in.txt'),
      finishReply(),
    )
    await server.requestOrThrow('POST', '/api/profiles/map-f08', { body: { llm: model.llm('chat') } })
    const body = { llm_profile_ref: 'map-f08', tools: [{ name: 'terminal' }], secret_refs: ['MAP_IN'] }
    await server.requestOrThrow('POST', '/api/agent-profiles/map-f08', { body })
    const profile = await server.requestOrThrow<{ profile?: Json }>('GET', '/api/agent-profiles/map-f08')
    const folder = await mkdtemp(join(server.directory, 'scope-'))
    const request = {
      agent_profile_id: (profile.profile ?? (profile as Json)).id,
      workspace: { working_dir: folder },
      ...plain,
    }
    const { id } = await server.requestOrThrow<{ id: string }>('POST', '/api/conversations', {
      body: request,
    })
    expect((await setSecrets(id, { MAP_IN: 'sentinel-in', MAP_OUT: 'sentinel-out' })).status).toBe(200)
    await server.sendMessage(id, 'Begin.', true)
    await server.waitForStatus(id, 'finished')
    expect(await readFile(join(folder, 'in.txt'), 'utf8')).toBe('sentinel-in')
    expect(await readFile(join(folder, 'out.txt'), 'utf8')).toBe('')
  },
)

notApplicable(
  'F08.secrets-no-cipher',
  'without a key for encryption secrets are lost at a restart',
  'this server always has a key: it makes one at its first start',
)

for (const [id, promise, hasOther] of [
  ['F08.secrets-restart', 'a secret is there after a restart', true],
  ['F08.secrets-unsaved-restart', 'also when nothing else changed after it was set', false],
] as const)
  mapCase(
    id,
    promise,
    async () => {
      await using own = await OwnMapServer.open({ key: 'k' })
      await using model = await openModel(commandReply('printf %s "$MAP_TOKEN" > token.txt'), finishReply())
      const { id: conversation } = await own.createConversation(model, plain)
      expect((await setSecrets(conversation, { MAP_TOKEN: 'sentinel' }, own)).status).toBe(200)
      if (hasOther) await own.sendMessage(conversation, 'Something else.')
      await own.restart()
      await own.sendMessage(conversation, 'Begin.', true)
      await own.waitForStatus(conversation, 'finished')
      expect(await readFile(join(own.directory, 'token.txt'), 'utf8')).toBe('sentinel')
    },
    { hasOwnServer: true, ...(hasOther ? {} : { faultThere: 'lost' }) },
  )

endFamily('F08', 23)
