import type { Handlers } from '@slipway/http'
import { type agentServerRoutes, must } from '@slipway/protocol'
import { exportFormats } from '@slipway/protocol/client'
import { gzipStream, readBatches, type Storage } from '@slipway/storage'
import type { ConversationInfoReader } from '../../core/conversations/conversation-info.ts'
import { importEvents } from '../../core/conversations/lifecycle/import.ts'
import type { ExportKey } from './export-key.ts'
import { formatWriters } from './formats/formats.ts'

/** Conversations as files, in and out. */
export function formatHandlers({
  storage,
  infoReader,
  exportKey,
  now,
}: {
  readonly storage: Storage
  readonly infoReader: ConversationInfoReader
  readonly exportKey: Pick<ExportKey, 'get'>
  readonly now: () => number
}) {
  return {
    async importConversation({ query, stream }) {
      return {
        status: 201,
        json: await importEvents(storage, stream, { keep: query.unknown === 'keep', now }),
      }
    },
    async exportConversation({ params, query }) {
      const record = await infoReader.getRecord(params.conversation_id)
      const name = query.format ?? 'jsonl'
      const { extension, contentType } = must(
        exportFormats.find((one) => one.name === name),
        'the format',
      )
      // A key that cannot be read is refused before the first byte.
      const key = name === 'verifiable' ? await exportKey.get() : undefined
      const chunks = formatWriters[name]({
        ...{ log: storage.log, record, batches: readBatches(storage.log, record), meta: query.meta },
        infoReader,
        signingKey: async () => key ?? (await exportKey.get()),
      })
      const file = `${record.id}.${extension}${query.gzip ? '.gz' : ''}`
      const headers = { 'content-disposition': `attachment; filename="${file}"` }
      return query.gzip
        ? { chunks: gzipStream(chunks), contentType: 'application/gzip', headers }
        : { chunks, contentType, headers }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}
