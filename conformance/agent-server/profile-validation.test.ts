import { randomBytes } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { OwnAgentServer } from '../support/agent-fixture.ts'
import { errorReply, MockProvider, providers, type ScriptedReply } from '../support/mock-provider.ts'

const key = `cnry+/=&<${randomBytes(9).toString('base64')}`
/** All replies. */
let responses = ''
const mockProvider = await MockProvider.open()
const server = await OwnAgentServer.open({ env: { SLIPWAY_LOG_LEVEL: 'debug', SLIPWAY_MAX_PROFILES: '2' } })
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mockProvider[Symbol.asyncDispose]()
})

async function send(method: string, path: string, body?: unknown) {
  const response = await fetch(`${server.url}/api/profiles${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  responses += text
  return { status: response.status, json: JSON.parse(text) }
}

/** Validates the mock provider's model with the key; `reply` is its reply. */
async function validateWithReply(reply: ScriptedReply, more: object = {}) {
  mockProvider.replyWithoutTools = reply
  mockProvider.requests.length = 0
  const { status, json } = await send('POST', '/any.name-1/validate', {
    llm: mockProvider.llm('compatible', { api_key: key, ...more }),
  })
  expect(status).toBe(200)
  return json
}

/**
 * Each encoding in which the key could be returned; of base64 texts, the part that depends on the key alone.
 */
function encodedForms(value: string, isWhole = false): string[] {
  const bytes = Buffer.from(value)
  const shifted = [0, 1, 2].map((n) => Buffer.concat([Buffer.alloc(n, 'x'), bytes]).toString('base64'))
  const plain = [value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1), bytes.toString('hex')]
  return [...plain, ...shifted.map((text) => (isWhole ? text : text.slice(4, -4)))]
}

function expectRedacted(text: string): void {
  for (const form of encodedForms(key)) expect(text).not.toContain(form)
}

const validResult = { valid: true, error: null }

test('a model that replies is valid, for each interface; one token is requested and nothing is saved', async () => {
  for (const provider of ['compatible', 'chat', 'responses', 'anthropic', 'gemini'] as const) {
    expect(
      await validateWithReply(
        { text: 'p' },
        { ...providers[provider], base_url: `${mockProvider.url}${providers[provider].base}` },
      ),
    ).toEqual(validResult)
    expect(mockProvider.requests).toHaveLength(1)
    const body = JSON.stringify(mockProvider.requests[0]?.body)
    const [, limit] =
      /"(?:max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens)":(\d+)/.exec(body) ?? []
    // The minimum of the Responses interface.
    expect(limit).toBe(provider === 'responses' ? '16' : '1')
  }
  expect((await send('GET', '/any.name-1')).status).toBe(404)
})

test('a reasoning model is called once more with a higher token limit', async () => {
  const play: ScriptedReply = (response, asked) => {
    if (asked.body.max_tokens !== 1) return mockProvider.sendReply(response, asked, { text: 'pong' })
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end('{"error":{"message":"max_tokens was reached before the answer began"}}')
  }
  expect(await validateWithReply(play)).toEqual(validResult)
  expect(mockProvider.requests.map(({ body }) => body.max_tokens)).toEqual([1, 1024])
})

test.each([
  [401, 'LLMAuthenticationError', 1],
  [403, 'LLMAuthenticationError', 1],
  [400, 'LLMBadRequestError', 2],
  [404, 'LLMBadRequestError', 2],
  [422, 'LLMBadRequestError', 2],
  [500, 'LLMServiceUnavailableError', 1],
  [503, 'LLMServiceUnavailableError', 1],
])(
  'a refusal with %d is %s, is not retried, and shows no key in any encoding',
  async (status, type, count) => {
    const said = encodedForms(key, true)
    const basic = Buffer.from(`user:${key}:x`).toString('base64')
    const text = `You sent ${said.join(' and ')}, Authorization: Basic ${basic}, X-API-Key: ${key}`
    const bodies = [
      { error: { message: text, type: 'x', param: null } },
      { error: { message: 'no', metadata: { raw: text } } },
      { detail: text.padStart(1990, '.') },
      { detail: JSON.stringify({ inner: text }) },
      `<html><body>${text}</body></html>`,
      text,
    ]
    for (const body of bodies) {
      const { valid, error } = await validateWithReply(errorReply(status, body))
      expect([valid, error.type]).toEqual([false, type])
      expect(error.message).not.toBe('')
      expect(mockProvider.requests).toHaveLength(count)
      expectRedacted(error.message)
    }
  },
)

test('other secrets of the settings are redacted too: headers, credentials in addresses, keys of another provider', async () => {
  const secrets = ['hdr-cnry-111', 'pass-cnry-222', 'aws-cnry-333', 'extra-cnry-444']
  const { error } = await validateWithReply(errorReply(400, { error: { message: secrets.join(' ') } }), {
    base_url: `${mockProvider.url.replace('//', '//me:pass-cnry-222@')}/v1`,
    extra_headers: { 'X-Any': 'hdr-cnry-111' },
    aws_secret_access_key: 'aws-cnry-333',
    litellm_extra_body: { api_token: 'extra-cnry-444' },
  })
  for (const secret of secrets) expect(error.message).not.toContain(secret)
})

test('secrets at any depth of the body, keys of fallbacks and odd keys are redacted in every form', async () => {
  const secrets = [
    ...['nested-cnry-101', 'listed-cnry-102', 'header-cnry-103', 'DbPwd-cnry-104', 'fallback-cnry-105'],
    ...['tab\tinside-cnry-106', 'k-cnry7'],
  ]
  const forms = secrets.flatMap((secret) => [
    secret,
    secret.toUpperCase(),
    Buffer.from(secret).toString('base64'),
    Buffer.from(secret).toString('base64url'),
    Buffer.from(secret).toString('hex'),
    ...(secret.length < 8
      ? []
      : [
          secret.replace(/(.{4})/g, '$1\n'),
          [...secret].map((c) => `&#${c.charCodeAt(0)};`).join(''),
          [...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join(''),
        ]),
  ])
  for (const form of forms) {
    const { error } = await validateWithReply(
      errorReply(400, { error: { message: `You sent [${form}].` } }),
      {
        api_key: secrets[6],
        extra_headers: { 'X-Tab': secrets[5] },
        litellm_extra_body: {
          a: { b: { api_token: secrets[0] } },
          list: [{ password: secrets[1] }],
          headers: { 'X-Any': secrets[2] },
          DB_PWD: secrets[3],
        },
        fallback_strategy: { fallback_llms: [{ model: 'openai/m', api_key: secrets[4] }] },
      },
    )
    expect(error.message).toContain('You sent [')
    const shown = /\[(.*)\]/s.exec(error.message)?.[1] ?? ''
    if (!/^k-cnry7$/i.test(form) || form === 'k-cnry7') expect(shown.length, form).toBeLessThan(18)
    else expect(form).toBe('K-CNRY7') // a short key is found only as it is and as it is encoded
  }
})

