import { Problem } from '@slipway/protocol/client'
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
 * The id that a user names: all of it, its first characters (at least 4, dashes may be missing),
 * its title, a part of the title in any case when `titles` is `parts`, or `@last`. A Problem when
 * none or several fit.
 */
export async function findConversationId(
  source: ConversationSource,
  text: string,
  titles: 'parts' | 'whole' = 'parts',
): Promise<string> {
  if (text === lastId) {
    const { items } = await source.list({ limit: 1 })
    if (items[0] !== undefined) return items[0].id
    throw new Problem('not_found', 'There is no conversation yet.')
  }
  const prefix = text.toLowerCase().replaceAll('-', '')
  if (/^[0-9a-f]{32}$/.test(prefix)) return text
  const isPrefix = /^[0-9a-f]{4,31}$/.test(prefix)
  const part = text.trim().toLowerCase()
  const found: Record<'id' | 'title' | 'part', ConversationSummary[]> = { id: [], title: [], part: [] }
  if (part !== '') {
    for await (const conversation of listConversations(source)) {
      const { id, title } = conversation
      if (isPrefix && id.replaceAll('-', '').startsWith(prefix)) found.id.push(conversation)
      if (title === text) found.title.push(conversation)
      else if (title.toLowerCase().includes(part)) found.part.push(conversation)
    }
  }
  const [match, ...others] =
    [found.id, found.title, titles === 'parts' ? found.part : []].find((group) => group.length > 0) ?? []
  const name = sanitizeLine(text)
  if (match === undefined) {
    const problem = `No conversation has this id or title: ${name}. "slipway ls" lists them.`
    const isPart = found.part.length > 0 ? ' Name its whole title here.' : ''
    throw new Problem('not_found', problem + isPart)
  }
  if (others.length === 0) return match.id
  const candidates = [match, ...others]
  const lines = candidates
    .slice(0, maxCandidates)
    .map(({ id, title }) => `  ${id}  ${truncate(sanitizeLine(title), 60)}`)
  const more = candidates.length > maxCandidates ? [`  and ${candidates.length - maxCandidates} others`] : []
  throw new Problem('conflict', [`Several conversations fit ${name}:`, ...lines, ...more].join('\n'))
}
