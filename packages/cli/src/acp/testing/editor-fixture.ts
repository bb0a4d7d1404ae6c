import { methods } from '@agentclientprotocol/sdk/unstable'
import { Client } from '@slipway/client'
import { afterAll, afterEach, expect } from 'vitest'
import { findPrivateServer } from '../../context/private-server.ts'
import { SessionFixture } from '../../session/testing/session-fixture.ts'
import { Editor } from './editor.ts'

export const { session } = methods.agent
export const end = { stopReason: 'end_turn' }
export const cancelled = { stopReason: 'cancelled' }

/**
 * For the tests of a file: after each, its editors end well and have heard nothing that the schema refuses.
 */
export async function openEditors(): Promise<EditorFixture> {
  const fixture = await EditorFixture.start()
  afterEach(async () => {
    for (const quit of await fixture.quit()) expect(quit).toEqual({ code: 0, faults: [] })
  })
  afterAll(() => fixture.dispose())
  return fixture
}

/** A user with a private server and a model, and the editors that they open. */
export class EditorFixture {
  readonly user: SessionFixture
  readonly #editors: Editor[] = []
  /** The private server of all tests does not end while an editor uses it. */
  #keeper: Editor | undefined

  private constructor(user: SessionFixture) {
    this.user = user
  }

  static async start(): Promise<EditorFixture> {
    const fixture = new EditorFixture(await SessionFixture.open())
    fixture.#keeper = await fixture.open()
    fixture.#editors.length = 0
    return fixture
  }

  get project(): string {
    return this.user.project
  }

  async open(env?: Readonly<Record<string, string>>): Promise<Editor> {
    const editor = new Editor(this.user.spawnCli(['acp'], env))
    this.#editors.push(editor)
    await editor.initialize()
    return editor
  }

  async openSession() {
    const editor = await this.open()
    return { editor, ...(await editor.newSession(this.project)) }
  }

  /** Another screen, such as the console. */
  async screen(): Promise<Client> {
    const server = await findPrivateServer({ HOME: this.user.home })
    return new Client({ url: server?.url ?? '', sessionApiKey: server?.key })
  }

  /** Closes the editors; returns the exit codes of their programs, and what the protocol's schema refuses. */
  async quit(): Promise<{ readonly code: number | null; readonly faults: readonly unknown[] }[]> {
    const editors = this.#editors.splice(0)
    return await Promise.all(
      editors.map(async (editor) => ({ code: await editor.quit(), faults: editor.faults })),
    )
  }

  async dispose(): Promise<void> {
    await this.quit()
    await this.#keeper?.quit()
    await this.user.reset()
    await this.user.dispose()
  }
}
