import type { Random } from './random.ts'
import type { Reply } from './reply.ts'
import type { Counts, Wire } from './streams.ts'

/** What goes wrong with an answer of a provider. */
export const faults = [
  ...(['cut', 'reset', 'status', 'empty', 'refusal', 'length', 'odd', 'slow', 'usage', 'garbage'] as const),
] as const
export type Fault = (typeof faults)[number]

/** Statuses that are asked again, with what a server says. */
export const statuses: readonly (readonly [number, string])[] = [
  [429, 'Rate limit reached, please try again later.'],
  [500, 'Internal server error'],
  [502, '<html><body>Bad gateway</body></html>'],
  [503, 'Service unavailable'],
  [529, 'Overloaded'],
]

const oddCounts: readonly Counts[] = [
  { input: 0, output: 0 },
  { input: -5, output: 1e15 },
  { input: null, output: null },
  { input: undefined, output: undefined },
]

export function countsOf(fault: Fault | undefined, random: Random): Counts {
  return fault === 'usage' ? random.pick(oddCounts) : { input: 90, output: 10 }
}

export function faultyReply(reply: Reply, fault: Fault | undefined): Reply {
  if (fault === 'empty') return { parts: [], end: 'stop' }
  if (fault === 'refusal') return { parts: [], end: 'refusal' }
  if (fault === 'length') return { parts: reply.parts.filter(({ kind }) => kind !== 'call'), end: 'length' }
  return reply
}

/** Frames that a reader has to pass over, between those of the reply. */
export function withOddFrames(frames: readonly Buffer[], wire: Wire, random: Random): Buffer[] {
  if (wire === 'bedrock') return [...frames]
  const odd = [
    ': keep-alive\n\n',
    '\n\n',
    ...(wire === 'chat' ? chatFrames : []),
    ...(wire === 'anthropic' ? [anthropicPing] : []),
  ]
  return frames.flatMap((frame) => (random.isTrue(0.4) ? [Buffer.from(random.pick(odd)), frame] : [frame]))
}

const chatFrames = [
  'data: {"id":"x","choices":[]}\n\n',
  'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":null}]}\n\n',
  'data: {"id":"x","choices":[{"index":0,"delta":{"content":null},"finish_reason":null}]}\n\n',
]
const anthropicPing = 'event: ping\ndata: {"type":"ping"}\n\n'
