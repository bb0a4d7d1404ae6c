import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { secretSource } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Secrets, secretPlaceholder } from './secrets.ts'

const createSecrets = (values: Readonly<Record<string, string>>) =>
  new Secrets(
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, secretSource.parse(value)])),
  )

test('each value is hidden wherever it stands, the longest first', () => {
  const secrets = createSecrets({ A: 'hunter22', B: 'hunter22-and-more', C: 'x(y)*z' })
  expect(secrets.redact('a hunter22 b hunter22-and-more c x(y)*z')).toBe(
    `a ${secretPlaceholder} b ${secretPlaceholder} c ${secretPlaceholder}`,
  )
  expect(secrets.redact('nothing here')).toBe('nothing here')
})

test('a value of fewer than four characters is not hidden: every text would be shredded', () => {
  expect(createSecrets({ A: 'abc' }).redact('abcabc')).toBe('abcabc')
})

test('a value is hidden also as it stands in JSON text, and in JSON text in JSON text', () => {
  const key = '-----BEGIN KEY-----\nab"c\\d\n-----END KEY-----'
  const secrets = createSecrets({ KEY: key })
  const once = JSON.stringify({ command: `echo '${key}'` })
  const twice = JSON.stringify({ arguments: once })
  for (const text of [key, once, twice]) expect(secrets.redact(text)).toContain(secretPlaceholder)
  expect(JSON.parse(secrets.redact(once))).toEqual({ command: `echo '${secretPlaceholder}'` })
  expect(JSON.parse(JSON.parse(secrets.redact(twice)).arguments)).toEqual({
    command: `echo '${secretPlaceholder}'`,
  })
})

test('a value with blanks around it, as files have a last line end, is hidden without them too', () => {
  expect(createSecrets({ A: 'hunter22\n' }).redact('it is hunter22.')).toBe(`it is ${secretPlaceholder}.`)
})

test('no text of a JSON value holds a value any more, names of members included', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string({ minLength: 4, maxLength: 8 }), (value, secret) => {
      const given = { value, nested: [{ [`x${secret}`]: `a${secret}b` }] }
      const masked = createSecrets({ A: secret }).redactJson(given)
      const texts: string[] = []
      JSON.stringify(masked, (name, member) => {
        texts.push(name)
        if (typeof member === 'string') texts.push(member)
        return member
      })
      // The mask itself may make a new one with what stood beside it.
      for (const text of texts) expect(text.replaceAll(secretPlaceholder, '\n').includes(secret)).toBe(false)
    }),
  )
})

test('the pieces of a stream together are the whole text, masked: however it is cut', () => {
  const letter = fc.constantFrom('a', 'b', 'c', '"', '\n')
  const text = fc.array(letter, { maxLength: 60 }).map((letters) => letters.join(''))
  const value = fc.array(letter, { minLength: 4, maxLength: 7 }).map((letters) => letters.join(''))
  fc.assert(
    fc.property(
      fc.array(value, { minLength: 1, maxLength: 4 }),
      text,
      fc.array(fc.integer({ min: 0, max: 60 }), { maxLength: 12 }),
      (values, whole, cuts) => {
        const secrets = createSecrets(Object.fromEntries(values.map((one, index) => [`S${index}`, one])))
        const places = [0, ...cuts.sort((a, b) => a - b), whole.length]
        const stream = secrets.stream()
        const said = places.map((start, index) => stream.add(whole.slice(start, places[index + 1] ?? start)))
        expect([...said, stream.end()].join('')).toBe(secrets.redact(whole))
      },
    ),
    { numRuns: 500 },
  )
})

test('a stream holds back no more than what may become a value', () => {
  const stream = createSecrets({ A: 'hunter22' }).stream()
  expect(stream.add('hello! ')).toBe('hello! ')
  expect(stream.add('hun')).toBe('')
  expect(stream.add('ger! and hunt')).toBe('hunger! and ')
  expect(stream.add('er22!')).toBe(`${secretPlaceholder}!`)
  expect(stream.end()).toBe('')
})

test.each(['\0', ' ', '\\', '%25'])('a stream that repeats %j is given on, and not held', (unit) => {
  const stream = createSecrets({ A: 'secret-of-23-characters' }).stream()
  const chunk = unit.repeat(65_536 / unit.length)
  let given = stream.add('image s').length
  for (let n = 0; n < 64; n++) given += stream.add(chunk).length
  expect(given).toBeGreaterThan(63 * chunk.length)
})

