import { chmod, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { selectModel } from './config.ts'
import {
  editConfig,
  noConfigFile,
  parseConfig,
  readConfigFile,
  withFileSettings,
  writeConfigFile,
} from './config-file.ts'
import { type FileSetting, fileSettings } from './file-settings.ts'
import { isOwnAddress } from './session-key.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-config-file-test-'))
})
afterAll(async () => await rm(directory, { recursive: true }))

const fileOf = async (text: string) => ({
  ...noConfigFile('config.toml'),
  text,
  values: await parseConfig(text, 'config.toml'),
})

test('a setting is added, changed and removed, and comments and order of the others stay', async () => {
  const text = `# my settings
[model] # the model
name = "a/b" # this one

[agent_server]
# quiet
log_level = "info"   # why
allowed_hosts = [
  "a", # first
]

[[agent_server.webhooks]]
base_url = "http://127.0.0.1:9"
`
  const changed = await editConfig(await fileOf(text), 'agent_server.log_level', 'debug')
  expect(changed).toBe(text.replace('"info"', '"debug"'))
  const added = await editConfig(await fileOf(changed), 'sandbox_server.backend', 'docker')
  expect(added).toContain(changed.trimEnd())
  const more = await editConfig(await fileOf(added), 'agent_server.max_concurrent_runs', 4)
  expect((await parseConfig(more, '')).get('agent_server.max_concurrent_runs')).toBe(4)
  const removed = await editConfig(await fileOf(more), 'agent_server.max_concurrent_runs', undefined)
  expect(removed).toBe(added)
  for (const form of ['model.name = "x/y" # c\n', 'model = { name = "x/y" } # c\n', '# c\n\n', '']) {
    const edited = await editConfig(await fileOf(form), 'agent_server.queue_runs', true)
    expect((await parseConfig(edited, '')).get('agent_server.queue_runs'), form).toBe(true)
    if (form !== '') expect(edited).toContain('# c')
  }
})

test('a new setting stands in its table, before the comment of the next one', async () => {
  const text = '[agent_server]\nallowed_hosts = [\n  "a", # first\n]\n\n# sandboxes\n[sandbox_server]\n'
  for (const ending of ['\n', '\r\n']) {
    const edited = await editConfig(
      await fileOf(text.replaceAll('\n', ending)),
      'agent_server.log_level',
      'debug',
    )
    expect(edited).toBe(text.replace(']\n\n#', ']\nlog_level = "debug"\n\n#').replaceAll('\n', ending))
  }
  const wrong = editConfig(await fileOf('# c\n'), 'model.api_key', 'canary')
  await expect(wrong).rejects.toThrow('need model.name')
})

