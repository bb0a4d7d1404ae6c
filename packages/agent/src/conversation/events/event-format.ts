import { randomUUID } from 'node:crypto'
import type { Wire } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { classify, ofCall } from './error-classification.ts'
import type { PenOptions } from './writer.ts'

/**
 * How the events of a conversation are written. `seed`: as the closed description has them. `current`: with the members that
 * newer clients know, the event before it on its branch (`parent_id`, none on a root) and what a failure is to its reader.
 */
export function dressFor(wire: Wire): NonNullable<PenOptions['dress']> {
  if (wire === 'seed') return (draft) => draft
  return (draft, leafId) => {
    const classification = classificationOf(draft)
    return {
      ...draft,
      id: draft.id ?? randomUUID(),
      ...(leafId === undefined ? {} : { parent_id: leafId }),
      ...(classification === undefined ? {} : { classification }),
    }
  }
}

function classificationOf({ kind, code, detail }: EventDraft) {
  if (kind === 'AgentErrorEvent') return ofCall
  return kind === 'ConversationErrorEvent' ? classify(String(code), String(detail)) : undefined
}
