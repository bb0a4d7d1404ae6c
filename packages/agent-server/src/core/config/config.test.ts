import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { readConfig } from './config.ts'

test('an empty environment gives the defaults, and an empty setting is one that was not given', () => {
  const expected = {
    secretKey: undefined,
    confirmationDeadlineMs: undefined,
    maxConcurrentRuns: 100,
    conversationIdleMs: 1_200_000,
    toolEnvironment: {},
    confineFiles: true,
  }
  expect(readConfig({})).toMatchObject(expected)
  const blank = { SLIPWAY_SECRET_KEY: '', SLIPWAY_MAX_CONCURRENT_RUNS: '', SLIPWAY_CONFINE_FILES: '' }
  expect(readConfig(blank)).toMatchObject(expected)
})

test('settings of runs are read, seconds as milliseconds, and the key as a secret', () => {
  const config = readConfig({
    SLIPWAY_SECRET_KEY: 'correct horse battery',
    SLIPWAY_CONFIRMATION_DEADLINE_SECONDS: '90',
    SLIPWAY_MAX_CONCURRENT_RUNS: '3',
    SLIPWAY_CONVERSATION_IDLE_SECONDS: '5',
    SLIPWAY_CONFINE_FILES: 'false',
  })
  expect(config).toMatchObject({
    confirmationDeadlineMs: 90_000,
    maxConcurrentRuns: 3,
    conversationIdleMs: 5_000,
    confineFiles: false,
  })
  expect(config.secretKey?.reveal()).toBe('correct horse battery')
  expect(inspect(config, { depth: 9 }) + JSON.stringify(config)).not.toContain('horse')
})

test.each([
  ['SLIPWAY_SECRET_KEY', 'too-short-x'],
  ['SLIPWAY_CONFIRMATION_DEADLINE_SECONDS', '-7'],
  ['SLIPWAY_MAX_CONCURRENT_RUNS', '-3'],
  ['SLIPWAY_CONVERSATION_IDLE_SECONDS', 'soonish'],
  ['SLIPWAY_CONFINE_FILES', 'perhaps'],
])('%s=%s is refused by name, and the value is not shown', (name, value) => {
  const attempt = () => readConfig({ [name]: value })
  expect(attempt).toThrow(name)
  expect(attempt).not.toThrow(value)
})

test('tools get the usual variables and those that are named, and nothing else of the environment', () => {
  const env = {
    PATH: '/bin',
    HOME: '/home/x',
    TZ: '',
    LC_ALL: 'C',
    LC_SECRET: 's1',
    OPENAI_API_KEY: 's2',
    GITHUB_TOKEN: 'wanted',
    EDITOR: 'vi',
    NODE_OPTIONS: '--x',
    SLIPWAY_SECRET_KEY: 'a key of sixteen characters',
    SLIPWAY_TOOL_ENVIRONMENT: 'GITHUB_TOKEN, EDITOR ,NOT_THERE,__proto__',
  }
  expect(readConfig(env).toolEnvironment).toEqual({
    PATH: '/bin',
    HOME: '/home/x',
    TZ: '',
    LC_ALL: 'C',
    GITHUB_TOKEN: 'wanted',
    EDITOR: 'vi',
  })
})

test('a setting of the server is not handed to tools, even when it is named', () => {
  const env = { SLIPWAY_SESSION_API_KEY: 'k', SLIPWAY_TOOL_ENVIRONMENT: 'EDITOR,SLIPWAY_SESSION_API_KEY' }
  expect(() => readConfig(env)).toThrow('SLIPWAY_TOOL_ENVIRONMENT: SLIPWAY_SESSION_API_KEY')
})

test('the headers for a receiver of traces are hidden from tools and not handed to them', () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_HEADERS: 'x=of the receiver' }
  expect(readConfig(env).secrets.map((secret) => secret.reveal())).toContain('of the receiver')
  for (const name of ['', 'TRACES_', 'METRICS_'].map((signal) => `OTEL_EXPORTER_OTLP_${signal}HEADERS`))
    expect(() => readConfig({ ...env, SLIPWAY_TOOL_ENVIRONMENT: name })).toThrow(name)
})

test('what the environment calls a secret is known, short values and other variables are not', () => {
  const env = { MY_TOKEN: 'abcdefgh1', USE_TOKEN: 'true', PATH: '/usr/bin', GITHUB_PASSWORD: 'long enough' }
  expect(readConfig(env).secretValues.map((secret) => secret.reveal())).toEqual(['abcdefgh1', 'long enough'])
})

