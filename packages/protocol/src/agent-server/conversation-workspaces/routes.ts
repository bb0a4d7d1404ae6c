import * as z from 'zod'
import { invalidOrRefused } from '../../core/responses.ts'
import { defineRoutes, type Route } from '../../core/route.ts'
import { bashRoutes } from '../bash/routes.ts'
import { conversationId } from '../conversations/conversation.ts'
import { editorRoutes } from '../editor/routes.ts'
import { fileRoutes } from '../files/routes.ts'
import { gitRoutes } from '../git/routes.ts'

/** The capability of `/server_info` by which clients know that these routes are there. */
export const workspaceRoutesCapability = 'conversation_runtime_routes_v1'

const conversationPath = z.object({ runtime_conversation_id: conversationId })

type PathShape<R extends Route> = R['params'] extends z.ZodObject<infer S> ? S : Record<never, never>
/** A route below a conversation: the same request and answers, with the conversation in its path. */
type BelowConversation<R extends Route> = Omit<R, 'params' | 'tag'> & {
  readonly params: z.ZodObject<PathShape<R> & typeof conversationPath.shape>
}

/** `/api/git/changes` as `/api/conversations/{runtime_conversation_id}/git/changes`. */
function belowConversation<R extends Route>(route: R, summary: string): BelowConversation<R> {
  const { tag: _, ...rest } = route
  return {
    ...rest,
    responses: {
      ...route.responses,
      ...invalidOrRefused('A parameter or the body is not valid, or a path leads out of the workspace.'),
    },
    summary,
    path: route.path.replace('/api/', '/api/conversations/{runtime_conversation_id}/'),
    params: conversationPath.extend(route.params?.shape ?? {}),
  } as unknown as BelowConversation<R> // the members of `route` with its path and params replaced
}

/**
 * Files, git, the editor and commands of the workspace of one conversation. Paths must be absolute and within
 * the workspace; otherwise they answer as the routes without a conversation.
 */
export const conversationWorkspaceRoutes = defineRoutes('conversation workspace', {
  uploadConversationFile: belowConversation(fileRoutes.uploadFile, 'Upload a file to the workspace'),
  downloadConversationFile: belowConversation(fileRoutes.downloadFile, 'Download a file of the workspace'),
  createConversationDirectory: belowConversation(
    fileRoutes.createDirectory,
    'Create a directory in the workspace',
  ),
  archiveConversationDirectory: belowConversation(
    fileRoutes.archiveDirectory,
    'Download a directory of the workspace',
  ),
  downloadConversationTrajectory: belowConversation(
    { ...fileRoutes.downloadTrajectory, params: z.object({ conversation_id: z.string() }) },
    'Download this conversation as a zip file',
  ),
  conversationGitChanges: belowConversation(
    gitRoutes.gitChanges,
    'List the changed files of a repository in the workspace',
  ),
  conversationGitDiff: belowConversation(gitRoutes.gitDiff, 'Get a file of the workspace before and after'),
  conversationGitCommits: belowConversation(
    gitRoutes.gitCommits,
    'List the commits of a repository in the workspace',
  ),
  conversationGitCommitChanges: belowConversation(
    gitRoutes.gitCommitChanges,
    'List the files that a commit of a repository in the workspace changed',
  ),
  getConversationEditorStatus: belowConversation(
    editorRoutes.getEditorStatus,
    'Is there an editor of the workspace?',
  ),
  getConversationEditorUrl: belowConversation(
    editorRoutes.getEditorUrl,
    'Get the address of the editor of the workspace',
  ),
  startConversationBashCommand: belowConversation(
    bashRoutes.startBashCommand,
    'Start a command in the workspace',
  ),
  executeConversationBashCommand: belowConversation(
    bashRoutes.executeBashCommand,
    'Run a command in the workspace to its end',
  ),
  searchConversationBashEvents: belowConversation(
    bashRoutes.searchBashEvents,
    'Search the commands of the conversation and their output',
  ),
  getConversationBashEvents: belowConversation(
    bashRoutes.getBashEvents,
    'Get bash events of the conversation by id',
  ),
  clearConversationBashEvents: belowConversation(
    bashRoutes.clearBashEvents,
    'Forget the commands of the conversation that are over, with their output',
  ),
  getConversationBashEvent: belowConversation(
    bashRoutes.getBashEvent,
    'Get a bash event of the conversation',
  ),
  stopConversationBashCommand: belowConversation(
    bashRoutes.stopBashCommand,
    'Stop a command of the conversation',
  ),
  listConversationDirectory: belowConversation(
    fileRoutes.listDirectory,
    'List what is in a directory of the workspace',
  ),
})
