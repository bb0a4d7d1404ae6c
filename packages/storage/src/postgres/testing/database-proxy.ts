import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Fault, type FaultSource, noFaults } from '../../testing/faults/fault-plan.ts'

/** How long a statement of a lost connection waits before the server gets it. */
const lateMs = 150
/** Part of no operation: a pool sets up its connections, and a server renews its leases. */
const elsewhere = /^SET |\breplica\b.*expires_at/s
/** What the server sends when it has answered and waits for the next statement. */
const readyForQuery = 'Z'
/** The statement was cancelled; the connection continues. */
const cancelled = serverMessage(
  'E',
  ['SERROR', 'VERROR', 'C57014', 'Mcanceling statement due to statement timeout', ''].join('\0'),
)

/**
 * A way to PostgreSQL that asks a plan at every statement and commit. It reads the messages of the protocol
 * in both directions: a simple query, or the messages of an extended one up to its Sync, is one point.
 */
export class DatabaseProxy implements FaultSource, AsyncDisposable {
  plan = noFaults
  readonly #target: URL
  readonly #server = createServer((near) => this.#connect(near))
  readonly #sockets = new Set<Socket>()

  private constructor(target: URL) {
    this.#target = target
  }

  /** @param url of the database. */
  static async open(url: string): Promise<DatabaseProxy> {
    const proxy = new DatabaseProxy(new URL(url))
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  /** Of the database, through the proxy; a client waits so long for an answer. */
  url(queryMs: number): string {
    const url = new URL(this.#target)
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy is closed')
    url.hostname = '127.0.0.1'
    url.port = String(address.port)
    url.searchParams.set('query_timeout', String(queryMs))
    return url.href
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #connect(near: Socket): void {
    const far = connect(Number(this.#target.port), this.#target.hostname)
    for (const socket of [near, far]) {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    const decide = (sql: string) => (elsewhere.test(sql) ? undefined : this.plan.next(sql))
    const connection = new ProxiedConnection(near, far, decide)
    near.on('data', (chunk) => connection.receiveFromClient(chunk))
    far.on('data', (chunk) => connection.receiveFromServer(chunk))
  }
}

/** The two ends of a connection. A client sends one statement at a time. */
class ProxiedConnection {
  readonly #near: Socket
  readonly #far: Socket
  readonly #decide: (sql: string) => Fault | undefined
  readonly #fromClient = new MessageReader(true)
  readonly #fromServer = new MessageReader(false)
  #statement: Buffer[] = []
  #sql = ''
  /** Answers go no further; called when the server is ready again. */
  #onLostAnswer: (() => void) | undefined

  constructor(near: Socket, far: Socket, decide: (sql: string) => Fault | undefined) {
    this.#near = near
    this.#far = far
    this.#decide = decide
    far.on('close', () => near.destroy())
    near.on('close', () => {
      if (this.#onLostAnswer === undefined) far.destroy()
    })
  }

  receiveFromClient(chunk: Buffer): void {
    for (const { type, bytes } of this.#fromClient.read(chunk)) {
      if (type === '' || type === 'p' || type === 'X') {
        this.#far.write(bytes)
        continue
      }
      this.#statement.push(bytes)
      if (type === 'Q') this.#sql = cString(bytes, 5)
      if (type === 'P') this.#sql = cString(bytes, bytes.indexOf(0, 5) + 1)
      if (type !== 'Q' && type !== 'S') continue
      const statement = Buffer.concat(this.#statement)
      this.#statement = []
      void this.#pass(statement, this.#decide(this.#sql))
    }
  }

  receiveFromServer(chunk: Buffer): void {
    const isLost = this.#onLostAnswer !== undefined
    if (!isLost) this.#near.write(chunk)
    for (const { type } of this.#fromServer.read(chunk)) if (type === readyForQuery) this.#onLostAnswer?.()
  }

  async #pass(statement: Buffer, fault: Fault | undefined): Promise<void> {
    const [near, far] = [this.#near, this.#far]
    switch (fault) {
      case undefined:
        far.write(statement)
        return
      case 'fail':
      case 'full':
        near.write(Buffer.concat([cancelled, serverMessage(readyForQuery, 'E')]))
        return
      case 'cut':
        near.destroy()
        return
      case 'lose':
        this.#onLostAnswer = () => far.destroy()
        far.write(statement)
        return
      case 'hang':
        this.#onLostAnswer = () => {}
        near.on('close', () => far.destroy())
        far.write(statement)
        return
      case 'late':
        this.#onLostAnswer = () => far.destroy()
        near.destroy()
        await pause(lateMs)
        far.write(statement)
    }
  }
}

/** Splits a stream into messages: a letter, unless it is the first one of a client, and a length. */
class MessageReader {
  #rest = Buffer.alloc(0)
  #isStart: boolean

  constructor(isClient: boolean) {
    this.#isStart = isClient
  }

  *read(chunk: Buffer): Generator<{ readonly type: string; readonly bytes: Buffer }> {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const at = this.#isStart ? 0 : 1
      if (this.#rest.length < at + 4) return
      const end = at + this.#rest.readInt32BE(at)
      if (this.#rest.length < end) return
      const bytes = this.#rest.subarray(0, end)
      this.#rest = this.#rest.subarray(end)
      const type = this.#isStart ? '' : String.fromCharCode(bytes[0] ?? 0)
      this.#isStart = false
      yield { type, bytes }
    }
  }
}

function cString(bytes: Buffer, from: number): string {
  return bytes.toString('utf8', from, bytes.indexOf(0, from))
}

function serverMessage(type: string, content: string): Buffer {
  const body = Buffer.from(type === readyForQuery ? content : `${content}\0`)
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