test('keys are also read by the names that other servers know, when their own name is not set', () => {
  const keys = (env: Record<string, string>) => readConfig(env).sessionKeys.map((key) => key.reveal())
  const others = {
    OH_SESSION_API_KEYS_0: 'a,b',
    OH_SESSION_API_KEYS_1: 'c',
    OH_SESSION_API_KEYS_3: 'd',
    SESSION_API_KEY: 'e',
  }
  expect(keys(others)).toEqual(['a,b', 'c'])
  expect(keys({ ...others, SLIPWAY_SESSION_API_KEY: 'x, y' })).toEqual(['x', 'y'])
  expect(keys({ ...others, SLIPWAY_SESSION_API_KEY: '', OH_SESSION_API_KEYS_0: '' })).toEqual(['e'])
  const config = readConfig({ OH_SECRET_KEY: 'of sixteen characters', SLIPWAY_DEFERRED_INIT: '1' })
  expect([config.secretKey?.reveal(), config.initKey?.reveal()]).toEqual(
    Array(2).fill('of sixteen characters'),
  )
  expect(config.isDeferred).toBe(true)
  expect(() => readConfig({ OH_SECRET_KEY: 'short' })).toThrow('OH_SECRET_KEY')
})

test('the keys of the server are hidden by whatever name they come, and handed to no tool', () => {
  const env = {
    SESSION_API_KEY: 'short',
    OH_SECRET_KEY: 'of sixteen characters',
    SLIPWAY_INIT_API_KEY: 'init',
  }
  const hidden = readConfig(env).secrets.map((secret) => secret.reveal())
  expect(hidden).toEqual(expect.arrayContaining(['short', 'of sixteen characters', 'init']))
  for (const name of ['SESSION_API_KEY', 'OH_SECRET_KEY', 'OH_SESSION_API_KEYS_0'])
    expect(() => readConfig({ ...env, SLIPWAY_TOOL_ENVIRONMENT: name })).toThrow(name)
})

test('rules for commands are a JSON array, and a mistake is named', () => {
  const rule = { pattern: 'git push *', decision: 'ask' }
  const read = (text: string) => readConfig({ SLIPWAY_COMMAND_RULES: text }).commandRules
  expect(read(JSON.stringify([rule]))).toEqual([rule])
  expect(readConfig({}).commandRules).toEqual([])
  for (const text of ['allow', '{}', '[{"pattern":"x"}]', '[{"pattern":"","decision":"ask"}]'])
    expect(() => read(text)).toThrow('SLIPWAY_COMMAND_RULES')
})

test('language servers are asked unless they are switched off', () => {
  expect(readConfig({}).hasLanguageServers).toBe(true)
  expect(readConfig({ SLIPWAY_LANGUAGE_SERVERS: 'false' }).hasLanguageServers).toBe(false)
})

test('a browser is used unless it is switched off, and found where Playwright installs it', () => {
  const { browser } = readConfig({ PATH: '/bin', HOME: '/h' })
  expect(browser).toEqual({ isOff: false, path: '/bin', playwrightDirectory: '/h/.cache/ms-playwright' })
  expect(readConfig({ PLAYWRIGHT_BROWSERS_PATH: '/p' }).browser.playwrightDirectory).toBe('/p')
  for (const name of ['SLIPWAY_BROWSER', 'OH_ENABLE_BROWSER'])
    expect(readConfig({ [name]: 'false' }).browser.isOff).toBe(true)
})

test('the sandbox of commands is off unless a mode is named', () => {
  const config = readConfig({ HOME: '/home/ada' })
  expect(config.commandSandbox).toEqual({ mode: 'off', network: false })
  expect(config.hidesKeys, 'keys are hidden unless it is off by name').toBe(true)
  expect(readConfig({ SLIPWAY_COMMAND_SANDBOX: 'off' }).hidesKeys).toBe(false)
  expect(config.privateDirectories).toContain('/home/ada/.config/slipway')
  const env = { SLIPWAY_COMMAND_SANDBOX: 'read-only', SLIPWAY_COMMAND_NETWORK: 'true' }
  expect(readConfig(env).commandSandbox).toEqual({ mode: 'read-only', network: true })
  expect(() => readConfig({ SLIPWAY_COMMAND_SANDBOX: 'on' })).toThrow('SLIPWAY_COMMAND_SANDBOX')
})

test('commands have no age limit unless a retention is set', () => {
  expect(readConfig({}).bashRetentionMs).toBe(undefined)
  expect(readConfig({ SLIPWAY_BASH_RETENTION_SECONDS: '60' }).bashRetentionMs).toBe(60_000)
})

