import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { actionsDigest } from './actions-digest.ts'
import { canonicalJson } from './canonical-json.ts'
import { sha256 } from './sha256.ts'

const ofNode = (text: string) => createHash('sha256').update(text).digest('hex')

test('the hash is the one of Node, at every length of a block', () => {
  for (let length = 0; length <= 200; length++) {
    const text = 'é'.repeat(length % 7) + 'a'.repeat(length)
    expect(sha256(text)).toBe(ofNode(text))
  }
  expect(sha256('x'.repeat(1_000_000))).toBe(ofNode('x'.repeat(1_000_000)))
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => sha256(text) === ofNode(text)))
})

test.each([
  [{ b: 1, a: [true, null], '€': 'x', '\r': 2, '1': 3 }, '{"\\r":2,"1":3,"a":[true,null],"b":1,"€":"x"}'],
  [[1e21, -0, 0.000001, 0.1 + 0.2], '[1e+21,0,0.000001,0.30000000000000004]'],
  [{ gone: undefined, '\ud83d\ude00': 1, '\ufb33': 2 }, '{"\ud83d\ude00":1,"\ufb33":2}'],
])('%j in canonical form', (value, text) => {
  expect(canonicalJson(value)).toBe(text)
})

test('the order of members changes no canonical text', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
      const turned = Object.fromEntries(Object.entries(value).reverse())
      return canonicalJson(turned) === canonicalJson(value)
    }),
  )
})

const action = {
  id: 'e1',
  tool_name: 'terminal',
  tool_call: { id: 'c', name: 'terminal', arguments: '{"command":"ls"}' },
  action: { kind: 'TerminalAction', command: 'ls' },
  security_risk: 'LOW',
}

test('the digest is that of an array of the documented members', () => {
  const text =
    '[{"action":{"command":"ls","kind":"TerminalAction"},"id":"e1","security_risk":"LOW",' +
    '"tool_call":{"arguments":"{\\"command\\":\\"ls\\"}","id":"c","name":"terminal"},"tool_name":"terminal"}]'
  expect(actionsDigest([action])).toBe(`sha256:${ofNode(text)}`)
  expect(actionsDigest([{ ...action, summary: 'a thought', timestamp: 'later' } as object])).toBe(
    actionsDigest([action]),
  )
  expect(actionsDigest([{ id: 'e1' }])).toBe(
    actionsDigest([{ id: 'e1', action: null, security_risk: 'UNKNOWN' }]),
  )
})

test.each([
  [[{ ...action, id: 'e2' }]],
  [[{ ...action, action: { kind: 'TerminalAction', command: 'ls ' } }]],
  [[{ ...action, tool_name: 'other' }]],
  [[{ ...action, security_risk: 'HIGH' }]],
  [[{ ...action, tool_call: { ...action.tool_call, arguments: '{"outside_sandbox":true}' } }]],
  [[action, action]],
  [[]],
])('%j has another digest', (actions) => {
  expect(actionsDigest(actions)).not.toBe(actionsDigest([action]))
})
