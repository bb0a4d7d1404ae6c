import { type Llm, llm } from '@slipway/protocol'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { LeftOutInMemory } from './left-out.ts'
import { type AwsKeys, signatureFault } from './testing/aws-signature.ts'
import { bedrock } from './testing/refusal-answers.ts'
import { differences, history, settingsOf, tools } from './testing/refused-history.ts'
import { RefusingServer } from './testing/refusing-server.ts'

/** Bedrock, which answers a request only when its signature is that of the body. */
let server: RefusingServer
const keys = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }

beforeAll(async () => {
  server = await RefusingServer.open()
})
beforeEach(() => {
  server.requests = []
  server.refuse = (body) =>
    JSON.stringify(body).includes('topP')
      ? bedrock(
          'Malformed input request: #/inferenceConfig: extraneous key [topP] is not permitted, please reformat your input and try again.',
        )
      : undefined
})
afterAll(() => server[Symbol.asyncDispose]())

const never = new AbortController().signal

function settings({ id, secret, token }: AwsKeys): Llm {
  const { api_key: _, ...rest } = settingsOf('bedrock', server.url)
  return llm.parse({
    ...rest,
    model: 'bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0',
    ...{ aws_access_key_id: id, aws_secret_access_key: secret, aws_session_token: token },
    aws_region_name: 'eu-central-1',
    extra_headers: { 'x-amzn-bedrock-guardrailidentifier': 'g  1' },
  })
}

const ask = (given: AwsKeys, leftOut = new LeftOutInMemory()) =>
  openModel(settings(given), { leftOut }).generate({ messages: history('bedrock', ''), tools }, never)

function know(known: AwsKeys): void {
  server.authorize = (path, headers, text) => {
    const fault = signatureFault(path, headers, text, known)
    return fault === undefined ? undefined : [403, { message: fault }]
  }
}

test.each([
  ['access keys', keys],
  ['a session token', { ...keys, token: 'IQoJb3JpZ2luX2VjEXAMPLE//////////wEaCXVzLWVhc3QtMSJHMEUC' }],
])('with %s, a refused request is sent again with the signature of its new body', async (_, given) => {
  know(given)
  const leftOut = new LeftOutInMemory()
  expect(await ask(given, leftOut)).toMatchObject({ kind: 'reply' })
  const [refused = '', accepted = '', ...more] = server.requests
  expect(more).toEqual([])
  expect(differences(JSON.parse(refused), JSON.parse(accepted))).toEqual(['inferenceConfig.topP'])
  server.requests = []
  expect(await ask(given, leftOut)).toMatchObject({ kind: 'reply' })
  expect(server.requests).toEqual([accepted])
})

test.each([
  ['secret', { ...keys, secret: 'another' }, 'signature we calculated'],
  ['session token', { ...keys, token: 'another' }, 'security token'],
])('another %s is refused and said at once', async (_, given, says) => {
  know({ ...keys, token: undefined })
  const result = await ask(given)
  expect(result).toMatchObject({ kind: 'failure', detail: expect.stringContaining(says) })
  expect(server.requests).toHaveLength(1)
})

test('a key of a gateway, as a header of the settings, is sent as it is', async () => {
  server.authorize = (_, { authorization }) =>
    authorization === 'Bearer gateway' ? undefined : [403, { message: String(authorization) }]
  const { aws_access_key_id: _, aws_secret_access_key: __, ...rest } = settings(keys)
  const given = llm.parse({ ...rest, extra_headers: { Authorization: 'Bearer gateway' } })
  const messages = history('bedrock', '')
  expect(await openModel(given).generate({ messages, tools }, never)).toMatchObject({ kind: 'reply' })
})
