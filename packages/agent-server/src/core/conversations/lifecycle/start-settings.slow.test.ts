import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startConversationRequest, toAgentSettingsJson } from '@slipway/protocol'
import { redactedText } from '@slipway/shared/redaction'
import { Cipher, openStorage } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LlmProfiles } from '../../../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../../../modules/settings/server-settings.ts'
import { fileDocuments } from '../../../testing/file-documents.ts'
import { openCreateDeps, openRegistry, partsOf, temporaryDirectory } from '../../../testing/fixtures.ts'
import { exposeSecrets } from '../../secrets/expose-secrets.ts'
import { sealText } from '../../secrets/sealed-text.ts'
import { ServerSecrets } from '../../secrets/server-secrets.ts'
import { createConversation } from './create.ts'
import { forkConversation } from './fork.ts'

/** What creates conversations in its own directory. */
async function openDeps() {
  const place = temporaryDirectory()
  const directory = place.path
  const storage = await openStorage({ directory })
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const secrets = new ServerSecrets({ documents: fileDocuments(directory), cipher })
  const registry = await openRegistry(storage, directory, 60_000, secrets)
  const parts = await openCreateDeps(storage, registry, directory)
  const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
  const workspace = { working_dir: join(directory, 'missing', 'workspace') }
  const create = async (request: object) => {
    const parsed = startConversationRequest.parse({ workspace, autotitle: false, ...request })
    const { record } = await createConversation(parts, parsed)
    return {
      record,
      resolved: (await registry.settings.read(record)).settings,
      info: JSON.parse(record.request ?? ''),
    }
  }
  const events = async (id: string) =>
    (await storage.log.read(id, 0, 1000)).map(({ bytes }) => bytes.toString()).join('\n')
  const close = async () => {
    await registry[Symbol.asyncDispose]()
    await storage[Symbol.asyncDispose]()
    place[Symbol.dispose]()
  }
  return {
    directory,
    storage,
    registry,
    cipher,
    parts,
    settings,
    secrets,
    create,
    events,
    [Symbol.asyncDispose]: close,
  }
}

const scripted = (...script: object[]) => ({ model: 'scripted/x', script })

test('a request as the web client makes it of sealed settings runs, with the secrets of the server, and shows none', async () => {
  await using server = await openDeps()
  const { settings, secrets, cipher, directory } = server
  await secrets.save('TOKEN_A', { value: 'canary-secret-a' })
  const command = 'echo "value=$TOKEN_A"; printf %s "$TOKEN_A" > printed'
  const terminal = { tool_calls: [{ name: 'terminal', arguments: { command } }] }
  await settings.update({
    agent_settings_diff: {
      llm: { ...scripted(terminal, { text: 'Done.' }), api_key: 'canary-key' },
      agent_context: { secrets: { CONTEXT: { value: 'canary-context' } } },
    },
    conversation_settings_diff: undefined,
    misc_settings_diff: undefined,
    active_profile: undefined,
    active_agent_profile_id: undefined,
  })
  const { agent_settings } = await settings.read()
  const sealed = exposeSecrets(toAgentSettingsJson(agent_settings), 'encrypted', {
    cipher,
    placeholder: redactedText,
  })
  expect(JSON.stringify(sealed)).not.toContain('canary')
  const { record, resolved, info } = await server.create({
    conversation_id: randomUUID(),
    agent_settings: sealed,
    secrets_encrypted: true,
    worktree: true,
    client_tools: [{ name: 'canvas_ui_control', description: 'x', parameters: { type: 'object' } }],
    confirmation_policy: { kind: 'NeverConfirm' },
    tags: { clientsource: 'web' },
    secrets: {
      TOKEN_A: {
        kind: 'LookupSecret',
        url: '/api/settings/secrets/TOKEN_A',
        headers: { 'X-Key': 'canary-head' },
      },
    },
    initial_message: { role: 'user', content: [{ type: 'text', text: 'Begin.' }], run: true },
    observability_tags: ['x'],
  })
  await (await server.registry.get(record.id)).waitUntilIdle()
  expect(resolved.agent.llm.api_key).toBe('canary-key')
  const log = await server.events(record.id)
  expect(log).toContain('value=<secret-hidden>')
  expect(readFileSync(join(directory, 'missing', 'workspace', 'printed'), 'utf8')).toBe('canary-secret-a')
  expect(log + JSON.stringify(info)).not.toContain('canary')
  expect(info.agent.tools.map(({ name }: { name: string }) => name)).toEqual([
    'terminal',
    'file_editor',
    'task_tracker',
  ])
})

