import * as z from 'zod'
import { blankable, pageLimit, queryFlag, queryText } from '../../core/query.ts'
import type { RouteTable } from '../../core/route.ts'
import { conversationId, success } from '../conversations/conversation.ts'

const path = z.object({ path: z.string().meta({ description: 'Absolute.' }) })
const rest = z.object({
  path: z
    .string()
    .meta({ description: 'Absolute; slashes may be percent-encoded, the first may be missing.' }),
})
const place = z.object({ label: z.string(), path: z.string() })
const refused = {
  400: { description: 'The path is not absolute, or not that of a file or directory to be used so.' },
}
const done = { 200: { description: 'Done.', schema: success }, ...refused }
const file = { 200: { description: 'The file.', contentType: 'application/octet-stream' }, ...refused }

const upload = {
  method: 'POST',
  tag: 'files',
  summary: 'Upload a file',
  description: 'Directories on the way are made. The file is there as a whole or not at all.',
  upload: true,
  responses: { ...done, 507: { description: 'The disk is full.' } },
} as const

const download = {
  method: 'GET',
  tag: 'files',
  summary: 'Download a file',
  responses: file,
} as const

const createDirectory = {
  method: 'POST',
  tag: 'files',
  summary: 'Create a directory',
  description:
    'With those on the way to it; done as well when it is there. The path comes in the query or in the body.',
  query: z.object({ path: z.string().optional().meta({ description: 'Absolute.' }) }),
  body: path.partial().optional(),
  responses: done,
} as const

/** Files of the machine that the server runs on. */
export const fileRoutes = {
  uploadFile: { ...upload, path: '/api/file/upload', query: path },
  uploadFileTo: { ...upload, path: '/api/file/upload/{path*}', params: rest },
  downloadFile: { ...download, path: '/api/file/download', query: path },
  downloadFileFrom: { ...download, path: '/api/file/download/{path*}', params: rest },
  createDirectory: { ...createDirectory, path: '/api/file/create_directory' },
  createDirectoryAlias: { ...createDirectory, path: '/file/create_directory' },
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
    query: path.extend({
      format: blankable(z.enum(['git-delta', 'tar.gz'])).meta({ description: 'git-delta unless given.' }),
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
          .object({ home: z.string(), favorites: z.array(place), locations: z.array(place) })
          .meta({ id: 'FileHome' }),
      },
    },
  },
  searchSubdirectories: {
    method: 'GET',
    path: '/api/file/search_subdirs',
    tag: 'files',
    summary: 'List the directories in a directory',
    query: path.extend({
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
      ...refused,
    },
  },
} as const satisfies RouteTable
