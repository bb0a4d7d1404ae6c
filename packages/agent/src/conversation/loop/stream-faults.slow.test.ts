import { systemClock } from '@slipway/shared/time'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { openModel } from '../../llm/models/open-model.ts'
import {
  BrokenProvider,
  faultKinds,
  finalContent,
  question,
  type Wire,
  wireSettings,
  wires,
} from '../../llm/testing/broken-provider.ts'
import { ConversationFixtures, contentText } from '../testing/fixtures.ts'

const rounds = Number(process.env.SLIPWAY_STREAM_FAULTS ?? 100) / 2

let provider: BrokenProvider
let fixtures: ConversationFixtures
beforeAll(async () => {
  provider = await BrokenProvider.open(openModel)
  fixtures = await ConversationFixtures.open()
}, 120_000)
afterEach(() => provider.endSilent())
afterAll(async () => {
  await fixtures[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

/** What a run has left in its log, without what differs from run to run. */
async function runLog(wire: Wire, limits: object) {
  const llm = { ...wireSettings(wire, provider.url), api_key: 'sk-secret-key', num_retries: 200, ...limits }
  const life = await fixtures.create({
    model: (settings, options) =>
      openModel(settings, { ...options, clock: { ...systemClock, sleep: async () => undefined } }),
    agent: { llm },
    request: { stuck_detection: false },
  })
  await life.sendAndWait(question)
  const events = await life.events()
  const texts = events.flatMap((event) => {
    if (event.kind === 'MessageEvent') return [`${event.source}: ${contentText(event.llm_message.content)}`]
    if (event.kind === 'ActionEvent') return [`call: ${event.tool_call.name} ${event.tool_call.arguments}`]
    return []
  })
  const log = { status: life.status, kinds: await life.eventSummary(), texts }
  await life.conversation.close()
  return log
}

test.each(wires)(
  '%s: a run whose streams break after any byte leaves the same log as one whose streams are whole',
  async (wire) => {
    provider.restart(wire, [])
    const size = provider.recording().bytes.length
    const whole = await runLog(wire, {})
    expect(whole.status).toBe('finished')
    expect(whole.texts).toEqual([
      `user: ${question}`,
      'call: think {"thought":"Kiel"}',
      'call: think {"thought":"Osló"}',
      `agent: ${finalContent}`,
    ])
    const fault = fc.record({ at: fc.nat({ max: size - 1 }), kind: fc.constantFrom(...faultKinds) })
    await fc.assert(
      fc.asyncProperty(fc.array(fault, { minLength: 1, maxLength: 3 }), async (planned) => {
        provider.restart(wire, planned)
        const isSilent = planned.some(({ kind }) => kind === 'silence')
        const log = await runLog(wire, isSilent ? { timeout: 0.3, stream_stall_timeout: 0.3 } : {})
        expect(log).toEqual(whole)
      }),
      { numRuns: Math.ceil(rounds / wires.length) },
    )
  },
  600_000,
)
