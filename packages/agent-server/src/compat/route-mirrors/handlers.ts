import type { Handlers, Reply } from '@slipway/http'
import {
  type bashRoutes,
  conversationId,
  type conversationWorkspaceRoutes,
  type editorRoutes,
  type fileRoutes,
  type gitRoutes,
  Problem,
} from '@slipway/protocol'
import { assertInWorkspace, workspaceDirectory } from '../../core/conversations/assert-in-workspace.ts'
import type { ConversationInfoReader } from '../../core/conversations/conversation-info.ts'
import type { BashScope } from '../../modules/bash/module.ts'

interface ScopedRequest {
  readonly params: { readonly runtime_conversation_id: string }
  readonly query?: unknown
  readonly body?: unknown
}
type ReplyFunction<R> = (request: R) => Reply | Promise<Reply>
type PathParameter = 'path' | 'workspace_dir' | 'cwd'

/** The handlers of files, git, the editor and commands, held to the workspace of one conversation. */
export function conversationWorkspaceHandlers(options: {
  readonly infoReader: ConversationInfoReader
  readonly bash: (scope: BashScope) => Handlers<typeof bashRoutes>
  /** Held to a directory. */
  readonly files: (root: string) => Handlers<typeof fileRoutes>
  readonly git: Handlers<typeof gitRoutes>
  readonly editor: Handlers<typeof editorRoutes>
}): Handlers<typeof conversationWorkspaceRoutes> {
  const { infoReader, bash, files, git, editor } = options
  const enterWorkspace = async (request: ScopedRequest, name: PathParameter) => {
    const record = await infoReader.getRecord(request.params.runtime_conversation_id)
    const directory = workspaceDirectory(record)
    const path = readParameter(request.query, name) ?? readParameter(request.body, name)
    if (path !== undefined) await assertInWorkspace(directory, path, name)
    return { conversationId: record.id, workingDirectory: directory }
  }
  /** The handler of the route without a conversation, whose request has the same members. */
  const scoped =
    <R>(handle: ReplyFunction<R>, name: PathParameter = 'path') =>
    async (request: ScopedRequest): Promise<Reply> => {
      await enterWorkspace(request, name)
      return await handle(request as R)
    }
  const scopedFiles =
    (name: keyof typeof fileRoutes) =>
    async (request: ScopedRequest): Promise<Reply> => {
      const handlers = files((await enterWorkspace(request, 'path')).workingDirectory)
      return await (handlers[name] as ReplyFunction<unknown>)(request)
    }
  const scopedBash =
    (name: keyof typeof bashRoutes) =>
    async (request: ScopedRequest): Promise<Reply> => {
      const handlers = bash(await enterWorkspace(request, 'cwd'))
      return await (handlers[name] as ReplyFunction<unknown>)(request)
    }
  return {
    uploadConversationFile: scopedFiles('uploadFile'),
    downloadConversationFile: scopedFiles('downloadFile'),
    createConversationDirectory: scopedFiles('createDirectory'),
    archiveConversationDirectory: scopedFiles('archiveDirectory'),
    async downloadConversationTrajectory(request) {
      const { conversationId: own, workingDirectory } = await enterWorkspace(request, 'path')
      const requested = conversationId.safeParse(request.params.conversation_id)
      if (!requested.success) throw new Problem('invalid', 'Invalid trajectory conversation id')
      if (requested.data !== own)
        throw new Problem('invalid', 'Trajectory must belong to the selected conversation')
      const params = { conversation_id: own }
      return await (files(workingDirectory).downloadTrajectory as ReplyFunction<unknown>)({ params })
    },
    conversationGitChanges: scoped(git.gitChanges),
    conversationGitDiff: scoped(git.gitDiff),
    conversationGitCommits: scoped(git.gitCommits),
    conversationGitCommitChanges: scoped(git.gitCommitChanges),
    getConversationEditorStatus: scoped(editor.getEditorStatus),
    async getConversationEditorUrl(request) {
      const { workingDirectory } = await enterWorkspace(request, 'workspace_dir')
      const query = { workspace_dir: workingDirectory, ...request.query }
      return await (editor.getEditorUrl as ReplyFunction<unknown>)({ query })
    },
    startConversationBashCommand: scopedBash('startBashCommand'),
    executeConversationBashCommand: scopedBash('executeBashCommand'),
    searchConversationBashEvents: scopedBash('searchBashEvents'),
    getConversationBashEvents: scopedBash('getBashEvents'),
    clearConversationBashEvents: scopedBash('clearBashEvents'),
    getConversationBashEvent: scopedBash('getBashEvent'),
    stopConversationBashCommand: scopedBash('stopBashCommand'),
    listConversationDirectory: scopedFiles('listDirectory'),
  }
}

function readParameter(members: unknown, name: PathParameter): string | undefined {
  if (typeof members !== 'object' || members === null || !(name in members)) return undefined
  const value = (members as Partial<Record<PathParameter, unknown>>)[name]
  return typeof value === 'string' ? value : undefined
}
