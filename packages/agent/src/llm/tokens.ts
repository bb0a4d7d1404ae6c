import type { Message } from '@slipway/protocol'
import type { ModelTool } from './model.ts'

const perMessage = 4
const perCall = 8
const perImage = 1000
const known = new WeakMap<Message, number>()

/** Estimates tokens for any model, rather too high than too low. Caches by message, so it must not change. */
export function countTokens(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + messageTokens(message), 0)
}

const knownTools = new WeakMap<readonly ModelTool[], number>()

/** Estimates tokens of the tools of a request. Caches by array, so it must not change. */
export function countToolTokens(tools: readonly ModelTool[]): number {
  const counted = knownTools.get(tools)
  if (counted !== undefined) return counted
  const tokens = tools.reduce((sum, tool) => sum + perCall + textTokens(JSON.stringify(tool)), 0)
  knownTools.set(tools, Math.ceil(tokens))
  return Math.ceil(tokens)
}

function messageTokens(message: Message): number {
  const counted = known.get(message)
  if (counted !== undefined) return counted
  const tokens = Math.ceil(
    perMessage + contentTokens(message) + callTokens(message) + reasoningTokens(message),
  )
  known.set(message, tokens)
  return tokens
}

function contentTokens({ content }: Message): number {
  return content.reduce(
    (sum, part) => sum + (part.type === 'text' ? textTokens(part.text) : part.image_urls.length * perImage),
    0,
  )
}

function callTokens({ tool_calls }: Message): number {
  return (tool_calls ?? []).reduce(
    (sum, call) => sum + perCall + textTokens(call.name) + textTokens(call.arguments),
    0,
  )
}

/** Signed reasoning stands in a message twice; encrypted reasoning is longer than its text. */
function reasoningTokens({ reasoning_content, thinking_blocks, responses_reasoning_item }: Message): number {
  const encrypted = thinking_blocks.reduce(
    (sum, block) => sum + (block.type === 'redacted_thinking' ? block.data.length : 0),
    responses_reasoning_item?.encrypted_content?.length ?? 0,
  )
  return textTokens(reasoning_content ?? '') + encrypted / 8
}

/**
 * The first letter of a word counts most, signs more than a half, runs of blanks little. Capitals inside a
 * word,
 * and what follows them, count like first letters: encoded data consists of them.
 */
export function textTokens(text: string): number {
  let tokens = 0
  let before: CharacterKind = 'blank'
  let isAfterInnerCapital = false
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    const kind = characterKind(unit)
    const isInner = kind === 'letter' && before === 'letter'
    const isCapital = unit < 0x5b
    if (kind === 'letter') tokens += isInner && !isCapital && !isAfterInnerCapital ? 0.2 : 0.6
    else if (kind === 'blank') tokens += before === 'blank' ? 0.05 : 0.1
    else if (kind === 'sign') tokens += 0.65
    else tokens += unit < 0x800 ? 0.5 : 1
    isAfterInnerCapital = isInner && isCapital
    before = kind
  }
  return tokens
}

type CharacterKind = 'letter' | 'blank' | 'sign' | 'other'

function characterKind(unit: number): CharacterKind {
  if (unit >= 0x80) return 'other'
  if (unit === 0x20 || (unit >= 0x09 && unit <= 0x0d)) return 'blank'
  return (unit | 0x20) >= 0x61 && (unit | 0x20) <= 0x7a ? 'letter' : 'sign'
}
