import type { Handlers, Reply, Request } from '@slipway/http'
import { type fileRoutes, invalid } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import type { Conversations } from '../../conversations/conversation-info.ts'
import { trajectory } from '../../conversations/trajectory.ts'
import { type Archive, patchOf, tarOf } from '../../files/archive.ts'
import { homePlaces, subdirectories } from '../../files/browse.ts'
import { attachment, fileSize, makeDirectory, readFileBytes, saveFile } from '../../files/file-access.ts'

type Upload = Pick<Request<typeof fileRoutes.uploadFile>, 'upload'>
type Create = Pick<Request<typeof fileRoutes.createDirectory>, 'query' | 'body'>

const done = { json: { success: true } }

export function fileHandlers(options: {
  readonly home: string
  readonly log: EventLog
  readonly conversations: Conversations
  /** What the server keeps for itself. */
  readonly directory: string
  /** What git and tar get of the environment. */
  readonly environment: Readonly<Record<string, string>>
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<typeof fileRoutes> {
  const { home, log, conversations, directory, environment, touch } = options
  const save = async (path: string, request: Upload): Promise<Reply> => {
    touch()
    const { bytes } = await request.upload()
    await saveFile(path, bytes)
    return done
  }
  const create = async ({ query, body }: Create): Promise<Reply> => {
    touch()
    const path = query.path ?? body?.path
    if (path === undefined) throw invalid(['query', 'path'], 'Field required', 'missing')
    await makeDirectory(path)
    return done
  }
  return {
    uploadFile: (request) => save(request.query.path, request),
    uploadFileTo: (request) => save(rooted(request.params.path), request),
    downloadFile: ({ query }) => download(query.path),
    downloadFileFrom: ({ params }) => download(rooted(params.path)),
    createDirectory: create,
    createDirectoryAlias: create,
    async downloadTrajectory({ params }) {
      const record = await conversations.find(params.conversation_id)
      const { id, head, updated_at: updatedAt } = record
      const meta = await conversations.info(record)
      return {
        contentType: 'application/zip',
        headers: { 'content-disposition': attachment(`${id}.zip`) },
        chunks: trajectory({ log, id, head, meta, updatedAt }),
      }
    },
    async archiveDirectory({ query, signal }) {
      const { path, base_ref: baseRef, use_default_excludes: useDefaultExcludes, exclude = [] } = query
      const asked = { path, kept: directory, useDefaultExcludes, exclude, env: environment, signal }
      return query.format === 'tar.gz'
        ? sent(await tarOf(asked), 'application/gzip')
        : sent(await patchOf({ ...asked, baseRef }), 'text/x-patch')
    },
    async fileHome({ query }) {
      return { json: await homePlaces(home, query.include_hidden) }
    },
    async searchSubdirectories({ query: { path, page_id, limit, include_hidden } }) {
      return {
        json: await subdirectories(path, { limit, includeHidden: include_hidden, pageId: page_id }),
      }
    },
  }
}

function sent({ filename, headers, chunks }: Archive, contentType: string): Reply {
  return { contentType, headers: { ...headers, 'content-disposition': attachment(filename) }, chunks }
}

async function download(path: string): Promise<Reply> {
  const sizeBytes = await fileSize(path)
  return {
    contentType: 'application/octet-stream',
    headers: {
      'content-disposition': attachment(path),
      ...(sizeBytes === 0 ? {} : { 'content-length': String(sizeBytes) }),
    },
    chunks: readFileBytes(path, sizeBytes),
  }
}

/** A path in an address may have lost its first slash. */
function rooted(path: string): string {
  return path.startsWith('/') ? path : `/${path}`
}
