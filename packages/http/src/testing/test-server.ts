import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import type { RouteTable } from '@slipway/protocol'
import { type AppOptions, createApp } from '../app.ts'
import type { Handlers } from '../core/handler.ts'
import { type Listening, listen } from '../listen.ts'
import type { AuditEntry } from '../telemetry/audit.ts'

export interface TestResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

export interface CallOptions {
  readonly method?: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string | Buffer
}

/** A server on a free port of this machine, for one test. */
export class TestServer implements AsyncDisposable {
  readonly listening: Listening
  /** What the server logged, one entry a line. */
  readonly logEntries: { level: string; message: string; members: Record<string, unknown> | undefined }[]

  /** What was written down of who did what. */
  readonly auditEntries: AuditEntry[]

  constructor(listening: Listening, logEntries: TestServer['logEntries'], auditEntries: AuditEntry[]) {
    this.listening = listening
    this.logEntries = logEntries
    this.auditEntries = auditEntries
  }

  static async start<T extends RouteTable>(
    routes: T,
    handlers: Handlers<T>,
    options: Partial<AppOptions> = {},
  ) {
    const logEntries: TestServer['logEntries'] = []
    const log: AppOptions['log'] = (level, message, members) =>
      void logEntries.push({ level, message, members })
    const auditEntries: AuditEntry[] = []
    const own = {
      openapi: { openapi: '3.1.0' },
      log,
      audit: (entry: AuditEntry) => void auditEntries.push(entry),
    }
    const server = createApp(routes, handlers, { ...own, ...options })
    return new TestServer(
      await listen(server, { host: '127.0.0.1', port: 0, stopMs: 300 }),
      logEntries,
      auditEntries,
    )
  }

  get port(): number {
    return this.listening.port
  }

  /** Sends a request over its own connection and reads the whole answer. */
  call(path: string, { method = 'GET', headers = {}, body }: CallOptions = {}): Promise<TestResponse> {
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: this.port, path, method, headers, agent: false }
      const outgoing = request(options, async (answer) => {
        try {
          const chunks = await answer.toArray()
          const text = Buffer.concat(chunks).toString()
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text })
        } catch (error) {
          reject(error)
        }
      })
      outgoing.on('error', reject).end(body)
    })
  }

  json(path: string, body: unknown, call: CallOptions = {}): Promise<TestResponse> {
    const bytes = Buffer.from(JSON.stringify(body))
    const headers = { 'content-type': 'application/json', 'content-length': bytes.length, ...call.headers }
    return this.call(path, { method: 'POST', ...call, headers, body: bytes })
  }

  /** Sends bytes as they are and reads until the server ends the connection. */
  raw(bytes: string): Promise<string> {
    return new Promise((resolve) => {
      let text = ''
      const socket = connect(this.port, '127.0.0.1', () => socket.write(bytes))
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
      })
      socket.on('error', () => {}).on('close', () => resolve(text))
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.listening.close()
  }
}