test('a secret of the server that was changed is the new one at once, and the old one stays hidden', async () => {
  await using server = await openDeps()
  await server.secrets.save('TOKEN', { value: 'canary-one' })
  const say = (command: string) => ({ tool_calls: [{ name: 'terminal', arguments: { command } }] })
  const { record } = await server.create({
    agent: {
      llm: scripted(say('echo $TOKEN > 1'), { text: 'One.' }, say('echo $TOKEN > 2; cat 1'), {
        text: 'Two.',
      }),
      tools: [{ name: 'terminal' }],
    },
    secrets: { TOKEN: { url: '/api/settings/secrets/TOKEN' } },
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
  })
  const conversation = await server.registry.get(record.id)
  await conversation.waitUntilIdle()
  await server.secrets.save('TOKEN', { value: 'canary-two' })
  await conversation.send({ ...message, run: true })
  await conversation.waitUntilIdle()
  const workspace = join(server.directory, 'missing', 'workspace')
  expect(readFileSync(join(workspace, '2'), 'utf8')).toBe('canary-two\n')
  expect(await server.events(record.id)).not.toContain('canary')
})

const message = {
  role: 'user' as const,
  content: [{ type: 'text' as const, text: 'Continue.', cache_prompt: false }],
  sender: undefined,
  extended_content: undefined,
}

test('sealed secrets are opened without being announced, wherever they stand', async () => {
  await using server = await openDeps()
  const seal = (text: string) => sealText(server.cipher, text)
  const llm = {
    ...scripted({ text: 'x' }),
    api_key: seal('canary-1'),
    extra_headers: { A: seal('canary-2') },
  }
  const { resolved, record } = await server.create({
    agent: {
      llm,
      condenser: { kind: 'LLMSummarizingCondenser', llm: { ...llm, usage_id: 'c' } },
      mcp_config: {
        a: {
          command: 'x',
          env: { K: seal('canary-3'), L: redactedText },
          args: ['--token', seal('canary-4')],
        },
      },
      agent_context: { secrets: { S: { value: seal('canary-5') } } },
      critic: { kind: 'APIBasedCritic', server_url: 'https://x.example', api_key: seal('canary-6') },
    },
    secrets: { P: seal('canary-7') },
  })
  expect(resolved.agent).toMatchObject({
    llm: { api_key: 'canary-1', extra_headers: { A: 'canary-2' } },
    condenser: { llm: { api_key: 'canary-1' } },
    mcp_config: { a: { env: { K: 'canary-3' }, args: ['--token', 'canary-4'] } },
    agent_context: { secrets: { S: { value: 'canary-5' } } },
    critic: { api_key: 'canary-6' },
  })
  expect(resolved.agent.mcp_config.a?.env).not.toHaveProperty('L')
  expect(resolved.secrets).toMatchObject({ P: { value: 'canary-7' } })
  expect(record.request).not.toContain('canary')
})

test('what cannot be followed is refused with its place', async () => {
  await using server = await openDeps()
  await using other = await openDeps()
  const llm = scripted({ text: 'x' })
  const token = sealText(other.cipher, 'canary')
  const lookup = (url: string) => ({ agent: { llm }, secrets: { S: { url } } })
  const refused = [
    [{ agent: { llm: { ...llm, api_key: token } } }, ['agent', 'llm', 'api_key']],
    [{ agent_settings: { llm: { ...llm, api_key: token } } }, ['agent_settings', 'llm', 'api_key']],
    [{ agent: { llm }, secrets: { S: { value: token } } }, ['secrets', 'S', 'value']],
    [{ agent: { llm: { ...llm, provider_connection_id: 'c' } } }, ['agent', 'llm', 'provider_connection_id']],
    [{ agent_settings: { agent_kind: 'acp', acp_server: 'custom' } }, ['agent_settings', 'acp_command']],
    [{ agent_settings: { llm: {} } }, ['agent_settings', 'llm', 'model']],
    [{ agent_settings: { llm, tools: [{ name: 'none' }] } }, ['agent_settings', 'tools', 0, 'name']],
    [lookup('/api/settings/secrets/'), ['secrets', 'S', 'url']],
    [
      { agent: { llm, agent_context: { secrets: { S: { url: '/api/x' } } } } },
      ['agent', 'agent_context', 'secrets', 'S', 'url'],
    ],
    [lookup('/api/settings/secrets/a-b'), ['secrets', 'S', 'url']],
    [lookup('/api/settings/secrets/%zz'), ['secrets', 'S', 'url']],
    [lookup('/api/settings/secrets/../../settings'), ['secrets', 'S', 'url']],
    [lookup('/api/settings'), ['secrets', 'S', 'url']],
    [lookup('settings/secrets/A'), ['secrets', 'S', 'url']],
    [lookup('//evil.example/x'), ['secrets', 'S', 'url']],
    [lookup(''), ['secrets', 'S', 'url']],
  ] as const
  for (const [request, loc] of refused) {
    const failure = await server.create(request).catch((error: unknown) => error)
    expect(failure).toMatchObject({ code: 'invalid', issues: [{ loc: ['body', ...loc] }] })
    expect(String(failure)).not.toContain(token)
  }
  expect((await server.storage.conversations.search({ limit: 10, sort_order: 'CREATED_AT' })).items).toEqual(
    [],
  )
})

