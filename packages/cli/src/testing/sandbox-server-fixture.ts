import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { SandboxServerClient } from '@slipway/client'
import { findProcesses } from '@slipway/examples/find-processes'
import { expect, vi } from 'vitest'
import { runCommand, spawnCommand } from './command-process.ts'
import { sandboxNetworkEnv } from './sandbox-network.ts'

interface CommandOptions {
  /** The directory of the fixture unless given. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** A sandbox server in a temporary directory, and commands that call it. */
export class SandboxServerFixture {
  readonly directory: string
  readonly url: string
  readonly key: string
  readonly client: SandboxServerClient
  readonly #server: ChildProcessWithoutNullStreams

  private constructor(
    directory: string,
    server: ChildProcessWithoutNullStreams,
    { url, key }: { readonly url: string; readonly key: string },
  ) {
    this.directory = directory
    this.url = url
    this.key = key
    this.client = new SandboxServerClient({ url, apiKey: key })
    this.#server = server
  }

  static async start(more: Readonly<Record<string, string>> = {}): Promise<SandboxServerFixture> {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-sandboxes-test-'))
    const args = ['sandbox-server', '--port', '0', '--data', join(directory, 'data'), '--json']
    const env = {
      SLIPWAY_LOG_LEVEL: 'error',
      ...sandboxNetworkEnv(),
      ...more,
    }
    const server = spawnCommand(args, { cwd: directory, env })
    server.stderr.resume()
    const [line] = await once(createInterface({ input: server.stdout }), 'line')
    return new SandboxServerFixture(directory, server, JSON.parse(line))
  }

  /** Starts a command with the address and the key of the server. */
  spawnCli(args: readonly string[], options: CommandOptions = {}): ChildProcessWithoutNullStreams {
    return spawnCommand(args, this.#resolveOptions(options))
  }

  /** Runs it to its end. */
  async runCli(args: readonly string[], options: CommandOptions = {}) {
    return await runCommand(args, this.#resolveOptions(options))
  }

  /** The model of conversations that start from now on plays this. */
  async setScript(...script: object[]): Promise<void> {
    await this.client.call('changeSettings', {
      body: { agent_settings_diff: { llm: { model: 'scripted/test', script } } },
    })
  }

  /** Deletes the sandboxes, of which no process may be left, and ends the server. */
  async stop(): Promise<void> {
    const { items } = await this.client.call('searchSandboxes', { query: {} })
    for (const { id } of items)
      await this.client.call('deleteSandbox', { params: { sandbox_id: id }, query: {} })
    const findRemaining = async () =>
      (await findProcesses(this.directory))?.filter((id) => id !== this.#server.pid) ?? []
    await vi.waitFor(async () => expect(await findRemaining()).toEqual([]), {
      timeout: 60_000,
      interval: 250,
    })
    const end = once(this.#server, 'close')
    this.#server.kill()
    await end
    await rm(this.directory, { recursive: true, force: true })
  }

  #resolveOptions({ cwd = this.directory, env }: CommandOptions) {
    return { cwd, env: { SLIPWAY_SANDBOX_URL: this.url, SLIPWAY_API_KEY: this.key, ...env } }
  }
}
