import fc from 'fast-check'
import { expect, test } from 'vitest'
import { shrinkEvent } from './shrink-event.ts'

const event = (observation: object) =>
  Buffer.from(JSON.stringify({ id: 'a', kind: 'ObservationEvent', observation }))

test('bulky members go first and the rest stays whole', () => {
  const small = JSON.parse(
    shrinkEvent(event({ screenshot_data: 'x'.repeat(5000), content: [{ text: 'seen' }] }), 4000).toString(),
  )
  expect(small).toEqual({
    id: 'a',
    kind: 'ObservationEvent',
    observation: { screenshot_data: null, content: [{ text: 'seen' }] },
  })
})

test('a long text is cut with a note and the frame is below the limit, whatever its characters cost', () => {
  for (const character of ['x', '"', '\u0001', '😀']) {
    const frame = shrinkEvent(event({ content: [{ type: 'text', text: character.repeat(20_000) }] }), 10_000)
    expect(frame.length).toBeLessThan(10_000)
    expect(JSON.parse(frame.toString()).observation.content[0].text).toMatch(
      /characters are left out of this frame/,
    )
  }
})

test('long lists lose their ends when texts are not what makes an event large', () => {
  const ids = Array.from({ length: 20_000 }, (_, i) => i)
  const token = { id: 'a', kind: 'TokenEvent', prompt_token_ids: ids, response_token_ids: [1, 2] }
  const frame = shrinkEvent(Buffer.from(JSON.stringify(token)), 10_000)
  expect(frame.length).toBeLessThan(10_000)
  const slimmed = JSON.parse(frame.toString())
  expect(slimmed).toMatchObject({ id: 'a', kind: 'TokenEvent', response_token_ids: [1, 2] })
  expect(slimmed.prompt_token_ids).toEqual(ids.slice(0, slimmed.prompt_token_ids.length))
})

test('whatever makes an event large, its frame is below the limit, and its own texts and names stay', () => {
  const leaf = fc.oneof(fc.string({ maxLength: 3_000 }), fc.integer(), fc.constant(null))
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      leaf,
      fc.array(tie('value'), { maxLength: 300 }),
      fc.dictionary(fc.string({ maxLength: 300 }), tie('value'), { maxKeys: 300 }),
    ),
  }))
  fc.assert(
    fc.property(value, (given) => {
      const large = { id: 'a', kind: 'ConversationStateUpdateEvent', key: 'full_state', value: given }
      const frame = shrinkEvent(Buffer.from(JSON.stringify(large)), 2_000)
      expect(frame.length).toBeLessThan(2_000)
      expect(JSON.parse(frame.toString())).toMatchObject({ id: 'a', kind: large.kind, key: 'full_state' })
    }),
    { numRuns: 300 },
  )
})

test('a snapshot keeps what clients wait for when its agent is too large for a frame', () => {
  const skills = Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`NAME_${at}`, { at }]))
  const value = {
    id: 'c',
    execution_status: 'finished',
    confirmation_policy: { kind: 'NeverConfirm' },
    workspace: { working_dir: '/w', kind: 'LocalWorkspace' },
    persistence_dir: '/p',
    agent: { llm: { model: 'm', usage_id: 'agent' }, agent_context: { secrets: skills }, kind: 'Agent' },
    client_tools: Array.from({ length: 5_000 }, (_, at) => ({ name: `tool-${at}`, parameters: { at } })),
  }
  const frame = shrinkEvent(Buffer.from(JSON.stringify({ id: 'a', key: 'full_state', value })), 100_000)
  expect(frame.length).toBeLessThan(100_000)
  const { client_tools: _, agent, ...needed } = value
  expect(JSON.parse(frame.toString()).value).toMatchObject({
    ...needed,
    agent: { llm: agent.llm, kind: 'Agent' },
  })
})
