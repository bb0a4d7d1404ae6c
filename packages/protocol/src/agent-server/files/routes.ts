import * as z from 'zod'
import { emptyAsUndefined, pageLimit, queryFlag, queryText } from '../../core/query.ts'
import type { RouteTable } from '../../core/route.ts'
import { conversationId, success } from '../conversations/conversation.ts'

const pathQuery = z.object({ path: z.string().meta({ description: 'Absolute.' }) })
const pathParams = z.object({
  path: z
    .string()
    .meta({ description: 'Absolute; slashes may be percent-encoded, the first may be missing.' }),
})
const namedPath = z.object({ label: z.string(), path: z.string() })
const badPathResponses = {
  400: { description: 'The path is not absolute, or not that of a file or directory to be used so.' },
}
const successResponses = { 200: { description: 'Done.', schema: success }, ...badPathResponses }
const fileResponses = {
  200: { description: 'The file.', contentType: 'application/octet-stream' },
  ...badPathResponses,
}

const uploadRoute = {
  method: 'POST',
  tag: 'files',
  summary: 'Upload a file',
  description: 'Directories on the way are made. The file is there as a whole or not at all.',
  upload: true,
  responses: { ...successResponses, 507: { description: 'The disk is full.' } },
} as const

const downloadRoute = {
  method: 'GET',
  tag: 'files',
  summary: 'Download a file',
  responses: fileResponses,
} as const

const createDirectoryRoute = {
  method: 'POST',
  tag: 'files',
  summary: 'Create a directory',
  description:
    'With those on the way to it; done as well when it is there. The path comes in the query or in the body.',
  query: z.object({ path: z.string().optional().meta({ description: 'Absolute.' }) }),
  body: pathQuery.partial().optional(),
  responses: successResponses,
} as const

/** Files of the machine that the server runs on. */
export const fileRoutes = {
  uploadFile: { ...uploadRoute, path: '/api/file/upload', query: pathQuery },
  uploadFileTo: { ...uploadRoute, path: '/api/file/upload/{path*}', params: pathParams },
  downloadFile: { ...downloadRoute, path: '/api/file/download', query: pathQuery },
  downloadFileFrom: { ...downloadRoute, path: '/api/file/download/{path*}', params: pathParams },
  createDirectory: { ...createDirectoryRoute, path: '/api/file/create_directory' },
  createDirectoryAlias: { ...createDirectoryRoute, path: '/file/create_directory' },
  downloadTrajectory: {
    method: 'GET',
    path: '/api/file/download-trajectory/{conversation_id}',
    tag: 'files',
    summary: 'Download a conversation as a zip file',
    description: 'meta.json, and a file for each event; secrets are stars.',
    params: z.object({ conversation_id: conversationId }),
    responses: { 200: { description: 'The zip file.', contentType: 'application/zip' } },
  },
  archiveDirectory: {
    method: 'GET',
    path: '/api/file/archive',
    tag: 'files',
    summary: 'Download a directory',
    description:
      'git-delta is what its working tree has that a commit has not, as a patch; tar.gz is the whole. X-Archive-* headers tell of the repository, percent-encoded. Files in which credentials are kept are not in it.',
    query: pathQuery.extend({
      format: emptyAsUndefined(z.enum(['git-delta', 'tar.gz'])).meta({
        description: 'git-delta unless given.',
      }),
      base_ref: queryText.meta({
        description: 'For git-delta: what is compared with; unless given, as for the list of changes.',
      }),
      use_default_excludes: z.stringbool().default(true).meta({
        type: 'boolean',
        default: true,
        description: 'Leave out what can be made again: dependencies, caches, output of builds.',
      }),
      exclude: z
        .array(z.string().max(1_000))
        .max(100)
        .optional()
        .meta({ description: 'More patterns to leave out, such as *.bin; repeated.' }),
    }),
    responses: {
      200: { description: 'The patch or the tar file.', contentType: ['application/gzip', 'text/x-patch'] },
      400: { description: 'No directory, no repository, no such commit, or a patch that is too large.' },
    },
  },
  fileHome: {
    method: 'GET',
    path: '/api/file/home',
    tag: 'files',
    summary: 'Places to begin looking for a directory',
    query: z.object({ include_hidden: queryFlag }),
    responses: {
      200: {
        description: 'The home directory, directories in it, and the roots.',
        schema: z
          .object({ home: z.string(), favorites: z.array(namedPath), locations: z.array(namedPath) })
          .meta({ id: 'FileHome' }),
      },
    },
  },
  searchSubdirectories: {
    method: 'GET',
    path: '/api/file/search_subdirs',
    tag: 'files',
    summary: 'List the directories in a directory',
    query: pathQuery.extend({
      page_id: queryText.meta({ description: 'The next_page_id of the page before.' }),
      limit: pageLimit,
      include_hidden: queryFlag,
    }),
    responses: {
      200: {
        description: 'One page, by name without regard to case.',
        schema: z
          .object({
            items: z.array(z.object({ name: z.string(), path: z.string() })),
            next_page_id: z.string().nullable(),
          })
          .meta({ id: 'SubdirectoryPage' }),
      },
      ...badPathResponses,
    },
  },
} as const satisfies RouteTable
