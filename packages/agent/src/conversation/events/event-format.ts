import { randomUUID } from 'node:crypto'
import type { WireVersion } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { classifyError, toolCallFailure } from './error-classification.ts'
import type { ConversationWriterOptions } from './writer.ts'

/**
 * Formats the events of a conversation. `seed`: the members of the closed specification. `current`: also
 * `parent_id` (the event before it on its branch, absent on a root) and the classification of errors.
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
