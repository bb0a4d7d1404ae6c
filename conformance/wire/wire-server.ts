import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, test } from 'vitest'
import { AgentDriver, type ConversationInfo, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { WireClient } from '../support/wire-client.ts'
import type { RequirementId } from './requirements.ts'

export type { Json, RequestOptions, WireResponse } from '../support/wire-client.ts'

/**
 * The wire suite: the requests of existing clients, case by case. Its only inputs are `SLIPWAY_URL` and
 * `SLIPWAY_SESSION_API_KEY`; without a URL it starts the working tree with a key. It assumes of an external
 * server that it listens on loopback of this machine or forwards to one, that tools may write below the
 * temporary folder, that the scripted model is there, that pages of `pageOrigins` may call, and that no other
 * client changes its settings
 * meanwhile: then run it with `--no-file-parallelism`. It restores what it changes.
 */
export const sessionKey =
  process.env.SLIPWAY_URL === undefined ? 'wire-key-1' : process.env.SLIPWAY_SESSION_API_KEY

/** Origins of web pages on other ports; an external server names them in its `SLIPWAY_ALLOWED_ORIGINS`. */
export const pageOrigins = ['http://localhost:3001', 'http://127.0.0.1:8080'] as const

/** A case of a row. Its name begins with the row, so a report can be read row by row. */
export function wireCase(requirement: RequirementId, promise: string, run: () => Promise<void>): void {
  test(`[${requirement}] ${promise}`, { timeout: 40_000 }, run)
}

/** A case about keys: skipped with an external server without keys. */
export function wireCaseWithKey(
  requirement: RequirementId,
  promise: string,
  run: (key: string) => Promise<void>,
): void {
  test.skipIf(sessionKey === undefined)(`[${requirement}] ${promise}`, { timeout: 40_000 }, () =>
    run(String(sessionKey)),
  )
}

/** The server of a file of cases, open while they run. */
export class WireServer extends WireClient {
  /** An empty folder on the server's machine. */
  directory = ''
  #stop: () => Promise<void> = async () => {}

  constructor() {
    super('', sessionKey)
  }

  get driver(): AgentDriver {
    return new AgentDriver({ api: new AgentServerApi(this), directory: this.directory })
  }

  async open(): Promise<void> {
    const { SLIPWAY_URL } = process.env
    if (SLIPWAY_URL !== undefined) this.url = SLIPWAY_URL.replace(/\/$/, '')
    else {
      const data = await mkdtemp(join(tmpdir(), 'slipway-wire-data-'))
      const home = await mkdtemp(join(tmpdir(), 'slipway-wire-home-'))
      const server = await startAgentServer(data, {
        SLIPWAY_SESSION_API_KEY: String(sessionKey),
        SLIPWAY_ALLOWED_ORIGINS: pageOrigins.join(','),
        HOME: home,
      })
      this.url = server.url
      this.#stop = async () => {
        await server.stop()
        for (const path of [data, home]) await rm(path, { recursive: true, force: true })
      }
    }
    this.directory = (await this.runCommand('mktemp -d -t slipway-wire-XXXXXX')).trim()
  }

  async close(): Promise<void> {
    if (this.directory !== '') await this.runCommand(`rm -rf '${this.directory}'`)
    await this.#stop()
  }

  /** Creates a conversation and runs the script to its end. */
  async createFinished(
    script: readonly unknown[] = [finishStep('Done.')],
    more: object = {},
  ): Promise<ConversationInfo> {
    const info = await this.driver.createScripted(script, more)
    await this.driver.waitUntilIdle(info.id)
    return info
  }

  /** Creates a conversation without a run. */
  async createIdle(
    script: readonly unknown[] = [finishStep('Done.')],
    more: object = {},
  ): Promise<ConversationInfo> {
    return await this.driver.create({ llm: scriptedModel(script) }, more)
  }
}

export const unknownId = '00000000-0000-4000-8000-000000000000'

/** Opens the server before the first case of a file and closes it after the last. */
export function openWireServer(): WireServer {
  const wire = new WireServer()
  beforeAll(() => wire.open(), 60_000)
  afterAll(() => wire.close(), 60_000)
  return wire
}

/** Shell commands that create a repository: one commit with `tracked.txt`. */
export function makeRepositoryCommand(path: string): string {
  const git = `git -C '${path}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  return `mkdir -p '${path}' && git init -q '${path}' && printf 'one\\n' > '${path}/tracked.txt' && ${git} add . && ${git} commit -qm first`
}
