import type { Random } from './random.ts'

export type ReplyPart =
  | { readonly kind: 'thought'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  /** A thought that is sent encrypted alone; only Claude's interface has them. */
  | { readonly kind: 'hidden' }
  | { readonly kind: 'call'; readonly name: string; readonly input: string }

export type ReplyEnd = 'stop' | 'length' | 'refusal'

/** What a model says, before it has the form of an interface. */
export interface Reply {
  readonly parts: readonly ReplyPart[]
  readonly end: ReplyEnd
}

/** Orders of thoughts (r), hidden thoughts (h), texts (t) and calls (c), interleaved as Claude sends them. */
const orders = ['rtcrc', 'rcrc', 'tc', 'c', 'cc', 'rtc', 'trc', 'hrc', 'rhtcrcc', 'ctc', 'rct', 'rtct']
const finalOrders = ['t', 'rt', 'tt', 'rtrt', 'hrt', 'trt', 'f', 'rtf', 'rcrf']

/** `isLast`: the reply ends the run, by a text or by a call of `finish`. */
export function randomReply(random: Random, { isLast, tag }: { isLast: boolean; tag: string }): Reply {
  const order = random.pick(isLast ? finalOrders : orders)
  const parts = [...order].map((letter, index): ReplyPart => {
    if (letter === 'r') return { kind: 'thought', text: `Thought ${index} of ${tag}: look closer. ` }
    if (letter === 'h') return { kind: 'hidden' }
    if (letter === 't') return { kind: 'text', text: `Text ${index} of ${tag} 🙂.` }
    if (letter === 'f')
      return { kind: 'call', name: 'finish', input: JSON.stringify({ message: `Finish of ${tag}.` }) }
    return randomCall(random, `${tag} ${index}`)
  })
  return { parts, end: 'stop' }
}

/** The texts of which an answer of this reply may be made; a cut text is continued by the next reply. */
export function answerTexts({ parts }: Reply): readonly string[] {
  return parts.flatMap((part) => {
    if (part.kind === 'text') return [part.text]
    return part.kind === 'call' && part.name === 'finish' ? [JSON.parse(part.input).message] : []
  })
}

function randomCall(random: Random, tag: string): ReplyPart {
  const call = (name: string, input: object | string): ReplyPart => ({
    kind: 'call',
    name,
    input: typeof input === 'string' ? input : JSON.stringify(input),
  })
  switch (random.below(12)) {
    case 0:
      return call('terminal', { command: `echo '${tag}'`, security_risk: 'LOW' })
    case 1:
      return call('terminal', { command: 'false' })
    case 2:
      return call('no_such_tool', { a: tag })
    case 3:
      return call('think', '{"thought": "broken')
    case 4:
      return call('terminal', { wrong: true })
    default:
      return call('think', { thought: `Of ${tag}: ${'so '.repeat(random.below(40))}` })
  }
}