test('any values are set and removed in files of any form, and what is set keeps the comments', async () => {
  const settings = [...fileSettings.values()].filter(({ table }) => table !== 'model')
  const step = fc
    .constantFrom(...settings)
    .chain((setting) =>
      fc.tuple(fc.constant(setting.key), fc.option(arbitraryValue(setting), { nil: undefined })),
    )
  const texts = [
    '',
    '# c1\n[agent_server] # c2\nlog_level = "info" # c3\n\n# c4\n[sandbox_server]\nbackend = "docker"\n',
    'agent_server.queue_runs = true # c1\n',
    'agent_server = { queue_runs = true }\n',
    '# c1\n[[agent_server.webhooks]]\nbase_url = "x" # c2\n[[agent_server.webhooks]]\nbase_url = "y"\n',
    '[agent_server]\r\nqueue_runs = true # c1\r\n',
    '[agent_server]\nallowed_hosts = [\n  "a", # c1\n  # c2\n  "b"\n]\n[sandbox_server]',
  ]
  const property = fc.asyncProperty(
    fc.constantFrom(...texts),
    fc.array(step, { minLength: 1, maxLength: 5 }),
    async (start, steps) => {
      let text = start
      for (const [key, value] of steps) {
        const file = await fileOf(text)
        // Its own success says that the values are those that were asked for.
        const edited = await editConfig(file, key, value)
        const comments = file.values.has(key) ? [] : (text.match(/# c\d/g) ?? [])
        for (const comment of comments) expect(edited).toContain(comment)
        text = edited
      }
    },
  )
  await fc.assert(property, { numRuns: 150, seed: 41 })
})

test('unknown names are refused with the nearest, wrong values without the value', async () => {
  const refusal = async (text: string) =>
    await parseConfig(text, 'config.toml').then(
      () => 'accepted',
      (error: Error) => error.message,
    )
  expect(await refusal('[agent_server]\nlog_levle = "info"')).toContain('Is it agent_server.log_level?')
  expect(await refusal('[server]\nlog_level = "info"')).toContain('Is it agent_server.log_level?')
  expect(await refusal('max_concurrent_runs = 3')).toContain('Is it agent_server.max_concurrent_runs?')
  expect(await refusal('model = "a/b"')).toContain('"model" is no setting')
  expect(await refusal('[[model]]\nname = "a/b"')).toContain('is no setting')
  const wrong = [
    'api_key = canary-1',
    'api_key = "canary-2',
    'api_key = ["canary-3"]',
    'api_key = "canary-4"',
  ]
  for (const line of wrong) expect(await refusal(`[model]\n${line}`)).toMatch(/^config\.toml: (?!.*canary)/)
  expect(await refusal('[model]\nname = "a"\napi_key = canary')).toContain('line 3')
  const values = [
    'max_concurrent_runs = 0',
    'queue_runs = "yes"',
    'log_level = "loud"',
    'allowed_hosts = "a"',
  ]
  for (const line of [...values, 'allowed_hosts = ["a,b"]', 'max_concurrent_runs = 2020-01-01'])
    expect(await refusal(`[agent_server]\n${line}`)).toMatch(/^config\.toml: agent_server\.\w+: Should be /)
})

test('variables and their other names override the file, empty ones do not', async () => {
  const file = await fileOf(
    '[agent_server]\nmax_concurrent_runs = 4\nallowed_hosts = ["a", "b"]\nqueue_runs = true\n' +
      '[[agent_server.webhooks]]\nbase_url = "http://h"\n[sandbox_server]\nbackend = "docker"\n',
  )
  expect(withFileSettings({ PATH: 'p', SLIPWAY_QUEUE_RUNS: '' }, file, 'agent_server')).toEqual({
    PATH: 'p',
    SLIPWAY_MAX_CONCURRENT_RUNS: '4',
    SLIPWAY_ALLOWED_HOSTS: 'a,b',
    SLIPWAY_QUEUE_RUNS: 'true',
    SLIPWAY_WEBHOOKS: '[{"base_url":"http://h"}]',
  })
  const env = { OH_MAX_CONCURRENT_RUNS: '9', OH_WEBHOOKS_0_BASE_URL: 'http://x', SLIPWAY_QUEUE_RUNS: '0' }
  expect(withFileSettings(env, file, 'agent_server')).toEqual({ ...env, SLIPWAY_ALLOWED_HOSTS: 'a,b' })
  expect(withFileSettings({}, file, 'sandbox_server')).toEqual({ SLIPWAY_BACKEND: 'docker' })
})

test('key and address of a model go to no other provider and to no other address', async () => {
  const file = await fileOf('[model]\nname = "one/a"\nbase_url = "http://h"\napi_key = "canary"\n')
  const choose = (env: Record<string, string>, flags = {}) => {
    const { name, baseUrl, apiKey } = selectModel({ env, file }, flags)
    return [name, baseUrl, apiKey?.reveal()]
  }
  expect(choose({})).toEqual(['one/a', 'http://h', 'canary'])
  expect(choose({}, { model: 'one/b' })).toEqual(['one/b', 'http://h', 'canary'])
  expect(choose({}, { model: 'two/b' })).toEqual(['two/b', undefined, undefined])
  expect(choose({ LLM_MODEL: 'two/b', LLM_API_KEY: 'k' })).toEqual(['two/b', undefined, 'k'])
  expect(choose({ LLM_BASE_URL: 'http://x' })).toEqual(['one/a', 'http://x', undefined])
  expect(choose({}, { baseUrl: 'http://x' })).toEqual(['one/a', 'http://x', undefined])
  expect(choose({ LLM_API_KEY: 'k' })).toEqual(['one/a', 'http://h', 'k'])
})

test('a file with a secret is private; one without may be read by others; links stay links', async () => {
  const path = join(directory, 'config.toml')
  const link = join(directory, 'link.toml')
  await writeFile(path, '')
  await symlink(path, link)
  await writeConfigFile(link, '[model]\nname = "a/b"\napi_key = "canary"\n')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await readConfigFile(link)).values.get('model.api_key')).toBe('canary')
  await chmod(path, 0o640)
  const { problem, values } = await readConfigFile(link)
  expect(problem?.message).toContain('chmod 600')
  expect(values.size).toBe(0)
  await writeFile(path, '[model]\nname = "a/b"\n')
  expect((await readConfigFile(link)).problem).toBeUndefined()
  await writeConfigFile(link, (await readFile(path, 'utf8')).replace('a/b', 'c/d'))
  expect(await readFile(path, 'utf8')).toContain('c/d')
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await readConfigFile(join(directory, 'none.toml'))).problem).toBeUndefined()
  expect((await readConfigFile(directory)).problem?.message).toContain('cannot be read')
})

test('keys of the file are for servers of this machine', async () => {
  for (const url of ['http://127.0.0.1:9', 'http://localhost:9', 'http://[::1]:9'])
    expect(await isOwnAddress(url), url).toBe(true)
  for (const url of [
    'http://192.0.2.1:9',
    'https://slipway.example',
    'http://localhost.example:9',
    'no address',
  ])
    expect(await isOwnAddress(url), url).toBe(false)
})

const arbitraryText = fc.oneof(
  fc.string({ minLength: 1, unit: 'binary' }),
  fc.constantFrom('"', "'''", '"""', '#', '\\', 'a\nb', '\r\n', '\t', '\u0000', '\u007f', 'é😀', ' '),
)

function arbitraryValue({ schema }: FileSetting): fc.Arbitrary<unknown> {
  const { type, items, minimum = 0, maximum = 1 } = schema
  if (type === 'boolean') return fc.boolean()
  if (type === 'integer') return fc.integer({ min: minimum, max: maximum })
  if (type === 'number')
    return fc.integer({ min: minimum * 8, max: maximum * 8 }).map((eighths) => eighths / 8)
  if (type === 'string') return schema.enum === undefined ? arbitraryText : fc.constantFrom(...schema.enum)
  if (items?.type === 'string') return fc.array(fc.stringMatching(/^[a-z."'#\\]{1,8}$/))
  const member = fc.oneof(arbitraryText, fc.integer(), fc.boolean(), fc.array(arbitraryText))
  return fc.array(fc.dictionary(fc.string({ minLength: 1 }), member))
}

test('the folder of the file is the user’s alone', async () => {
  const folder = join(directory, 'new')
  await writeConfigFile(join(folder, 'config.toml'), '')
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
})
