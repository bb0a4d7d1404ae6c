import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findSecretTexts, redact, redactText } from './redact.ts'
import { isSecretName } from './secret-names.ts'

test('texts at and below names that speak of a secret are masked, in any case and at any depth', () => {
  const agent = {
    llm: {
      model: 'm',
      api_key: 'k1',
      AWS_Secret_Access_Key: 'k2',
      aws_access_key_id: 'k9',
      max_output_tokens: 100,
    },
    agent_context: { secrets: { NAME: { kind: 'StaticSecret', value: 'k3' } } },
    mcp_config: {
      a: { url: 'u', Headers: { X: 'k4' }, env: { ANY: 'k5' }, auth: { strategy: 'bearer', value: 'k6' } },
    },
    list: [{ Authorization: 'k7' }, { encrypted_content: 'k8' }, { extra_headers: { X: 'k10' } }],
    keywords: ['kept'],
  }
  expect(redact(agent)).toEqual({
    llm: {
      model: 'm',
      api_key: null,
      AWS_Secret_Access_Key: null,
      aws_access_key_id: null,
      max_output_tokens: 100,
    },
    agent_context: { secrets: { NAME: { kind: null, value: null } } },
    mcp_config: {
      a: { url: 'u', Headers: { X: null }, env: { ANY: null }, auth: { strategy: null, value: null } },
    },
    list: [{ Authorization: null }, { encrypted_content: null }, { extra_headers: { X: null } }],
    keywords: ['kept'],
  })
  expect(JSON.stringify(redact(agent, '<redacted>'))).not.toMatch(/"k\d+"/)
})

test('an address keeps its place but not its user, its password and its keys', () => {
  const value = {
    base_url: 'https://me:pa55@host/v1?a=1&api_key=k1&b=2#x',
    text: 'Ask a@b.example or see https://host/path?x=1.',
    list: ['https://host/?tavilyApiKey=k2'],
  }
  expect(redact(value)).toEqual({
    base_url: 'https://****@host/v1?a=1&api_key=****&b=2#x',
    text: value.text,
    list: ['https://host/?tavilyApiKey=****'],
  })
  expect(findSecretTexts(value).map(({ text }) => text)).toEqual(['pa55', 'k1', 'k2'])
})

test('the credentials behind a scheme are their own secret', () => {
  const texts = findSecretTexts({ headers: { Authorization: 'Bearer abc123' } }).map(({ text }) => text)
  expect(texts).toEqual(['Bearer abc123', 'abc123'])
})

test('a password with an at sign is hidden as a whole', () => {
  expect(redact({ url: 'https://user:p@ss@host/x' })).toEqual({ url: 'https://****@host/x' })
})

test.each([
  [
    'api_key',
    'API_KEY_2',
    'apiKeyId',
    'keyId',
    'KEYS',
    'key-1',
    'X-API-Key',
    'tavilyapikey',
    'apikey_old',
    'Set-Cookie',
  ],
  [
    'DB_PWD',
    'pwd',
    'pin',
    'user_pin',
    'bearer',
    'jwt',
    'github_pat',
    'dsn',
    'SENTRY_DSN',
    'connection_string',
    'otp',
  ],
  ['connectionString', 'signature', 'x-signature', 'OTP_2'],
  [
    'Authorization',
    'sessionId',
    'passwd',
    'PassPhrase',
    'client_secret',
    'credentials',
    'GH_TOKEN',
    'encryptedContent',
  ],
])('names that speak of a secret: %s ...', (...names) => {
  expect(names.filter((name) => !isSecretName(name))).toEqual([])
})

test.each([
  'custom_tokenizer',
  'tokenizer',
  'sort_keys',
  'monkey',
  'monkeys',
  'spinner',
  'path',
  'pattern',
  'pinned',
  'PWD',
  'keywords',
  'keyboard',
  'monkeybars',
  'session_start',
  'SessionEnd',
  'author',
  'passage',
  'name',
  '',
])('%j speaks of none', (name) => expect(isSecretName(name)).toBe(false))

test('numbers are hidden where they can be secrets, and stay where they are counts', () => {
  const value = {
    password: 1234,
    Env: { PIN: 5678, on: true },
    headers: [{ a: 9 }],
    max_output_tokens: 5,
    key: 7,
  }
  expect(redact(value, '*')).toEqual({
    password: '*',
    Env: { PIN: '*', on: true },
    headers: [{ a: '*' }],
    max_output_tokens: 5,
    key: 7,
  })
})

test('what arguments of a program bring is hidden, and nothing else of them', () => {
  const args = [
    '-y',
    'server',
    '--api-key',
    'k1',
    '--token=k2',
    '-e',
    'GH_TOKEN=k3',
    '-H',
    'X-API-Key: k4',
    '--key',
    '-v',
    '--port',
    '80',
    'key://x',
  ]
  expect(redact({ args })).toEqual({
    args: [
      '-y',
      'server',
      '--api-key',
      '****',
      '--token=****',
      '-e',
      'GH_TOKEN=****',
      '-H',
      'X-API-Key: ****',
      '--key',
      '-v',
      '--port',
      '80',
      'key://x',
    ],
  })
  expect(findSecretTexts({ args }).map(({ text }) => text)).toEqual([
    'k1',
    'k1',
    'k2',
    'k2',
    'k3',
    'k3',
    'k4',
    'k4',
  ])
  expect(findSecretTexts({ args }).some(({ isNamed }) => isNamed)).toBe(false)
})

