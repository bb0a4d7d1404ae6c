import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cipher, type Storage } from '@slipway/storage'
import type { CreateParts } from '../conversations/create.ts'
import { Agents } from '../conversations/registry.ts'
import { AgentProfiles } from '../profiles/agent-profiles.ts'
import { Profiles } from '../profiles/llm-profiles.ts'
import type { ServerSecrets } from '../secrets/server-secrets.ts'
import { ServerSettings } from '../settings/server-settings.ts'

/** A directory for one test. */
export function temporary(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), 'slipway-server-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) }
}

/** The conversations of a server whose data is in a directory, without the server. */
export async function openAgents(
  storage: Storage,
  directory: string,
  idleMs = 60_000,
  secrets?: ServerSecrets,
): Promise<Agents> {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  return new Agents({
    storage,
    cipher,
    profiles: new Profiles({ directory: join(directory, 'profiles'), cipher }),
    ...(secrets === undefined ? {} : { secrets }),
    log: () => undefined,
    now: () => Date.now() * 1000,
    directory: join(directory, 'conversations'),
    environment: { PATH: '/usr/bin:/bin' },
    home: undefined,
    isConfined: true,
    hidden: [],
    confirmationDeadlineMs: undefined,
    maxRuns: 10,
    idleMs,
  })
}

/** What creates conversations of these agents. */
export async function creating(storage: Storage, agents: Agents, directory: string): Promise<CreateParts> {
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const profiles = new Profiles({ directory: join(directory, 'profiles'), cipher })
  const agentProfiles = new AgentProfiles({
    path: join(directory, 'agent-profiles.sealed'),
    cipher,
    models: profiles,
    settings: new ServerSettings({ directory, cipher }),
    skills: async () => [],
  })
  const worktrees = join(directory, 'worktrees')
  return { storage, agents, worktrees, environment: {}, cipher, profiles, agentProfiles }
}
