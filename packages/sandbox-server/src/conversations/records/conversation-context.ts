import type { LogFunction } from '@slipway/protocol'
import type { KeyedMutex } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import type { Storage } from '@slipway/storage'
import type { ControlPlaneStore } from '@slipway/storage/control-plane'
import type { StorageQuota } from '../../accounts/storage-quota.ts'
import type { RemovedConversations } from './removed-conversations.ts'

/** What the parts of the server that read and change conversations share. */
export interface ConversationContext {
  readonly controlPlane: ControlPlaneStore
  readonly storage: Storage
  readonly storageQuota: StorageQuota
  readonly removedConversations: RemovedConversations
  /** Held while the records of a conversation change, among all servers. */
  readonly conversationMutex: Pick<KeyedMutex, 'runExclusive'>
  readonly fetch: typeof fetch
  readonly log: LogFunction
  readonly clock: Clock
}