test('a limit of rate, a timeout and silence do not make a model invalid, and say why', async () => {
  const cases: [ScriptedReply, string, object?][] = [
    [errorReply(429, { error: { message: 'slow down' } }, { 'retry-after': '1' }), 'LLMRateLimitError'],
    [errorReply(408, { error: { message: 'too slow' } }), 'LLMTimeoutError'],
    [errorReply(504, { error: { message: 'gateway' } }), 'LLMTimeoutError'],
    [() => undefined, 'LLMTimeoutError', { timeout: 0.2 }],
  ]
  for (const [reply, type, more] of cases) {
    expect(await validateWithReply(reply, more)).toEqual({
      valid: true,
      error: { type, message: expect.stringMatching(/./) },
    })
    expect(mockProvider.requests).toHaveLength(1)
  }
})

test('a used-up account makes a model invalid', async () => {
  expect(await validateWithReply(errorReply(402, { error: { message: 'no credits' } }))).toMatchObject({
    valid: false,
    error: { type: 'LLMRateLimitError' },
  })
})

test('an unreachable provider and an unexpected reply are reported', async () => {
  const gone = await validateWithReply({ text: '' }, { base_url: 'http://127.0.0.1:9/v1' })
  expect(gone).toMatchObject({ valid: false, error: { type: 'LLMServiceUnavailableError' } })
  const page = await validateWithReply((response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<p>${key}</p>`),
  )
  expect(page.valid).toBe(false)
  expectRedacted(JSON.stringify(page))
  for (const api_key of ['line\nfeed-cnry-1', 'ключ-cnry-1', '\0-cnry-1']) {
    const odd = await validateWithReply({ text: 'x' }, { api_key })
    expect(JSON.stringify(odd)).not.toContain('cnry-1')
  }
  expect(await validateWithReply({ text: '' }, { model: 'none-such/x', base_url: undefined })).toMatchObject({
    valid: false,
  })
})

test('fallbacks are not called: only this model is validated', async () => {
  const fallback = mockProvider.llm('compatible', { model: 'openai-compatible/other' })
  const { valid } = await validateWithReply(errorReply(401, {}), {
    fallback_strategy: { fallback_llms: [fallback] },
  })
  expect(valid).toBe(false)
  expect(mockProvider.requests).toHaveLength(1)
})

test('an invalid model is refused with its location and without its values', async () => {
  for (const llm of [
    {},
    { model: '', api_key: key },
    { model: 5, api_key: key },
    { model: 'm', api_key: { [key]: key } },
    null,
    key,
  ]) {
    const { status, json } = await send('POST', '/n/validate', { llm })
    expect(status).toBe(422)
    expect(json.detail[0].loc.slice(0, 2)).toEqual(['body', 'llm'])
  }
  expect((await send('POST', '/-no/validate', { llm: { model: 'm' } })).status).toBe(422)
})

test('the limit of profiles is a setting, and overwriting at the limit is allowed', async () => {
  const llm = { model: 'openai/m', api_key: key }
  expect((await send('POST', '/one', { llm })).status).toBe(201)
  expect((await send('POST', '/two', { llm })).status).toBe(201)
  expect((await send('POST', '/three', { llm })).status).toBe(409)
  expect((await send('POST', '/two', { llm: { ...llm, temperature: 1 } })).status).toBe(201)
  await send('GET', '/two')
})

test('no reply and no log line contains the key', () => {
  expect(responses.length).toBeGreaterThan(1000)
  expectRedacted(responses)
  expect(server.output()).toContain('validate')
  expectRedacted(server.output())
})
