import { conversationRoutes } from '@slipway/protocol'
import { defineModule } from '../../core/module.ts'
import { ExportKey } from './export-key.ts'
import { formatHandlers } from './handlers.ts'

const { importConversation, exportConversation } = conversationRoutes

/** Conversations as files, in and out: each format is a file of `formats`. */
export const formatsModule = defineModule({
  name: 'formats',
  routes: { importConversation, exportConversation },
  open: async ({ storage, infoReader, documents, cipher, host }) => {
    const exportKey = await ExportKey.open({ documents, cipher })
    const now = () => host.clock.now() * 1000
    return {
      handlers: formatHandlers({ storage, infoReader, exportKey, now }),
      serverInfo: () => ({ export_public_key: exportKey.publicKey }),
    }
  },
})
