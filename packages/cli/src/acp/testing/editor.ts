import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { Readable, Writable } from 'node:stream'
import {
  type ClientCapabilities,
  type ClientConnection,
  type ContentBlock,
  client,
  type McpServer,
  methods,
  ndJsonStream,
  type PermissionOptionKind,
  type RequestPermissionRequest,
  type SessionUpdate,
} from '@agentclientprotocol/sdk/unstable'

/** How a question is answered: by an option of this kind, by nobody, or as a cancelled one. */
type Answer = PermissionOptionKind | 'silence' | 'cancelled'

/** An editor: the client of the published library, with everything that it was sent. */
export class Editor {
  readonly process: ChildProcessWithoutNullStreams
  readonly #connection: ClientConnection
  readonly updates: { readonly sessionId: string; readonly update: SessionUpdate }[] = []
  readonly questions: RequestPermissionRequest[] = []
  /** Questions that the agent has taken back. */
  withdrawn = 0
  answer: Answer = 'allow_once'
  stderr = ''
  #changed = Promise.withResolvers<void>()

  constructor(process: ChildProcessWithoutNullStreams) {
    this.process = process
    process.stderr.on('data', (data) => {
      this.stderr += data
    })
    // Both have their own types of the same streams.
    const output = Readable.toWeb(process.stdout) as ReadableStream<Uint8Array>
    this.#connection = client({ name: 'test' })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params)
        this.#notify()
      })
      .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
        this.questions.push(params)
        this.#notify()
        const { answer } = this
        if (answer === 'silence') {
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
          this.withdrawn++
          this.#notify()
        }
        const option = params.options.find(({ kind }) => kind === answer)
        return option === undefined
          ? { outcome: { outcome: 'cancelled' } }
          : { outcome: { outcome: 'selected', optionId: option.optionId } }
      })
      .connect(ndJsonStream(Writable.toWeb(process.stdin), output))
  }

  get agent() {
    return this.#connection.agent
  }

  async initialize(clientCapabilities: ClientCapabilities = {}) {
    return await this.agent.request<'initialize'>(methods.agent.initialize, {
      protocolVersion: 1,
      clientInfo: { name: 'test-editor', version: '1' },
      clientCapabilities,
    })
  }

  async newSession(cwd: string, mcpServers: McpServer[] = []) {
    return await this.agent.request(methods.agent.session.new, { cwd, mcpServers })
  }

  async prompt(sessionId: string, prompt: string | ContentBlock[]) {
    const blocks = typeof prompt === 'string' ? [{ type: 'text' as const, text: prompt }] : prompt
    return await this.agent.request(methods.agent.session.prompt, { sessionId, prompt: blocks })
  }

  async cancel(sessionId: string): Promise<void> {
    await this.agent.notify(methods.agent.session.cancel, { sessionId })
  }

  /** Waits until what was sent fulfils a condition; the limit is that of the test. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await this.#changed.promise
  }

  /** The updates of a kind. */
  of<K extends SessionUpdate['sessionUpdate']>(kind: K) {
    return this.updates
      .map(({ update }) => update)
      .filter(
        (update): update is Extract<SessionUpdate, { sessionUpdate: K }> => update.sessionUpdate === kind,
      )
  }

  /** The texts of an update's kind, joined. */
  text(
    kind: 'agent_message_chunk' | 'agent_thought_chunk' | 'user_message_chunk' = 'agent_message_chunk',
  ): string {
    return this.of(kind)
      .map(({ content }) => (content.type === 'text' ? content.text : `[${content.type}]`))
      .join('')
  }

  clear(): void {
    this.updates.length = 0
    this.questions.length = 0
  }

  /** Closes its end, as an editor that quits does; returns the exit code. */
  async quit(): Promise<number | null> {
    if (this.process.exitCode !== null) return this.process.exitCode
    this.process.stdin.end()
    const [code] = await once(this.process, 'exit')
    return code
  }

  #notify(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
