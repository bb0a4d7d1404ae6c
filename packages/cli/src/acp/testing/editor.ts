import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
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
  type Stream,
} from '@agentclientprotocol/sdk/unstable'
import { Ajv2020 } from 'ajv/dist/2020.js'

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
  /** Messages of the agent that are not as the protocol's schema says. */
  readonly faults: unknown[] = []
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
      .connect(checkMessages(ndJsonStream(Writable.toWeb(process.stdin), output), this.faults))
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

const schemaFile = import.meta.resolve('@agentclientprotocol/sdk/schema/v1/schema.unstable.json')
const schema = JSON.parse(readFileSync(new URL(schemaFile), 'utf8'))
const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(schema, 'acp')

/** The definitions of parameters and results, by the methods that they say they are of. */
function definition(method: string, end: 'Request' | 'Response' | 'Notification'): string | undefined {
  const entries: [string, Record<string, unknown>][] = Object.entries(schema.$defs)
  return entries.find(([name, one]) => one['x-method'] === method && name.endsWith(end))?.[0]
}

function faultsOf(name: string | undefined, value: unknown): unknown {
  if (name === undefined) return 'no definition'
  const validate = ajv.getSchema(`acp#/$defs/${name}`)
  return validate?.(value) === true ? undefined : (validate?.errors ?? 'no schema')
}

/** Compares what the agent sends with the schema of the protocol, which the library reads more kindly. */
function checkMessages(stream: Stream, faults: unknown[]): Stream {
  const asked = new Map<unknown, string>()
  const sent = new TransformStream({
    transform(message, controller) {
      if ('id' in message && 'method' in message) asked.set(message.id, message.method)
      controller.enqueue(message)
    },
  })
  void sent.readable.pipeTo(stream.writable).catch(() => {})
  const received = new TransformStream({
    transform(message, controller) {
      const { id, method, params, result } = message
      const isUnknown = method?.startsWith('$/') || (method === undefined && result === undefined)
      const end = id === undefined ? 'Notification' : 'Request'
      const name =
        method === undefined ? definition(asked.get(id) ?? '', 'Response') : definition(method, end)
      const fault = isUnknown ? undefined : faultsOf(name, params ?? result)
      if (fault !== undefined) faults.push({ message, fault })
      controller.enqueue(message)
    },
  })
  return { writable: sent.writable, readable: stream.readable.pipeThrough(received) }
}
