import { isDeepStrictEqual } from 'node:util'
import { type AgentContext, Problem, type SendMessageRequest } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import type { Secrets } from '../secrets/secrets.ts'
import type { SkillSet } from '../skills/skill-set.ts'
import { textBlock } from '../tools/core/tool.ts'
import { redactEvent } from './events/redact-event.ts'
import { userMessageSuffix } from './runtime/system-prompt.ts'
import type { LogEvent } from './view/view.ts'

/** The event of a message, with what skills, hooks and the agent's context add. */
export function userMessageEvent(
  message: SendMessageRequest,
  options: {
    readonly id: string
    readonly skills: SkillSet | undefined
    /** Names of the skills that earlier messages activated. */
    readonly activatedSkills: ReadonlySet<string>
    readonly agentContext: AgentContext | undefined
    readonly additionalContext: readonly string[]
  },
): EventDraft {
  const { id, skills, activatedSkills, agentContext, additionalContext } = options
  const activated = skills?.activate(messageText(message), activatedSkills)
  return {
    id,
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: message.role, content: message.content, thinking_blocks: [] },
    activated_skills: activated?.names ?? [],
    extended_content: [
      ...(message.extended_content ?? []),
      ...(activated?.content ?? []),
      ...userMessageSuffix(agentContext),
      ...additionalContext.map(textBlock),
    ],
    sender: message.sender,
  }
}

/** A Problem `conflict` unless both have the same redacted text: a secret may have become known between. */
export function assertSameMessage(stored: LogEvent, draft: EventDraft, secrets: Secrets): void {
  if (stored.kind === 'MessageEvent') {
    const comparable = ({ llm_message, sender }: Readonly<Record<string, unknown>>) =>
      redactEvent({ kind: 'MessageEvent', source: 'user', llm_message, sender: sender ?? null }, secrets)
    if (isDeepStrictEqual(comparable(stored), comparable(draft))) return
  }
  throw new Problem('conflict', 'The idempotency key was used with another message.')
}

export function messageText({ content = [] }: { readonly content?: readonly object[] | undefined }): string {
  return content.flatMap((part) => ('text' in part ? [String(part.text)] : [])).join('\n')
}
