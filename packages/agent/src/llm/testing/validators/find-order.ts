import type { Finding, Rule } from './rule.ts'
import { isSigned, readSignature, type Signer } from './signed.ts'
import type { Block, CallBlock, ReasoningBlock, ResultBlock, Turn, WireRequest } from './wire-request.ts'

type Find = Rule['find']

const isCall = (block: Block): block is CallBlock => block.kind === 'call'
const isResult = (block: Block): block is ResultBlock => block.kind === 'result'
const isReasoning = (block: Block): block is ReasoningBlock => block.kind === 'reasoning'

interface Step {
  readonly turns: readonly Turn[]
  readonly isAssistant: boolean
}

/** Neighbours of one side; in chats each assistant message stands alone. */
function stepsOf(turns: readonly Turn[], joins: boolean): Step[] {
  const steps: { turns: Turn[]; isAssistant: boolean }[] = []
  for (const turn of turns) {
    const isAssistant = turn.role === 'assistant'
    const last = steps.at(-1)
    if (last?.isAssistant === isAssistant && (joins || !isAssistant)) last.turns.push(turn)
    else steps.push({ turns: [turn], isAssistant })
  }
  return steps
}

const blocksIn = ({ turns }: Step) => turns.flatMap(({ blocks }) => blocks)

/** Calls that their results do not follow at once, and results without a call. */
export function unanswered(joins: boolean): Find {
  return ({ turns }) => {
    const steps = stepsOf(turns, joins)
    return steps.flatMap((step, index): Finding[] => {
      if (step.isAssistant) {
        const calls = blocksIn(step).filter(isCall)
        const next = steps[index + 1]
        const found = next === undefined ? [] : leadingResults(next)
        return calls
          .filter(({ id }) => !found.some((result) => result.id === id))
          .map(({ at, id }) => ({ at, what: id }))
      }
      const before = index === 0 ? undefined : steps[index - 1]
      const calls = before === undefined ? [] : blocksIn(before).filter(isCall)
      const seen = new Set<string>()
      return blocksIn(step)
        .filter(isResult)
        .flatMap(({ at, id }) => {
          const isKnown = calls.some((call) => call.id === id) && !seen.has(id)
          seen.add(id)
          return isKnown ? [] : [{ at, what: id }]
        })
    })
  }
}

/** The results before anything else; what a result contains belongs to it. */
function leadingResults(step: Step): readonly ResultBlock[] {
  const blocks = blocksIn(step)
  const results = blocks.filter(isResult)
  const end = blocks.findIndex(
    (block) => !isResult(block) && !results.some(({ at }) => block.at.startsWith(`${at}.`)),
  )
  return (end < 0 ? blocks : blocks.slice(0, end)).filter(isResult)
}

export function foreignRoles(roles: readonly string[]): Find {
  return ({ turns }) =>
    turns
      .filter(({ role }) => !roles.includes(role))
      .map(({ at, role }) => ({ at: `${at}.role`, what: role }))
}

const talk = ({ turns }: WireRequest) => turns.filter(({ role }) => !['system', 'developer'].includes(role))

export const wrongStart: Find = (request) => {
  const [first] = talk(request)
  return first === undefined || first.role === 'assistant'
    ? [{ at: first?.at ?? '', what: first?.role ?? 'nothing' }]
    : []
}

export const wrongEnd: Find = (request) => {
  const last = talk(request).at(-1)
  return last?.role === 'assistant' ? [{ at: last.at, what: last.role }] : []
}

export const lateSystem: Find = ({ turns }) => {
  const first = turns.findIndex(({ role }) => role !== 'system' && role !== 'developer')
  return turns
    .filter(({ role }, index) => (role === 'system' || role === 'developer') && first >= 0 && index > first)
    .map(({ at, role }) => ({ at, what: role }))
}

export const sameSides: Find = ({ turns }) =>
  turns.flatMap(({ at, role }, index) => (turns[index - 1]?.role === role ? [{ at, what: role }] : []))

/** Reasoning that another one signed, or whose text is not the signed one. */
export function unsigned(signer: Signer): Find {
  return ({ turns }) =>
    turns
      .flatMap(({ blocks }) => blocks.filter(isReasoning))
      .filter(({ text, signature, data }) =>
        data === undefined ? !isSigned(signer, text, signature ?? '') : !isOf(signer, data),
      )
      .map(({ at }) => ({ at, what: 'an invalid signature' }))
}

const isOf = (signer: Signer, data: string) => readSignature(data).signer === signer

/** Signed parts at another place than that at which they were received. */
export const movedReasoning: Find = ({ turns }) =>
  turns.flatMap(({ blocks, role }) => {
    if (role !== 'assistant') return []
    const letters = { reasoning: 'r', text: 't', call: 'c', picture: '', result: '' }
    // Hidden thoughts of the other interface of a model are left out.
    const seen = blocks.filter((block) => !isReasoning(block) || block.data === undefined)
    const sent = seen.map(({ kind }) => letters[kind])
    return seen.filter(isReasoning).flatMap(({ at, signature }) => {
      const { order } = readSignature(signature ?? '')
      return order === '' || hasOrder(callsLast(sent.join('')), callsLast(order))
        ? []
        : [{ at, what: `${order} as ${sent.join('')}` }]
    })
  })

/** A text behind the last call may stand before it: results follow calls. */
function callsLast(order: string): string {
  return order.replace(/(c+)(t+)$/, '$2$1')
}

/** Answers that follow each other are one message, of which each is a part. */
function hasOrder(sent: string, received: string): boolean {
  if (sent.length <= received.length) return isOrder(sent, received)
  const starts = [...sent].map((_, start) => start)
  return starts.some((start) => starts.some((end) => isOrder(sent.slice(start, end + 1), received)))
}

/** Calls without results are left out; thoughts and texts are all there, and the order is the same. */
function isOrder(sent: string, received: string): boolean {
  let rest = received
  for (const letter of sent) {
    const found = rest.indexOf(letter)
    if (found < 0 || /[rt]/.test(rest.slice(0, found))) return false
    rest = rest.slice(found + 1)
  }
  return !/[rt]/.test(rest)
}
