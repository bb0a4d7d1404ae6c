import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { AgentDriver } from './agent-driver.ts'
import { startAgentServer } from './agent-server.ts'
import { AgentServerApi } from './agent-server-api.ts'

export const groupSessionKey = 'a session key of all servers'

interface Member {
  readonly name: string
  process: Awaited<ReturnType<typeof startAgentServer>>
  api: AgentServerApi
  driver: AgentDriver
}

interface Lease {
  readonly member: Member
  readonly server: string
  readonly epoch: number
}

/** Several agent servers on their own schema, with one directory of workspaces. */
export class ServerGroup implements AsyncDisposable {
  readonly members: Member[] = []
  readonly db: pg.Client
  readonly workspaces: string
  readonly #directory: string
  /** Also the name of the role of the servers. */
  readonly #schema: string
  readonly #env: Readonly<Record<string, string>>

  private constructor(parts: {
    db: pg.Client
    directory: string
    schema: string
    env: Record<string, string>
  }) {
    this.db = parts.db
    this.#directory = parts.directory
    this.workspaces = join(parts.directory, 'workspaces')
    this.#schema = parts.schema
    this.#env = parts.env
  }

  static async open(
    count: number,
    { leaseSeconds = 5, env = {} }: { leaseSeconds?: number; env?: Record<string, string> } = {},
  ): Promise<ServerGroup> {
    const schema = `group_${randomBytes(6).toString('hex')}`
    const url = new URL(process.env.SLIPWAY_TEST_DATABASE_URL ?? '')
    const admin = new pg.Client({ connectionString: url.href })
    await admin.connect()
    const password = randomBytes(16).toString('hex')
    await admin.query(`CREATE ROLE ${schema} WITH LOGIN PASSWORD '${password}'`)
    await admin.query(`CREATE SCHEMA ${schema} AUTHORIZATION ${schema}`)
    Object.assign(url, { username: schema, password })
    await admin.query(`SET search_path = ${schema}`)
    url.searchParams.set('options', `-c search_path=${schema}`)
    const directory = await mkdtemp(join(tmpdir(), 'slipway-group-'))
    const settings = {
      SLIPWAY_DATABASE_URL: url.href,
      SLIPWAY_SHARED_DATABASE: 'true',
      SLIPWAY_LEASE_SECONDS: String(leaseSeconds),
      SLIPWAY_SECRET_KEY: 'the secret key of all servers',
      SLIPWAY_SESSION_API_KEY: groupSessionKey,
      ...env,
    }
    const group = new ServerGroup({ db: admin, directory, schema, env: settings })
    try {
      for (let n = 0; n < count; n++) {
        const member = await group.#start(`server-${n}`)
        group.members.push(member)
      }
      return group
    } catch (error) {
      await group[Symbol.asyncDispose]()
      throw error
    }
  }

  member(index: number): Member {
    const member = this.members[index % this.members.length]
    if (member === undefined) throw new Error('There is no such server')
    return member
  }

  /** The lease of a conversation, by the table, and the member that has it; undefined while none has. */
  async leaseOf(conversation: string): Promise<Lease | undefined> {
    const sql = `SELECT server, epoch, url FROM conversation JOIN agent_server ON agent_server.id = server
      WHERE conversation.id = $1`
    const [row] = (await this.db.query<{ server: string; epoch: number; url: string }>(sql, [conversation]))
      .rows
    const member = this.members.find(({ process }) => process.url === row?.url)
    return row && member && { member, server: row.server, epoch: row.epoch }
  }

  async ownerOf(conversation: string): Promise<Member | undefined> {
    return (await this.leaseOf(conversation))?.member
  }

  /** Ends the connections of the servers, and admits no new ones of their role. */
  async cutDatabase(): Promise<void> {
    await this.db.query(`ALTER ROLE ${this.#schema} WITH NOLOGIN`)
    await this.db.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1', [
      this.#schema,
    ])
  }

  async restoreDatabase(): Promise<void> {
    await this.db.query(`ALTER ROLE ${this.#schema} WITH LOGIN`)
  }

  /** Starts a member that has ended, on its data directory. */
  async restart(member: Member): Promise<void> {
    Object.assign(member, await this.#start(member.name))
  }

  /** Starts another server on the database, which the caller stops. */
  async startOther(
    name: string,
    env: Readonly<Record<string, string>>,
  ): Promise<Awaited<ReturnType<typeof startAgentServer>>> {
    return await startAgentServer(join(this.#directory, name), { ...this.#env, ...env })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process: server } of this.members) {
      // A frozen process ends on no other signal.
      await server.stop('SIGKILL')
    }
    await this.db.query(`DROP SCHEMA ${this.#schema} CASCADE; DROP ROLE ${this.#schema}`)
    await this.db.end()
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 5 })
  }

  async #start(name: string): Promise<Member> {
    const server = await startAgentServer(join(this.#directory, name), this.#env)
    const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': groupSessionKey } })
    return { name, process: server, api, driver: new AgentDriver({ api, directory: this.workspaces }) }
  }
}
