import { randomUUID } from 'node:crypto'
import type { WireVersion } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { classifyError, toolCallFailure } from './error-classification.ts'
import type { ConversationWriterOptions } from './writer.ts'

/** No id of an event. */
const laterRootParent = '__root__'

/**
 * Formats the events of a conversation. `seed`: the members of the closed specification. `current`: also
 * `parent_id` (the event before it on its branch; `__root__` on a later root, absent on the first event) and
 * the classification of errors.
 */
export function eventFormatter(wire: WireVersion): NonNullable<ConversationWriterOptions['format']> {
  if (wire === 'seed') return (draft) => draft
  return (draft, leafId, isFirst) => {
    const parent = leafId ?? (isFirst ? undefined : laterRootParent)
    const classification = classifyDraft(draft)
    return {
      ...draft,
      id: draft.id ?? randomUUID(),
      ...(parent === undefined ? {} : { parent_id: parent }),
      ...(classification === undefined ? {} : { classification }),
    }
  }
}

function classifyDraft({ kind, code, detail }: EventDraft) {
  if (kind === 'AgentErrorEvent') return toolCallFailure
  return kind === 'ConversationErrorEvent' ? classifyError(String(code), String(detail)) : undefined
}
