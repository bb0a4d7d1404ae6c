import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, systemClock } from '@slipway/shared/time'
import { Cipher, type Storage } from '@slipway/storage'
import { AgentProfiles } from '../compat/agent-profiles/agent-profiles.ts'
import type { CreateConversationDeps } from '../core/conversations/lifecycle/create.ts'
import { type ConversationPart, ConversationParts } from '../core/conversations/parts.ts'
import { ConversationRegistry } from '../core/conversations/registry.ts'
import type { ServerSecrets } from '../core/secrets/server-secrets.ts'
import { LlmProfiles } from '../modules/llm-profiles/llm-profiles.ts'
import { ServerSettings } from '../modules/settings/server-settings.ts'
import { fileDocuments } from './file-documents.ts'

/** A directory for one test. */
export function temporaryDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-server-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

/** What modules would add to conversations. */
export function partsOf(part: ConversationPart): ConversationParts {
  const parts = new ConversationParts()
  parts.add(part)
  return parts
}

/** The conversations of a server whose data is in a directory, without the server. */
export async function openRegistry(
  storage: Storage,
  directory: string,
  idleMs = 60_000,
  secrets?: ServerSecrets,
  clock: Clock = systemClock,
): Promise<ConversationRegistry> {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  return new ConversationRegistry({
    storage,
    cipher,
    parts: partsOf({
      models: new LlmProfiles({
        documents: fileDocuments(directory),
        cipher,
        settings: new ServerSettings({ documents: fileDocuments(directory), cipher }),
      }),
    }),
    ...(secrets === undefined ? {} : { secrets }),
    log: () => undefined,
    clock,
    directory: join(directory, 'conversations'),
    environment: { PATH: '/usr/bin:/bin' },
    homeDirectory: undefined,
    isConfined: true,
    redactedValues: [],
    confirmationDeadlineMs: undefined,
    maxConcurrentRuns: 10,
    queuesRuns: false,
    maxRunRecoveries: 3,
    idleMs,
  })
}

/** What creates conversations of these agents. */
export async function openCreateDeps(
  storage: Storage,
  registry: ConversationRegistry,
  directory: string,
): Promise<CreateConversationDeps> {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const settings = new ServerSettings({ documents: fileDocuments(directory), cipher })
  const llmProfiles = new LlmProfiles({ documents: fileDocuments(directory), cipher, settings })
  const agentProfiles = new AgentProfiles({
    documents: fileDocuments(directory),
    cipher,
    llmProfiles,
    settings,
    listUserSkills: async () => [],
  })
  const worktrees = join(directory, 'worktrees')
  const parts = partsOf({ models: llmProfiles, agentProfiles })
  return { storage, registry, worktrees, environment: {}, cipher, parts }
}
