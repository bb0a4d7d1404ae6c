import { expect, test } from 'vitest'
import { redact, secretTexts } from './redact.ts'

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
  expect(secretTexts(value).map(({ text }) => text)).toEqual(['pa55', 'k1', 'k2'])
})

test('the credentials behind a scheme are a secret of their own', () => {
  const texts = secretTexts({ headers: { Authorization: 'Bearer abc123' } }).map(({ text }) => text)
  expect(texts).toEqual(['Bearer abc123', 'abc123'])
})

test('a password with an at sign is hidden as a whole', () => {
  expect(redact({ url: 'https://user:p@ss@host/x' })).toEqual({ url: 'https://****@host/x' })
})
