import { Problem } from '@slipway/protocol'
import { sanitizeLine, truncate } from '../../output/sanitize.ts'
import { listConversations } from './list-conversations.ts'
import type { ConversationSource, ConversationSummary } from './source.ts'

/** Stands for the id of the conversation that changed last; `--last` becomes this argument. */
export const lastId = '@last'

/** Puts `@last` where `--last` stands for an id; what follows `--` is left as it is. */
export function replaceLastFlag(args: readonly string[]): string[] {
  const end = args.indexOf('--')
  return args.map((arg, at) => (arg === '--last' && (end === -1 || at < end) ? lastId : arg))
}

const maxCandidates = 10

/**
 * The id that a user names: all of it, its first characters (at least 4, dashes may be missing), or `@last`.
 * A Problem when none or several begin so.
 */
export async function findConversationId(source: ConversationSource, text: string): Promise<string> {
  if (text === lastId) {
    const { items } = await source.list({ limit: 1 })
    if (items[0] !== undefined) return items[0].id
    throw new Problem('not_found', 'There is no conversation yet.')
  }
  const prefix = text.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{4,31}$/.test(prefix)) return text
  const found: ConversationSummary[] = []
  for await (const conversation of listConversations(source)) {
    if (conversation.id.replaceAll('-', '').startsWith(prefix)) found.push(conversation)
    if (found.length === maxCandidates) break
  }
  if (found.length === 1 && found[0] !== undefined) return found[0].id
  if (found.length === 0) {
    throw new Problem(
      'not_found',
      `No conversation has an id that begins with ${text}. "slipway ls" lists them.`,
    )
  }
  const lines = found.map(({ id, title }) => `  ${id}  ${truncate(sanitizeLine(title), 60)}`)
  throw new Problem('conflict', [`Several ids begin with ${text}:`, ...lines].join('\n'))
}