test('a model that names a connection is asked with its key', async () => {
  await using server = await openDeps()
  const { directory, cipher, settings } = server
  const findConnection = async (id: string) => (id === 'c' ? { api_key: 'canary-of-connection' } : undefined)
  const llmProfiles = new LlmProfiles({
    documents: fileDocuments(directory),
    cipher,
    settings,
    links: { findConnection },
  })
  const request = startConversationRequest.parse({
    agent: {
      llm: { ...scripted({ text: 'x' }), provider_connection_id: 'c' },
      condenser: {
        kind: 'PipelineCondenser',
        condensers: [
          { kind: 'NoOpCondenser' },
          { kind: 'LLMSummarizingCondenser', llm: { model: 'scripted/y', provider_connection_id: 'c' } },
        ],
      },
    },
    workspace: { working_dir: directory },
  })
  const { record } = await createConversation(
    { ...server.parts, parts: partsOf({ models: llmProfiles }) },
    request,
  )
  expect((await server.registry.settings.read(record)).settings.agent).toMatchObject({
    llm: { api_key: 'canary-of-connection' },
    condenser: { condensers: [{}, { llm: { api_key: 'canary-of-connection' } }] },
  })
  expect(record.request).not.toContain('canary')
})

test('the profile of an agent is followed, and remembered with its revision', async () => {
  await using server = await openDeps()
  const { directory, cipher, parts, settings } = server
  const profiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
  const { llm } = await import('@slipway/protocol')
  const launched = { agent_profile_id: randomUUID(), revision: 3, secret_refs: null }
  await profiles.save('p', llm.parse(scripted({ text: 'Done.' })))
  const agentProfiles = {
    has: async () => true,
    getById: async () => undefined,
    resolve: async () => ({
      agentSettings: { llm: await profiles.resolve('p'), tools: [] },
      profileReference: launched,
    }),
  }
  const request = startConversationRequest.parse({
    agent_profile_id: launched.agent_profile_id,
    workspace: { working_dir: directory },
    autotitle: false,
  })
  const { record } = await createConversation(
    { ...parts, parts: partsOf({ models: profiles, agentProfiles }) },
    request,
  )
  const known = async () => {
    const [now] = await server.storage.conversations.get([record.id])
    return JSON.parse(now?.request ?? '{}').launched_agent_profile
  }
  expect(await known()).toEqual(launched)
  const conversation = await server.registry.get(record.id)
  await conversation.switchModel(llm.parse(scripted({ text: 'y' })))
  expect(await known()).toEqual(launched)
  const fork = await forkConversation(server, record, { reset_metrics: true })
  expect(JSON.parse(fork.request ?? '{}').launched_agent_profile).toEqual(launched)
  const unknown = server.create({ agent_profile_id: randomUUID() })
  await expect(unknown).rejects.toMatchObject({ code: 'not_found' })
})

