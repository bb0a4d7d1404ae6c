import { randomUUID } from 'node:crypto'
import type { WireVersion } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { classifyError, toolCallFailure } from './error-classification.ts'
import type { ConversationWriterOptions } from './writer.ts'

/**
 * How the events of a conversation are written. `seed`: as the closed description has them. `current`: with the members that
 * newer clients know, the event before it on its branch (`parent_id`, none on a root) and what a failure is to its reader.
 */
export function eventFormatter(wire: WireVersion): NonNullable<ConversationWriterOptions['format']> {
  if (wire === 'seed') return (draft) => draft
  return (draft, leafId) => {
    const classification = classifyDraft(draft)
    return {
      ...draft,
      id: draft.id ?? randomUUID(),
      ...(leafId === undefined ? {} : { parent_id: leafId }),
      ...(classification === undefined ? {} : { classification }),
    }
  }
}

function classifyDraft({ kind, code, detail }: EventDraft) {
  if (kind === 'AgentErrorEvent') return toolCallFailure
  return kind === 'ConversationErrorEvent' ? classifyError(String(code), String(detail)) : undefined
}
