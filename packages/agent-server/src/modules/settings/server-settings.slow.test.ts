import { toAgentSettingsJson, toConversationSettingsJson } from '@slipway/protocol'
import { redactedText } from '@slipway/shared/redaction'
import { Cipher } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { exposeSecrets } from '../../core/secrets/expose-secrets.ts'
import { sealText } from '../../core/secrets/sealed-text.ts'
import { fileDocuments } from '../../testing/file-documents.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { addMcpServer, patchMcpServer } from './mcp-servers.ts'
import { ServerSettings } from './server-settings.ts'

const nothing = {
  agent_settings_diff: undefined,
  conversation_settings_diff: undefined,
  misc_settings_diff: undefined,
  active_profile: undefined,
  active_agent_profile_id: undefined,
}

async function openSettings() {
  const place = temporaryDirectory()
  const directory = place.path
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const open = () => new ServerSettings({ documents: fileDocuments(directory), cipher })
  return { open, cipher, settings: open(), [Symbol.dispose]: () => place[Symbol.dispose]() }
}

test('any diff is stored or refused as invalid, and stored settings can always be read and exposed', async () => {
  using store = await openSettings()
  const { settings, cipher, open } = store
  const name = fc.constantFrom(
    ...[
      'llm',
      'model',
      'api_key',
      'base_url',
      'mcp_config',
      'mcpServers',
      'a',
      'command',
      'url',
      'env',
      'auth',
      'headers',
    ],
    ...[
      'agent_context',
      'secrets',
      'kind',
      'value',
      'skills',
      'condenser',
      'max_size',
      'verification',
      'tools',
      'name',
    ],
    ...[
      '__proto__',
      'constructor',
      'max_iterations',
      'security_analyzer',
      'critic_api_key',
      'args',
      'agent_kind',
    ],
  )
  const leaf = fc.oneof(
    fc.constantFrom<unknown>(
      null,
      true,
      0,
      7,
      -1,
      1e308,
      '',
      redactedText,
      '<redacted>',
      'x',
      'https://u:p@h',
      '--token',
    ),
    fc.constantFrom(
      'StaticSecret',
      'LookupSecret',
      'bearer',
      'slipway-sealed-x',
      sealText(cipher, 's'),
      sealText(cipher, 5),
    ),
  )
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 5, depthSize: 'large' },
      leaf,
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(name, tie('value'), { maxKeys: 4 }),
    ),
  }))
  // Half of them are nearly right, so that much of what is odd gets in.
  const text = fc.constantFrom<unknown>('x', null, redactedText, 'https://u:p@h', sealText(cipher, 's'))
  const map = fc.dictionary(name, text, { maxKeys: 3 })
  const mcpServer = fc.record({ url: text, headers: map, auth: fc.oneof(text, map) }, { requiredKeys: [] })
  const source = fc.record({ kind: fc.constant('StaticSecret'), value: text, description: text })
  const nearly = fc.record(
    {
      llm: fc.record({ model: text, api_key: text, extra_headers: map, later: value }, { requiredKeys: [] }),
      mcp_config: fc.dictionary(name, fc.oneof(mcpServer, fc.constant({ command: 'c', env: {} }))),
      agent_context: fc.record({ secrets: fc.dictionary(name, source), later: value }, { requiredKeys: [] }),
      later: value,
    },
    { requiredKeys: [] },
  )
  const diff = fc.oneof(fc.dictionary(name, value), nearly)
  let accepted = 0
  const property = fc.asyncProperty(diff, fc.oneof(fc.constant({}), diff), async (agent, conversation) => {
    const [agent_settings_diff, conversation_settings_diff] = JSON.parse(
      JSON.stringify([agent, conversation]),
    )
    const before = await settings.read()
    try {
      await settings.update({ ...nothing, agent_settings_diff, conversation_settings_diff })
      accepted++
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalid' })
      expect(await settings.read()).toBe(before)
    }
    const stored = await open().read()
    expect(toAgentSettingsJson(stored.agent_settings)).toEqual(
      toAgentSettingsJson((await settings.read()).agent_settings),
    )
    for (const exposure of ['masked', 'encrypted', 'plaintext'] as const) {
      exposeSecrets(toAgentSettingsJson(stored.agent_settings), exposure, {
        cipher,
        placeholder: redactedText,
      })
      exposeSecrets(toConversationSettingsJson(stored.conversation_settings), exposure, {
        cipher,
        placeholder: redactedText,
      })
    }
    expect(Reflect.get({}, 'model')).toBeUndefined()
  })
  await fc.assert(property, { numRuns: 300 })
  expect(accepted).toBeGreaterThan(20)
})

test('answered settings sent back change nothing, also when sent twice', async () => {
  using store = await openSettings()
  const { settings, cipher } = store
  await addMcpServer(settings, 'a', {
    command: 'c',
    args: ['--key', 'canary-1', '--key=canary-2'],
    env: { A: 'canary-3', B: '' },
    url: undefined,
    headers: undefined,
    cwd: undefined,
    auth: undefined,
    transport: undefined,
    timeout: undefined,
    disabled: undefined,
    required: undefined,
    read_only: undefined,
  })
  const before = toAgentSettingsJson((await settings.read()).agent_settings)
  const shown = exposeSecrets(before, 'masked', { cipher, placeholder: redactedText })
  expect(JSON.stringify(shown)).not.toContain('canary')
  for (let i = 0; i < 2; i++) {
    await settings.update({ ...nothing, agent_settings_diff: shown })
    await patchMcpServer(settings, 'a', Object(shown.mcp_config).a)
    expect(toAgentSettingsJson((await settings.read()).agent_settings)).toEqual(before)
  }
})

test('an MCP server with a path and no folder can be switched off, on and be mended', async () => {
  using store = await openSettings()
  const { settings } = store
  const stored = { command: 'node', args: ['./server.js'] }
  await settings.modify((current) => ({ ...current, agent_settings: { mcp_config: { a: stored } } }))
  const patch = async (change: object) => {
    await patchMcpServer(settings, 'a', { ...change })
    return Object((await settings.read()).agent_settings.mcp_config).a
  }
  expect(await patch({ enabled: false })).toMatchObject({ ...stored, enabled: false })
  expect(await patch({ args: ['../server.js'] })).toMatchObject({ args: ['../server.js'] })
  expect(await patch({ timeout: 7 })).toMatchObject({ timeout: 7 })
  expect(await patch({ enabled: true })).toMatchObject({ enabled: true })
  for (const change of [{ args: ['./server.js'] }, { command: './server' }, { cwd: null }])
    await expect(patch(change)).rejects.toThrow('Settings validation failed')
  expect(await patch({ cwd: 'workspace' })).toMatchObject({ cwd: 'workspace', enabled: true })
})

test('a failed change leaves the settings, and the next change succeeds', async () => {
  using store = await openSettings()
  const { settings } = store
  const failing = settings.modify(() => {
    throw new Error('on purpose')
  })
  const next = settings.modify((stored) => ({ ...stored, misc_settings: { a: 1 } }))
  await expect(failing).rejects.toThrow('on purpose')
  await next
  expect((await store.open().read()).misc_settings).toEqual({ a: 1 })
})
