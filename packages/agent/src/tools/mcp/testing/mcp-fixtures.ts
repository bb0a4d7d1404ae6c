import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type McpServer, mcpServer, must, type Observation } from '@slipway/protocol'
import { Secrets } from '../../../secrets/secrets.ts'
import { Workspace } from '../../../workspace/workspace.ts'
import { type OpenMcpOptions, openMcpServers } from '../servers.ts'

/** A workspace with programs that are MCP servers, and the servers that a test opens in it. */
export class McpFixtures implements AsyncDisposable {
  readonly root: string
  readonly secrets: Secrets
  readonly workspace: Workspace
  readonly #openServers: { close(): Promise<void> }[] = []

  private constructor(root: string, workspace: Workspace) {
    this.root = root
    this.workspace = workspace
    const value = 'hunter2hunter2'
    this.secrets = new Secrets({ TOKEN: { kind: 'StaticSecret', value, description: undefined } })
  }

  /** `programs`: texts by file name. */
  static async open(programs: Readonly<Record<string, string>>): Promise<McpFixtures> {
    const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-mcp-')))
    await mkdir(join(root, 'own'))
    for (const [name, text] of Object.entries(programs)) await writeFile(join(root, name), text)
    const workspace = await Workspace.open({
      directory: root,
      env: { PATH: process.env.PATH ?? '', BASE: 'b' },
    })
    return new McpFixtures(root, workspace)
  }

  async openServers(servers: Record<string, Partial<McpServer>>, more: Partial<OpenMcpOptions> = {}) {
    const parsed = Object.entries(servers).map(([name, server]) => [name, mcpServer.parse(server)])
    const { root, secrets, workspace } = this
    const context = { workspace, secrets, directory: join(root, 'own') }
    const signal = new AbortController().signal
    const mcp = await openMcpServers({ servers: Object.fromEntries(parsed), context, signal, ...more })
    this.#openServers.push(mcp)
    return {
      mcp,
      call: async (name: string, data: Record<string, unknown> = {}, stop = signal) => {
        const tool = must(
          mcp.tools.find((tool) => tool.name === name),
          name,
        )
        const parsed = tool.parse(data)
        if ('error' in parsed) throw new Error(parsed.error)
        return parseObservation(await tool.run(parsed.action, stop))
      },
    }
  }

  program(...args: readonly string[]): Partial<McpServer> {
    return { command: process.execPath, args: [...args], cwd: 'workspace' }
  }

  /** Processes of the sample that were started and run. */
  async livePids(): Promise<number[]> {
    const files = await readdir(this.root)
    return files
      .filter((file) => file.startsWith('pid'))
      .map((file) => Number(file.slice(3)))
      .filter(isAlive)
  }

  async [Symbol.asyncDispose]() {
    await Promise.all(this.#openServers.map((mcp) => mcp.close()))
    await this.workspace[Symbol.asyncDispose]()
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function parseObservation(observation: Observation) {
  if (observation.kind !== 'MCPToolObservation') throw new Error(observation.kind)
  const texts = observation.content.map((block) =>
    block.type === 'text' ? block.text : block.image_urls.join(),
  )
  return { ...observation, texts, text: texts.join('\n') }
}
