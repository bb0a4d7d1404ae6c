import { dirname } from 'node:path'
import type { Handlers, Reply, Request } from '@slipway/http'
import { type fileRoutes, invalidInput } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'
import { type ConversationInfoReader, withNotFoundText } from '../../core/conversations/conversation-info.ts'
import { zipTrajectory } from '../../core/conversations/trajectory.ts'
import { type Archive, createPatch, createTarArchive } from './archive.ts'
import { listDirectory, listHomeLocations, listSubdirectories } from './browse.ts'
import {
  contentDisposition,
  createDirectory,
  type FoundFile,
  findFile,
  readFileBytes,
  saveFile,
} from './file-access.ts'
import { assertServedFolder } from './server-files.ts'

type UploadRequest = Pick<Request<typeof fileRoutes.uploadFile>, 'upload'>
type CreateDirectoryRequest = Pick<Request<typeof fileRoutes.createDirectory>, 'query' | 'body'>

const success = { json: { success: true } }

export function fileHandlers(options: {
  readonly homeDirectory: string
  readonly log: EventLog
  readonly infoReader: ConversationInfoReader
  readonly dataDirectory: string
  readonly environment: Readonly<Record<string, string>>
  /** Files are written, read and made below it only. */
  readonly root?: string | undefined
}): Handlers<typeof fileRoutes> {
  const { homeDirectory, log, infoReader, dataDirectory, environment, root } = options
  const save = async (path: string, request: UploadRequest): Promise<Reply> => {
    const { bytes } = await request.upload()
    const file_size = await saveFile(path, bytes, { root, dataDirectory })
    return { json: { success: true, file_size } }
  }
  const create = async ({ query, body }: CreateDirectoryRequest): Promise<Reply> => {
    const path = query.path ?? body?.path
    if (path === undefined) throw invalidInput(['query', 'path'], 'Field required', 'missing')
    await createDirectory(path, root)
    return success
  }
  const download = async (path: string): Promise<Reply> => {
    const file = await findFile(path, root)
    await assertServedFolder(dirname(file.real), dataDirectory)
    return downloadReply(path, file)
  }
  return {
    uploadFile: (request) => save(request.query.path, request),
    uploadFileTo: (request) => save(withLeadingSlash(request.params.path), request),
    downloadFile: ({ query }) => download(query.path),
    downloadFileFrom: ({ params }) => download(withLeadingSlash(params.path)),
    createDirectory: create,
    createDirectoryAlias: create,
    async downloadTrajectory({ params }) {
      const record = await withNotFoundText(
        infoReader.getRecord(params.conversation_id),
        'Conversation not found',
      )
      const { id, head, updated_at: updatedAt } = record
      const meta = await infoReader.readInfo(record)
      const state = await infoReader.readArchivedState(record)
      return {
        contentType: 'application/zip',
        headers: { 'content-disposition': contentDisposition(`${id.replaceAll('-', '')}.zip`) },
        chunks: zipTrajectory({ log, id, head, meta, state, updatedAt }),
      }
    },
    async archiveDirectory({ query, signal }) {
      const { path, base_ref: baseRef, use_default_excludes: useDefaultExcludes, exclude = [] } = query
      const source = { path, dataDirectory, env: environment, signal }
      const archiveOptions = { ...source, useDefaultExcludes, exclude }
      return query.format === 'tar.gz'
        ? archiveReply(await createTarArchive(archiveOptions), 'application/gzip')
        : archiveReply(await createPatch({ ...archiveOptions, baseRef }), 'text/x-patch')
    },
    fileHome: async ({ query }) => ({ json: await listHomeLocations(homeDirectory, query.include_hidden) }),
    async searchSubdirectories({ query: { path, page_id, limit, include_hidden } }) {
      return {
        json: await listSubdirectories(path, { limit, includeHidden: include_hidden, pageId: page_id }),
      }
    },
    async listDirectory({ query: { path, page_id, limit, include_hidden } }) {
      return {
        json: await listDirectory(path, { limit, includeHidden: include_hidden, pageId: page_id }),
      }
    },
  }
}

function archiveReply({ filename, headers, chunks }: Archive, contentType: string): Reply {
  return { contentType, headers: { ...headers, 'content-disposition': contentDisposition(filename) }, chunks }
}

function downloadReply(path: string, file: FoundFile): Reply {
  return {
    contentType: 'application/octet-stream',
    headers: {
      'content-disposition': contentDisposition(path),
      ...(file.size === 0 ? {} : { 'content-length': String(file.size) }),
    },
    chunks: readFileBytes(file),
  }
}

/** A path in an address may have lost its first slash. */
function withLeadingSlash(path: string): string {
  return path.startsWith('/') ? path : `/${path}`
}
