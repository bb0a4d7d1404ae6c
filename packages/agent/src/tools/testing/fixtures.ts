import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { must, type Observation, observation } from '@slipway/protocol'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { Tool, ToolContext, ToolFactory } from '../core/tool.ts'

/**
 * A workspace for a test, removed at its end: `directory` is the workspace, `outside` a directory beside it.
 */
export class ToolFixtures implements AsyncDisposable {
  readonly directory: string
  readonly outside: string
  readonly context: ToolContext
  readonly #root: string

  private constructor(root: string, workspace: Workspace) {
    this.#root = root
    this.directory = workspace.directory
    this.outside = join(root, 'outside')
    this.context = { workspace, secrets: new Secrets(), directory: join(root, 'conversation') }
  }

  static async open(): Promise<ToolFixtures> {
    const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-tools-')))
    for (const name of ['work', 'outside', 'conversation']) await mkdir(join(root, name))
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }
    return new ToolFixtures(root, await Workspace.open({ directory: join(root, 'work'), env }))
  }

  path(...parts: readonly string[]): string {
    return join(this.directory, ...parts)
  }

  async tool(open: ToolFactory, params: Readonly<Record<string, unknown>> = {}): Promise<Tool> {
    return must([await open(this.context, params)].flat()[0], 'a tool')
  }

  /**
   * Runs a tool with arguments of a model; what it answers is an observation of the wire that fits into an
   * event.
   */
  async run<K extends Observation['kind']>(
    tool: Tool,
    kind: K,
    args: Readonly<Record<string, unknown>>,
  ): Promise<Extract<Observation, { kind: K }> & { readonly outputText: string }> {
    const parsed = tool.parse(args)
    if ('error' in parsed) throw new Error(parsed.error)
    const result = await tool.run(parsed.action, new AbortController().signal)
    const json = JSON.stringify(result)
    if (Buffer.byteLength(json) > 1024 * 1024) throw new Error('the observation is too large for an event')
    const parsedObservation = observation.parse(JSON.parse(json))
    if (parsedObservation.kind !== kind) throw new Error(`an observation of kind ${parsedObservation.kind}`)
    const outputText = parsedObservation.content
      .map((block) => (block.type === 'text' ? block.text : ''))
      .join('\n')
    // The kind was compared.
    return { ...(parsedObservation as Extract<Observation, { kind: K }>), outputText: outputText }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.context.workspace[Symbol.asyncDispose]()
    await rm(this.#root, { recursive: true, force: true })
  }
}
