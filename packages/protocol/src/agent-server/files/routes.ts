import * as z from 'zod'
import { emptyAsUndefined, pageQuery, queryFlag, queryText } from '../../core/query.ts'
import { ok, successResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, timestamp } from '../../core/schemas.ts'
import { conversationParams } from '../conversations/conversation.ts'

/** The server answers 400 to another one. */
const absolutePath = { description: 'Absolute.', pattern: '^/' } as const
const pathQuery = z.object({ path: z.string().meta(absolutePath) })
const pathParams = z.object({
  path: z
    .string()
    .meta({ description: 'Absolute; slashes may be percent-encoded, the first may be missing.' }),
})
const namedPath = z.object({ label: z.string(), path: z.string() })
const badPathResponses = {
  400: { description: 'The path is not absolute, or not that of a file or directory to be used so.' },
}
const fileResponses = {
  200: { description: 'The file.', contentType: 'application/octet-stream' },
  ...badPathResponses,
}

const uploadRoute = {
  summary: 'Upload a file',
  description: 'Directories on the way are made. The file is there as a whole or not at all.',
  upload: true,
  responses: {
    ...ok('It is there.', component('UploadedFile', { success: z.boolean(), file_size: z.int() })),
    ...badPathResponses,
    507: { description: 'The disk is full.' },
  },
} as const

const downloadRoute = {
  summary: 'Download a file',
  responses: fileResponses,
} as const

const createDirectoryRoute = {
  summary: 'Create a directory',
  description:
    'With those on the way to it; done as well when it is there. The path comes in the query or in the body.',
  query: z.object({ path: z.string().meta(absolutePath).optional() }),
  body: pathQuery.partial().optional(),
  responses: { ...successResponses, ...badPathResponses },
} as const

const directoryPage = component('ListedFilePage', {
  items: z.array(
    component('ListedFile', {
      name: z.string(),
      path: z.string().meta({ description: 'Absolute.' }),
      kind: z.enum(['file', 'directory', 'link', 'other']),
      size_bytes: z.int().nullable().meta({ description: 'Of a file.' }),
      modified_at: timestamp.nullable().meta({ description: 'Null when it is gone by now.' }),
    }),
  ),
  next_page_id: z.string().nullable(),
})

/** Files of the machine that the server runs on. */
export const fileRoutes = defineRoutes('files', {
  uploadFile: route.post('/api/file/upload', { ...uploadRoute, query: pathQuery }),
  uploadFileTo: route.post('/api/file/upload/{path*}', { ...uploadRoute, params: pathParams }),
  downloadFile: route.get('/api/file/download', { ...downloadRoute, query: pathQuery }),
  downloadFileFrom: route.get('/api/file/download/{path*}', { ...downloadRoute, params: pathParams }),
  createDirectory: route.post('/api/file/create_directory', createDirectoryRoute),
  createDirectoryAlias: route.post('/file/create_directory', createDirectoryRoute),
  downloadTrajectory: route.get('/api/file/download-trajectory/{conversation_id}', {
    summary: 'Download a conversation as a zip file',
    description: 'meta.json, and a file for each event; secrets are stars.',
    params: conversationParams,
    responses: { 200: { description: 'The zip file.', contentType: 'application/zip' } },
  }),
  archiveDirectory: route.get('/api/file/archive', {
    summary: 'Download a directory',
    description:
      'git-delta is what its working tree has that a commit has not, as a patch; tar.gz is the whole below its name, with archive_manifest.json (format, source, file_count, total_bytes, use_default_excludes, excludes). X-Archive-* headers tell of the repository, percent-encoded. Files in which credentials are kept are not in it.',
    query: pathQuery.extend({
      format: emptyAsUndefined(z.enum(['git-delta', 'tar.gz'])).meta({
        description:
          'git-delta unless given. A directory that is in no repository and has exactly one below it, up to three levels deep, stands for that repository; otherwise git-delta is refused and tar.gz is the directory itself.',
      }),
      base_ref: queryText.meta({
        description:
          'For git-delta: what is compared with; unless given, the branch at the origin, what it has in common with the main branch there, or nothing.',
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
  }),
  fileHome: route.get('/api/file/home', {
    summary: 'Places to begin looking for a directory',
    query: z.object({ include_hidden: queryFlag }),
    responses: ok(
      'The home directory, directories in it, and the roots.',
      component('FileHome', {
        home: z.string(),
        favorites: z.array(namedPath),
        locations: z.array(namedPath),
      }),
    ),
  }),
  searchSubdirectories: route.get('/api/file/search_subdirs', {
    summary: 'List the directories in a directory',
    query: pathQuery.extend({
      ...pageQuery.shape,
      include_hidden: queryFlag,
    }),
    responses: {
      ...ok(
        'One page, by name without regard to case.',
        component('SubdirectoryPage', {
          items: z.array(z.object({ name: z.string(), path: z.string() })),
          next_page_id: z.string().nullable(),
        }),
      ),
      ...badPathResponses,
    },
  }),
  listDirectory: route.get('/api/file/list', {
    compressed: true,
    summary: 'List what is in a directory',
    description: 'Links are named and not followed.',
    query: pathQuery.extend({ ...pageQuery.shape, include_hidden: queryFlag }),
    responses: {
      ...ok('One page: directories first, then by name without regard to case.', directoryPage),
      ...badPathResponses,
    },
  }),
})
