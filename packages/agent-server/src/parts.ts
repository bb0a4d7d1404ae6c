import { homedir } from 'node:os'
import { join } from 'node:path'
import { reach, type SocketRoute } from '@slipway/http'
import type { Log } from '@slipway/protocol'
import { Cipher, type SqliteStorage } from '@slipway/storage'
import { Agents } from './agents.ts'
import { Bash } from './bash.ts'
import { bashSocket } from './bash-socket.ts'
import type { Config } from './config.ts'
import { Conversations } from './conversations.ts'
import { eventsSocket } from './events-socket.ts'
import { Git } from './git.ts'
import { bashHandlers } from './handlers/bash.ts'
import { controlHandlers } from './handlers/control.ts'
import { conversationHandlers } from './handlers/conversations.ts'
import { eventHandlers } from './handlers/events.ts'
import { fileHandlers } from './handlers/files.ts'
import { gitHandlers } from './handlers/git.ts'
import { profileHandlers } from './handlers/profiles.ts'
import { skillHandlers } from './handlers/skills.ts'
import { Profiles } from './profiles.ts'
import { SkillList } from './skill-list.ts'
import { Webhooks } from './webhooks.ts'

export interface PartsOptions {
  /** With what a server that waited for its settings has been given. */
  readonly config: Config
  readonly directory: string
  readonly storage: SqliteStorage
  readonly log: Log
  /** Called by what changes something. */
  readonly touch: () => void
}

export type Parts = Awaited<ReturnType<typeof openParts>>

/** Everything that depends on keys and secrets. Nobody is answered before: what was running when the process died is paused. */
export async function openParts({ config, directory, storage, log, touch }: PartsOptions) {
  await using opened = new AsyncDisposableStack()
  const now = () => Date.now() * 1000
  const { toolEnvironment: environment } = config
  const conversations = new Conversations(storage, directory)
  const cipher = await Cipher.open({ directory, secretKey: config.secretKey, log })
  const profiles = new Profiles({ directory: join(directory, 'profiles'), cipher, max: config.maxProfiles })
  const hidden = [...config.secrets.map((secret) => secret.open()), ...cipher.texts]
  const webhooks = opened.use(
    new Webhooks({
      storage,
      receivers: config.webhooks,
      info: async (record) => await conversations.info(record, { loaded: await agents.peek(record.id) }),
      sessionKey: config.keys[0],
      fetch: reach,
      log,
    }),
  )
  const agents = opened.use(
    new Agents({
      storage,
      cipher,
      profiles,
      log,
      now,
      directory: join(directory, 'conversations'),
      environment,
      home: environment.HOME,
      isConfined: config.confineFiles,
      hidden,
      confirmationDeadlineMs: config.confirmationDeadlineMs,
      maxRuns: config.maxConcurrentRuns,
      idleMs: config.conversationIdleMs,
    }),
  )
  const bash = opened.use(
    await Bash.open({
      directory: join(directory, 'bash'),
      workingDirectory: process.cwd(),
      environment,
      hidden,
      retentionMs: config.bashRetentionMs,
      log,
      now,
    }),
  )
  await agents.recover()
  webhooks.start()
  const create = { storage, agents, worktrees: join(directory, 'worktrees'), environment }
  const handlers = {
    ...conversationHandlers({ create, conversations, touch, now }),
    ...controlHandlers({ storage, agents, profiles, touch }),
    ...eventHandlers({ storage, agents, touch, heartbeatMs: config.heartbeatMs }),
    ...profileHandlers({ profiles, touch }),
    ...bashHandlers({ bash, touch }),
    ...gitHandlers({ git: new Git(environment) }),
    ...skillHandlers({ skills: new SkillList({ home: environment.HOME, log }) }),
    ...fileHandlers({ home: environment.HOME ?? homedir(), touch }),
  }
  const sockets = {
    events: eventsSocket({ storage, agents, conversations, touch, now }),
    bash: bashSocket({ bash, touch, now }),
  } satisfies Record<string, SocketRoute>
  const parts = opened.move()
  return { handlers, sockets, [Symbol.asyncDispose]: () => parts.disposeAsync() }
}
