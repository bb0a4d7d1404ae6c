import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { FakeClock } from '@slipway/shared/time/testing'
import type { EventDraft } from '@slipway/storage'
import { expect, test } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { statusUpdate } from '../events/event-drafts.ts'
import { ConversationState } from '../state/state.ts'
import type { LogEvent } from '../view/log-event.ts'
import { requiresConfirmation } from './confirmation.ts'
import { ServerQuestions } from './server-questions.ts'

const question = { server: 's', message: 'Which?', fields: {} }

function call(tool_name: string, id = randomUUID()): EventDraft {
  const action = { kind: 'TerminalAction', command: 'rm -r work', is_input: false, reset: false }
  return {
    kind: 'ActionEvent',
    source: 'agent',
    id,
    tool_name,
    tool_call_id: id,
    action,
    llm_response_id: id,
  }
}

/** A log in memory whose appends wait for `gate`; a call of a server is executed. */
function conversation() {
  const state = new ConversationState()
  const kinds: string[] = []
  const write = (events: readonly EventDraft[]) => {
    for (const event of events) {
      state.apply({ id: randomUUID(), ...event } as LogEvent, state.position + 1)
      kinds.push(event.kind)
    }
  }
  const control = { gate: Promise.resolve() }
  const questions = new ServerQuestions({
    secrets: new Secrets(),
    clock: new FakeClock(),
    closing: new AbortController().signal,
    appendPatiently: async (decide) => {
      const events = decide(state)
      await control.gate
      write(events)
    },
  })
  write([statusUpdate('running'), call('greet')])
  write([statusUpdate('waiting_for_confirmation'), statusUpdate('running')])
  const isAskedAbout = () =>
    requiresConfirmation({ kind: 'AlwaysConfirm', deadline_seconds: undefined }, state.openActions(), {
      approvedBelow: state.approvedBelow,
      tools: new Map(),
    })
  return { state, kinds, write, control, questions, isAskedAbout }
}

test('the answer to a question approves no action that came after it', async () => {
  const { state, write, questions, isAskedAbout } = conversation()
  const answer = questions.ask(question, new AbortController().signal)
  await expect.poll(() => state.status).toBe('waiting_for_confirmation')
  write([call('terminal'), statusUpdate('running')])
  await questions.settle()
  expect(await answer).toEqual({ action: 'accept', content: {} })
  expect(isAskedAbout()).toBe(true)
})

test('the end of a question approves nothing, and leaves actions after it waiting', async () => {
  const { state, write, questions, isAskedAbout } = conversation()
  const callEnd = new AbortController()
  const answer = questions.ask(question, callEnd.signal)
  await expect.poll(() => state.status).toBe('waiting_for_confirmation')
  write([call('terminal')])
  callEnd.abort()
  expect(await answer).toEqual({ action: 'cancel' })
  expect([state.status, isAskedAbout()]).toEqual(['waiting_for_confirmation', true])
})

test('the run continues after a question that no one waits for any more', async () => {
  const { state, questions, isAskedAbout } = conversation()
  const callEnd = new AbortController()
  const answer = questions.ask(question, callEnd.signal)
  await expect.poll(() => state.status).toBe('waiting_for_confirmation')
  callEnd.abort()
  expect(await answer).toEqual({ action: 'cancel' })
  expect([state.status, isAskedAbout()]).toEqual(['running', false])
})

test('a question whose call ends while it is written gets an end', async () => {
  const { state, control, questions } = conversation()
  const written = Promise.withResolvers<void>()
  control.gate = written.promise
  const callEnd = new AbortController()
  const answer = questions.ask(question, callEnd.signal)
  await setImmediate()
  callEnd.abort()
  await setImmediate()
  written.resolve()
  expect(await answer).toEqual({ action: 'cancel' })
  await setImmediate()
  expect(state.status).toBe('running')
  expect(state.openActions().map(({ tool_name }) => tool_name)).toEqual(['greet'])
})

test('nothing is asked while no call is open', async () => {
  const { state, kinds, questions } = conversation()
  state.pending.clear()
  expect(await questions.ask(question, new AbortController().signal)).toEqual({ action: 'cancel' })
  expect(kinds.filter((kind) => kind === 'ActionEvent')).toHaveLength(1)
})
