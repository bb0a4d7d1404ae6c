import { isDeepStrictEqual } from 'node:util'
import { type AgentContext, Problem, type SendMessageRequest } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Secrets } from '../secrets/secrets.ts'
import type { SkillSet } from '../skills/skill-set.ts'
import { redactEvent } from './events/redact-event.ts'
import { userMessageSuffix } from './runtime/system-prompt.ts'
import type { LogEvent } from './view/view.ts'

/** The event of a message as it was sent, with the skills that it activates and what hooks and the agent's context add. */
export function userMessageEvent(
  message: SendMessageRequest,
  options: {
    readonly id: string
    readonly skills: SkillSet | undefined
    /** Names of those that were told before. */
    readonly activated: ReadonlySet<string>
    readonly agentContext: AgentContext | undefined
    readonly added: readonly string[]
  },
): EventDraft {
  const { id, skills, activated: activatedSkills, agentContext, added } = options
  const { names, content } = skills?.activate(messageText(message), activatedSkills) ?? {
    names: [],
    content: [],
  }
  return {
    id,
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: message.role, content: message.content, thinking_blocks: [] },
    activated_skills: names,
    extended_content: [
      ...(message.extended_content ?? []),
      ...content,
      ...userMessageSuffix(agentContext),
      ...added.map((text) => ({ type: 'text', text, cache_prompt: false })),
    ],
    sender: message.sender,
  }
}

/** A Problem `conflict` unless both say the same. A secret that became known between the two makes no difference. */
export function assertSameMessage(stored: LogEvent, draft: EventDraft, secrets: Secrets): void {
  if (stored.kind === 'MessageEvent') {
    const comparable = (llm_message: unknown, sender: unknown) =>
      redactEvent({ kind: 'MessageEvent', source: 'user', llm_message, sender: sender ?? null }, secrets)
    const [one, other] = [
      comparable(stored.llm_message, stored.sender),
      comparable(draft.llm_message, draft.sender),
    ]
    if (isDeepStrictEqual(one, other)) return
  }
  throw new Problem('conflict', 'The idempotency key was used with another message.')
}

/** The texts of a message, a line each. */
export function messageText({ content = [] }: { readonly content?: readonly object[] | undefined }): string {
  return content.flatMap((part) => ('text' in part ? [String(part.text)] : [])).join('\n')
}