test('a stream gives a whole line at once, unless it ends with the greater part of a value', () => {
  const stream = createSecrets({ A: 'hunter22-and-more' }).stream()
  expect(stream.add('begun: h\n')).toBe('begun: h\n')
  expect(stream.add('hunter22\n')).toBe('')
  expect(stream.add('-and-more\n')).toBe(`${secretPlaceholder}\n`)
})

test('a secret that is replaced stays hidden, and the new one is hidden too', () => {
  const secrets = createSecrets({ A: 'first-value' })
  secrets.addSources({ A: secretSource.parse('second-value') })
  expect(secrets.redact('first-value second-value')).toBe(`${secretPlaceholder} ${secretPlaceholder}`)
})

test('a command gets the secrets that it names, in any case, and no others', async () => {
  const secrets = createSecrets({ API_KEY: 'k-123456', OTHER: 'o-123456' })
  expect(await secrets.findMentioned('curl -H "$api_key"')).toEqual({ API_KEY: 'k-123456' })
  expect(await secrets.findMentioned('ls')).toEqual({})
})

test('in the texts of a JSON value names are replaced where they are written as names', async () => {
  const secrets = createSecrets({ API_KEY: 'k-123456' })
  const given = { a: 'Bearer $API_KEY', b: [`\${API_KEY}!`, '$UNKNOWN', 'API_KEY'], c: 7 }
  expect(await secrets.expand(given)).toEqual({
    a: 'Bearer k-123456',
    b: ['k-123456!', '$UNKNOWN', 'API_KEY'],
    c: 7,
  })
})

