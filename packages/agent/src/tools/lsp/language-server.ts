import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { isRecord } from '@slipway/shared/json'
import {
  createMessageConnection,
  type MessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node'
import { ProgramFolder, workspaceVariable } from '../../workspace/program-folder.ts'
import type { Workspace } from '../../workspace/workspace.ts'
import type { ServerCommand } from './find-server.ts'

/** An error of a file, as a server reports it. */
export interface FileError {
  /** From 1. */
  readonly line: number
  readonly message: string
}

/** Silence after which errors that come without being asked for are complete. */
const quietMs = 300

/** The program of a language server, spoken to over its standard streams. */
export class LanguageServer {
  readonly #connection: MessageConnection
  readonly #documents = new Map<string, { text: string; version: number }>()
  readonly #published = new Map<string, { readonly errors: FileError[]; readonly at: number }>()
  readonly #canBeAsked: boolean

  private constructor(connection: MessageConnection, canBeAsked: boolean) {
    this.#connection = connection
    this.#canBeAsked = canBeAsked
    connection.onNotification('textDocument/publishDiagnostics', (params: unknown) => {
      if (!isRecord(params) || typeof params.uri !== 'string') return
      this.#published.set(params.uri, { errors: toErrors(params.diagnostics), at: performance.now() })
    })
  }

  /**
   * Starts a server for a workspace, in its own folder; rejects when it cannot be started or ends. It
   * ends with the workspace.
   */
  static async start(
    workspace: Workspace,
    { program, args, options = {}, env = {} }: ServerCommand,
  ): Promise<LanguageServer> {
    await using resources = new AsyncDisposableStack()
    const folder = resources.use(await ProgramFolder.create(workspace))
    const { child } = await workspace.openProgram(program, args, {
      cwd: folder.path,
      env: { ...env, [workspaceVariable]: workspace.directory },
    })
    child.on('error', () => {})
    const ofProgram = resources.move()
    child.once('close', () => void ofProgram.disposeAsync())
    child.stderr.resume()
    const connection = createMessageConnection(
      new StreamMessageReader(child.stdout),
      new StreamMessageWriter(child.stdin),
    )
    // Errors of the streams end the connection, and with it what waits for an answer.
    connection.onError(() => connection.dispose())
    for (const event of ['error', 'close'] as const) child.once(event, () => connection.dispose())
    connection.onRequest((method: string, params: unknown) =>
      method === 'workspace/configuration' && isRecord(params) && Array.isArray(params.items)
        ? params.items.map(() => null)
        : null,
    )
    connection.listen()
    const root = pathToFileURL(workspace.directory).href
    const result: unknown = await connection.sendRequest('initialize', {
      // Behind bubblewrap there is no such process, and a server would take it for gone. The workspace ends
      // it.
      processId: null,
      ...{ rootUri: root, rootPath: workspace.directory },
      workspaceFolders: [{ uri: root, name: 'workspace' }],
      initializationOptions: options,
      capabilities: {
        textDocument: { publishDiagnostics: { versionSupport: true }, diagnostic: {}, synchronization: {} },
        workspace: { configuration: true, workspaceFolders: true },
      },
    })
    await connection.sendNotification('initialized', {})
    const capabilities = isRecord(result) ? result.capabilities : undefined
    return new LanguageServer(connection, isRecord(capabilities) && isRecord(capabilities.diagnosticProvider))
  }

  /** The errors of a file with this text. Waits for them until the signal aborts. */
  async errors(
    path: string,
    { languageId, text }: { readonly languageId: string; readonly text: string },
    signal: AbortSignal,
  ): Promise<readonly FileError[]> {
    const uri = pathToFileURL(path).href
    const document = this.#documents.get(uri)
    const isSame = document?.text === text
    const changedAt = performance.now()
    if (document === undefined) {
      this.#documents.set(uri, { text, version: 1 })
      await this.#connection.sendNotification('textDocument/didOpen', {
        textDocument: { uri, languageId, version: 1, text },
      })
    } else if (!isSame) {
      Object.assign(document, { text, version: document.version + 1 })
      await this.#connection.sendNotification('textDocument/didChange', {
        textDocument: { uri, version: document.version },
        contentChanges: [{ text }],
      })
    }
    if (this.#canBeAsked) {
      const report: unknown = await this.#connection.sendRequest('textDocument/diagnostic', {
        textDocument: { uri },
      })
      return toErrors(isRecord(report) ? report.items : undefined)
    }
    for (;;) {
      const published = this.#published.get(uri)
      const isNew = published !== undefined && (isSame || published.at > changedAt)
      if (isNew && performance.now() - published.at >= quietMs) return published.errors
      await sleep(50, undefined, { signal })
    }
  }
}

/** Errors only: warnings and hints are matters of taste. */
function toErrors(diagnostics: unknown): FileError[] {
  if (!Array.isArray(diagnostics)) return []
  return diagnostics.flatMap((diagnostic) => {
    if (!isRecord(diagnostic) || (diagnostic.severity ?? 1) !== 1) return []
    const { range, message } = diagnostic
    const start = isRecord(range) ? range.start : undefined
    const line = isRecord(start) && typeof start.line === 'number' ? start.line + 1 : 1
    return typeof message === 'string' ? [{ line, message }] : []
  })
}