test('the URL of a database is a secret, as is its password, and a wrong one is not shown', () => {
  const url = 'postgres://slipway:pass%2Fword-of-it@db.example/slipway?sslmode=verify-full'
  const config = readConfig({ SLIPWAY_DATABASE_URL: url })
  expect(config.databaseUrl?.reveal()).toBe(url)
  expect(config.databaseDirectUrl).toBeUndefined()
  expect(config.secrets.map((secret) => secret.reveal())).toEqual([url, 'pass/word-of-it'])
  expect(inspect(config, { depth: 9 }) + JSON.stringify(config)).not.toContain('word-of-it')
  for (const wrong of ['mysql://root:word-of-it@db.example/x', 'word-of-it']) {
    const read = () => readConfig({ SLIPWAY_DATABASE_URL: wrong })
    expect(read).toThrow('SLIPWAY_DATABASE_URL')
    expect(read).not.toThrow('word-of-it')
  }
})

test('settings are read by the names of other servers too, and our own names count more', () => {
  const others = {
    OH_DEFERRED_INIT: 'true',
    OH_SECRET_KEY: 'of sixteen characters',
    OH_MAX_CONCURRENT_RUNS: '7',
    OH_ALLOW_CORS_ORIGINS_0: 'https://a.example',
    OH_ALLOW_CORS_ORIGINS_1: 'https://b.example',
  }
  expect(readConfig(others)).toMatchObject({
    isDeferred: true,
    maxConcurrentRuns: 7,
    allowedOrigins: ['https://a.example', 'https://b.example'],
  })
  expect(readConfig({ ...others, SLIPWAY_MAX_CONCURRENT_RUNS: '3' }).maxConcurrentRuns).toBe(3)
  expect(() => readConfig({ OH_MAX_CONCURRENT_RUNS: '0' })).toThrow('SLIPWAY_MAX_CONCURRENT_RUNS')
})

test('the source of managed keys has its headers from the environment, and shows none of its secrets', () => {
  const config = readConfig({
    OH_LLM_API_KEY_REFRESH_URL: 'https://user:p4ssword-x@keys.example/key?token=t0ken-of-url',
    OH_LLM_API_KEY_REFRESH_BASE_URLS: 'https://proxy.example/v1/, https://other.example',
    OH_LLM_API_KEY_REFRESH_HEADERS: `{"X-Key": "\${OH_SESSION_API_KEYS_0}", "X-Mode": "$MODE $NONE"}`,
    OH_SESSION_API_KEYS_0: 's3ssion-key-of-it',
    MODE: 'v4lue-of-mode',
  })
  const { baseUrls, headers = {} } = config.keyRefresh ?? {}
  expect(baseUrls).toEqual(['https://proxy.example/v1', 'https://other.example'])
  expect(headers['X-Key']?.reveal()).toBe('s3ssion-key-of-it')
  expect(headers['X-Mode']?.reveal()).toBe('v4lue-of-mode $NONE')
  const hidden = config.secrets.map((secret) => secret.reveal())
  expect(hidden).toEqual(expect.arrayContaining(['v4lue-of-mode $NONE', 't0ken-of-url']))
  expect(hidden).not.toContain('https://proxy.example/v1/, https://other.example')
  const shown = inspect(config, { depth: 9 }) + JSON.stringify(config)
  for (const secret of ['p4ssword-x', 't0ken-of-url', 's3ssion-key-of-it', 'v4lue-of-mode'])
    expect(shown).not.toContain(secret)
  expect(readConfig({}).keyRefresh).toBeUndefined()
})

test.each([
  ['SLIPWAY_LLM_API_KEY_REFRESH_URL', 'file:///etc/shadow'],
  ['SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS', 'proxy.example/v1'],
  ['SLIPWAY_LLM_API_KEY_REFRESH_HEADERS', 'X-Key: s3cret-value'],
  ['SLIPWAY_LLM_API_KEY_REFRESH_HEADERS', '{"X Key": "s3cret-value"}'],
  ['SLIPWAY_LLM_API_KEY_REFRESH_HEADERS', '{"X-Key": "s3cret\\nvalue"}'],
  ['SLIPWAY_RUNTIME_LAUNCHED_PROFILE', '{"agent_profile_id": "none", "revision": 1}'],
])('%s=%s is refused by name without its value', (name, value) => {
  const attempt = () => readConfig({ [name]: value })
  expect(attempt).toThrow(name)
  expect(attempt).not.toThrow(/s3cret|shadow|proxy\.example|none/)
})