test('a worktree is made where there is a commit, also when it was made before a crash; elsewhere the folder is used', async () => {
  await using server = await openDeps()
  const project = join(server.directory, 'project')
  mkdirSync(project)
  execFileSync('git', ['init', '-q'], { cwd: project })
  const agent = { llm: scripted({ text: 'x' }) }
  const workspace = { working_dir: project }
  const plain = await server.create({ agent, workspace, worktree: true })
  expect(plain.resolved.workspace.working_dir).toBe(project)
  writeFileSync(join(project, 'file'), 'x')
  const identity = ['-c', 'user.name=x', '-c', 'user.email=x@x.example']
  execFileSync('git', ['add', '.'], { cwd: project })
  execFileSync('git', [...identity, 'commit', '-qm', 'x'], { cwd: project })
  const conversation_id = randomUUID()
  const path = join(server.directory, 'worktrees', conversation_id, 'project')
  const branch = `openhands/${conversation_id}`
  execFileSync('git', ['worktree', 'add', '-q', '-b', branch, path], { cwd: project })
  const made = await server.create({ agent, workspace, worktree: true, conversation_id })
  expect(made.resolved.workspace.working_dir).toBe(path)
  const other = await server.create({ agent, workspace, worktree: true })
  expect(readFileSync(join(other.resolved.workspace.working_dir, 'file'), 'utf8')).toBe('x')
  // A branch that exists belongs to somebody: it stays what it is.
  const taken = randomUUID()
  execFileSync('git', ['branch', `openhands/${taken}`], { cwd: project })
  const third = server.create({ agent, workspace, worktree: true, conversation_id: taken })
  await expect(third).rejects.toMatchObject({ code: 'invalid' })
})

test('settings that went out sealed come back as they were', async () => {
  await using server = await openDeps()
  const { settings, cipher } = server
  const text = fc
    .string({ unit: 'grapheme', minLength: 1 })
    .filter((text) => text.trim() !== '' && !/^\*+$/.test(text))
  const name = fc.constantFrom('A', 'api_key', 'Authorization', 'x-custom', 'slipway-sealed-x', '__proto__')
  const map = fc.dictionary(name, text)
  const llm = fc.record(
    {
      model: fc.constant('openai/m'),
      api_key: text,
      base_url: fc.constantFrom('https://x.example', 'https://u:p@x.example/v1?api_key=z'),
      extra_headers: map,
      litellm_extra_body: fc.dictionary(name, fc.oneof(text, fc.integer(), map)),
      temperature: fc.constantFrom(0, 0.5),
    },
    { requiredKeys: ['model'] },
  )
  const server_ = fc.oneof(
    fc.record({ command: text, args: fc.array(fc.oneof(text, fc.constant('--token'))), env: map }),
    fc.record({
      url: fc.constant('https://x.example'),
      headers: map,
      auth: fc.oneof(
        fc.record({ strategy: fc.constant('bearer'), value: text }),
        fc.record({ strategy: fc.constant('header'), headers: map }),
      ),
    }),
  )
  const source = fc.oneof(
    fc.record({ kind: fc.constant('StaticSecret'), value: text, description: text }),
    fc.record({
      kind: fc.constant('LookupSecret'),
      url: fc.constant('https://x.example?key=1'),
      headers: map,
    }),
  )
  const property = fc.asyncProperty(
    llm,
    fc.dictionary(name, server_),
    fc.dictionary(name, source),
    async (model, servers, sources) => {
      const diff = { llm: model, mcp_config: servers, agent_context: { secrets: sources } }
      await settings.modify((resolved) => ({ ...resolved, agent_settings: JSON.parse(JSON.stringify(diff)) }))
      const before = toAgentSettingsJson((await settings.read()).agent_settings)
      for (const exposure of ['encrypted', 'masked', 'plaintext'] as const) {
        const sent = JSON.parse(
          JSON.stringify(exposeSecrets(before, exposure, { cipher, placeholder: redactedText })),
        )
        await settings.update({ ...nothing, agent_settings_diff: sent })
        expect(toAgentSettingsJson((await settings.read()).agent_settings)).toEqual(before)
      }
    },
  )
  await fc.assert(property, { numRuns: 60 })
})

const nothing = {
  agent_settings_diff: undefined,
  conversation_settings_diff: undefined,
  misc_settings_diff: undefined,
  active_profile: undefined,
  active_agent_profile_id: undefined,
}
test('the key file itself opens what it sealed after a restart', async () => {
  using place = temporaryDirectory()
  const directory = place.path
  const first = await Cipher.open({ directory, secretKey: undefined })
  await new ServerSettings({ documents: fileDocuments(directory), cipher: first }).update({
    ...nothing,
    agent_settings_diff: { llm: { api_key: 'canary' } },
  })
  const again = await Cipher.open({ directory, secretKey: undefined })
  expect(
    (await new ServerSettings({ documents: fileDocuments(directory), cipher: again }).getAgentSettings()).llm
      .api_key,
  ).toBe('canary')
})