test('a secret that is looked up is fetched with its headers, which are hidden, once', async () => {
  const requests: (string | undefined)[] = []
  const server = createServer((request, response) => {
    requests.push(request.headers.authorization)
    response.end('looked-up-value\n')
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/` // it listens on a port
    const secrets = new Secrets({
      TOKEN: secretSource.parse({ url, headers: { authorization: 'Bearer of-the-header' } }),
    })
    expect(secrets.redact('Bearer of-the-header')).toBe(secretPlaceholder)
    expect(secrets.redact('looked-up-value')).toBe('looked-up-value')
    await secrets.resolveAll()
    expect(secrets.redact('looked-up-value')).toBe(secretPlaceholder)
    expect(await secrets.findMentioned('$TOKEN')).toEqual({ TOKEN: 'looked-up-value' })
    expect(requests).toEqual(['Bearer of-the-header'])
  } finally {
    server.closeAllConnections()
    await new Promise((done) => server.close(done))
  }
})

test('a lookup whose answer has no end has no value', async () => {
  const piece = Buffer.alloc(100_000, 0x78)
  const answer = new ReadableStream({ pull: (controller) => controller.enqueue(piece) })
  const source = secretSource.parse({ url: 'http://127.0.0.1:9/' })
  const secrets = new Secrets({ TOKEN: source }, { fetch: async () => new Response(answer) })
  expect(await secrets.findMentioned('$TOKEN')).toEqual({})
})

test('a lookup whose server redirects to another origin has no value, and its headers go nowhere', async () => {
  const requests: (string | undefined)[] = []
  const foreign = createServer((request, response) => {
    requests.push(request.headers['x-key']?.toString())
    response.end('a foreign value')
  })
  await new Promise<void>((done) => foreign.listen(0, '127.0.0.1', done))
  const location = `http://127.0.0.1:${(foreign.address() as AddressInfo).port}/`
  const server = createServer((_, response) => response.writeHead(307, { location }).end())
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    const secrets = new Secrets({ TOKEN: secretSource.parse({ url, headers: { 'x-key': 'of-the-header' } }) })
    expect(await secrets.findMentioned('$TOKEN')).toEqual({})
    expect(requests).toEqual([])
  } finally {
    for (const one of [server, foreign]) {
      one.closeAllConnections()
      await new Promise((done) => one.close(done))
    }
  }
})

test('a lookup that failed is not tried again before a minute has gone', async () => {
  const clock = new FakeClock()
  let count = 0
  const secrets = new Secrets(
    { TOKEN: secretSource.parse({ url: 'http://127.0.0.1:1/' }) },
    {
      clock,
      fetch: async () => {
        count++
        return count === 1 ? new Response('no', { status: 503 }) : new Response('the-value')
      },
    },
  )
  expect(await secrets.findMentioned('$TOKEN')).toEqual({})
  await clock.advance(59_000)
  expect(await secrets.findMentioned('$TOKEN')).toEqual({})
  await clock.advance(1_000)
  expect(await secrets.findMentioned('$TOKEN')).toEqual({ TOKEN: 'the-value' })
  expect(count).toBe(2)
})

test('the keys of a configuration are hidden, and of its environments and headers what looks like one', () => {
  const secrets = new Secrets()
  secrets.addValuesFrom({
    llm: { model: 'a-model', api_key: 'sk-abcdefgh' },
    mcp: { env: { MODE: 'production', TOKEN: 'tok-123456789' }, headers: { Accept: 'application/json' } },
  })
  expect(secrets.redact('a-model sk-abcdefgh production tok-123456789 application/json')).toBe(
    `a-model ${secretPlaceholder} production ${secretPlaceholder} application/json`,
  )
})

test('a model sees names and descriptions of secrets, never a value', () => {
  const secrets = new Secrets({ A: secretSource.parse({ value: 'hunter22', description: 'for tests' }) })
  expect(secrets.list()).toEqual([{ name: 'A', description: 'for tests' }])
})

test('a secret of the server itself is asked for each time, and every value that it had stays hidden', async () => {
  const values = ['first-value', 'second-value', undefined]
  const requests: string[] = []
  const url = '/api/settings/secrets/OWN'
  const secrets = new Secrets(
    { OWN: secretSource.parse({ url }), OTHER: secretSource.parse({ url: 'https://127.0.0.1:1/' }) },
    {
      resolveServerSecret: async (path) => {
        requests.push(path)
        return values[0]
      },
      fetch: () => Promise.reject(new Error('there is no far side')),
    },
  )
  await secrets.resolveAll()
  expect(secrets.redact('first-value second-value')).toBe('<secret-hidden> second-value')
  expect(await secrets.findMentioned('echo $OWN')).toEqual({ OWN: 'first-value' })
  values.shift()
  expect(await secrets.findMentioned('echo $own')).toEqual({ OWN: 'second-value' })
  values.shift()
  expect(await secrets.findMentioned('echo $OWN')).toEqual({})
  expect(secrets.redact('first-value second-value')).toBe('<secret-hidden> <secret-hidden>')
  expect(new Set(requests)).toEqual(new Set([url]))
})

test('a secret of a server that has none, or cannot read them, has no value', async () => {
  const source = secretSource.parse({ url: '/api/settings/secrets/OWN' })
  expect(await new Secrets({ OWN: source }).findMentioned('OWN')).toEqual({})
  const resolveServerSecret = () => Promise.reject(new Error('they were sealed with another key'))
  expect(await new Secrets({ OWN: source }, { resolveServerSecret }).findMentioned('OWN')).toEqual({})
})

test('a lookup that fails is told once, with its name, to the log and to who uses the secret', async () => {
  const told: string[] = []
  const clock = new FakeClock()
  const secrets = new Secrets(
    {
      GONE: secretSource.parse({ url: 'http://127.0.0.1:1/' }),
      OWN: secretSource.parse({ url: '/api/settings/secrets/OWN' }),
      FINE: secretSource.parse('value-1234'),
    },
    {
      clock,
      fetch: async () => new Response('no', { status: 503 }),
      resolveServerSecret: async () => undefined,
      onFailure: (name, reason) => told.push(`${name}: ${reason}`),
    },
  )
  const command = 'curl -H "$FINE" $GONE'
  expect(await secrets.findMentioned(command)).toEqual({ FINE: 'value-1234' })
  expect(secrets.lookupFailure(command)).toBe('The secret GONE could not be fetched: status 503.')
  expect(secrets.lookupFailure('echo $FINE GONE $GONER')).toBeUndefined()
  const braced = `\${OWN}`
  await secrets.expand({ a: [braced] })
  expect(secrets.lookupFailure({ a: [braced] })).toBe(
    'The secret OWN could not be fetched: this server has no such secret.',
  )
  await clock.advance(60_000)
  await secrets.resolveAll()
  expect(told).toEqual(['GONE: status 503', 'OWN: this server has no such secret'])
  secrets.addSources({ GONE: secretSource.parse('now-there-1') })
  expect(secrets.lookupFailure(command)).toBeUndefined()
})