/** In any case, letter by letter. */
const randomCase = (names: readonly string[]) =>
  fc
    .tuple(fc.constantFrom(...names), fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }))
    .map(([name, ups]) =>
      [...name].map((letter, at) => (ups[at] ? letter.toUpperCase() : letter.toLowerCase())).join(''),
    )
const secretNames = [
  'api_key',
  'authorization',
  'cookie',
  'credential',
  'password',
  'secret',
  'session_id',
  'token',
  'x-api-key',
  'keys',
]
const sections = ['env', 'environment', 'headers', 'extra_headers', 'auth']
const plainNames = ['model', 'name', 'command', 'list', 'a b', 'keywords', 'timeout', 'ü']
const canary = fc.integer({ min: 0, max: 10 ** 9 }).map((n) => `cnry-${n}-end`)
const plain = fc.oneof(
  fc.constantFrom('text', 'https://h/p?x=1', '', 'a=b'),
  fc.integer(),
  fc.boolean(),
  fc.constant(null),
)

const { tree } = fc.letrec<{ tree: unknown; hidden: unknown }>((tie) => ({
  /** What stands at or below a name of a secret: canaries at any depth. */
  hidden: fc.oneof(
    { depthSize: 'small' },
    canary,
    fc.array(tie('hidden'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...plainNames), tie('hidden'), { maxKeys: 3 }),
  ),
  tree: fc.oneof(
    { depthSize: 'small' },
    plain,
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...plainNames), tie('tree'), { maxKeys: 3 }),
    fc.dictionary(fc.oneof(randomCase(secretNames), randomCase(sections)), tie('hidden'), { maxKeys: 3 }),
    fc.tuple(fc.constantFrom('--api-key', '--Token', '-password'), canary),
    fc
      .tuple(randomCase(['--api-key=', 'MY_TOKEN=', 'Authorization: Bearer ']), canary)
      .map(([open, value]) => [open + value]),
    canary.map((value) => `https://user:${value}@host/?api_KEY=${value}&x=1`),
  ),
}))

test('whatever a value is made of, no secret of it is in what is shown, each is among the texts, and the rest stays', () => {
  fc.assert(
    fc.property(tree, fc.constantFrom(null, '<redacted>'), (value, mask) => {
      const shown = JSON.stringify(redact(value, mask))
      expect(shown).not.toContain('cnry')
      const texts = findSecretTexts(value).map(({ text }) => text)
      const planted = new Set(JSON.stringify(value).match(/cnry-\d+-end/g))
      for (const one of planted) expect(texts.some((text) => text.includes(one))).toBe(true)
      // Without secrets it is a copy; hiding twice is hiding once.
      if (planted.size === 0) expect(redact(value, mask)).toEqual(jsonCopy(value))
      expect(redact(redact(value, mask), mask)).toEqual(redact(value, mask))
    }),
    { numRuns: 500 },
  )
})

/** The same value: what has no canary has nothing under the names of secrets but empty lists and maps. */
const jsonCopy = (value: unknown) => JSON.parse(JSON.stringify(value))

test('a text for people loses what looks like a secret and keeps its sense', () => {
  const said = [
    ['Incorrect API key provided: sk-proj-abcdefghijkl.', 'Incorrect API key provided: <redacted>.'],
    [`{"api_key": "cnry", 'Token': 'cnry'}`, `{"api_key": <redacted>", 'Token': <redacted>'}`],
    [
      'headers: Authorization: Bearer cnry.x, X-Session-API-Key: cnry',
      'headers: Authorization: <redacted>, X-Session-API-Key: <redacted>',
    ],
    ['https://u:cnry@h/v1?key=cnry', 'https://****@h/v1?key=<redacted>'],
    ['{\\"password\\": \\"cnry cnry\\"}', '{\\"password\\": <redacted>\\"}'],
    ['max_tokens: 5 is too little', 'max_tokens: 5 is too little'],
    [`Found ghp_${'a1'.repeat(18)} there.`, 'Found <redacted> there.'],
    [`jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl`, 'jwt <redacted>'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIcnry\n-----END RSA PRIVATE KEY-----\nend', '<redacted>\nend'],
    ['postgres://app:cnry@db:5432/x', 'postgres://****@db:5432/x'],
    ['Server=db;Uid=app;Pwd=cnry;', 'Server=db;Uid=app;Pwd=<redacted>;'],
    ['x=Zk3Qw9rTb1Lm7Xc5Vn2Hs8Jd', 'x=<redacted>'],
    ['sha=0123456789abcdef0123456789abcdef01234567', 'sha=0123456789abcdef0123456789abcdef01234567'],
    ['dir=/usr/share/Documents/Project2/sources', 'dir=/usr/share/Documents/Project2/sources'],
    ['The model none-such does not exist', 'The model none-such does not exist'],
  ]
  for (const [text = '', shown] of said) expect(redactText(text)).toBe(shown)
})

test('a long text is looked through in no time', () => {
  for (const piece of ['key', 'a://', 'token=', 'key_'.repeat(20), '"', '\\"key', 'x@', 'sk-'])
    expect(redactText(piece.repeat(20_000)).length).toBeGreaterThan(0)
})
