import { wireCase } from '../map/frame.ts'
import { openShared, SharedServer } from '../map/map-server.ts'
import { AgentDriver, type ConversationInfo, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import type { RequirementId } from './requirements.ts'

export { unknownId } from '../map/map-server.ts'
export type { Json, RequestOptions, WireResponse } from '../support/wire-client.ts'
export { wireCase }

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

/** A case about keys: skipped with an external server without keys. */
export function wireCaseWithKey(
  requirement: RequirementId,
  promise: string,
  run: (key: string) => Promise<void>,
): void {
  wireCase(requirement, promise, async () => await run(String(sessionKey)), sessionKey === undefined)
}

/** The server of a file of cases, with the requests of existing clients and a model that plays scripts. */
export class WireServer extends SharedServer {
  constructor() {
    const env = { SLIPWAY_WIRE: 'seed', SLIPWAY_ALLOWED_ORIGINS: pageOrigins.join(',') }
    super({ url: process.env.SLIPWAY_URL, key: sessionKey, env })
  }

  get driver(): AgentDriver {
    return new AgentDriver({ api: new AgentServerApi(this), directory: this.directory })
  }

  /** On the server's machine. */
  protected override async createDirectory(): Promise<string> {
    return (await this.runCommand('mktemp -d -t slipway-wire-XXXXXX')).trim()
  }

  protected override async removeDirectory(): Promise<void> {
    await this.runCommand(`rm -rf '${this.directory}'`)
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

/** The server that the cases of a file share. */
export function openWireServer(): WireServer {
  return openShared(new WireServer())
}

/** Shell commands that create a repository: one commit with `tracked.txt`. */
export function makeRepositoryCommand(path: string): string {
  const git = `git -C '${path}' -c user.name=t -c user.email=t@localhost -c commit.gpgsign=false`
  return `mkdir -p '${path}' && git init -q '${path}' && printf 'one\\n' > '${path}/tracked.txt' && ${git} add . && ${git} commit -qm first`
}
