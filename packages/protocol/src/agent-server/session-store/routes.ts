import * as z from 'zod'
import { ok, successResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { boundedText, component } from '../../core/schemas.ts'

const ndjson = 'application/x-ndjson'
const project_key = boundedText(1, 256).meta({
  description: 'The scope of the session, such as a directory.',
})
const session = z.object({ project_key, session_id: boundedText(1, 256) })

/** Names a transcript: that of a session, or below `subpath` one of its sub-agents. */
const transcriptKey = session.extend({
  subpath: boundedText(1, 256).optional().meta({ description: 'Absent for the transcript of the session.' }),
})
export type TranscriptKey = z.output<typeof transcriptKey>

const storedSession = component('StoredSession', {
  session_id: z.string(),
  mtime: z.int().meta({ description: 'Of the last change, in milliseconds since 1970.' }),
  conversation_id: z.string(),
})
export type StoredSession = z.output<typeof storedSession>

/** The door of session stores of the Claude Agent SDK. */
export const sessionStoreRoutes = defineRoutes('session store', {
  appendSessionEntries: route.post('/api/session-store/entries', {
    summary: 'Append entries to the transcript of a session',
    description:
      'The body is one JSON object a line. All of them are stored or none, each as an event of the kind SessionStoreEntry of the conversation that the key names. An entry whose uuid the transcript has is left out.',
    query: transcriptKey,
    stream: ndjson,
    responses: {
      201: {
        description: 'Every line is stored.',
        schema: component('AppendedEntries', {
          conversation_id: z.string(),
          appended: z.int().meta({ description: 'Without those that were stored before.' }),
        }),
      },
      409: { description: 'An import into the conversation is under way.' },
    },
  }),
  loadSessionEntries: route.get('/api/session-store/entries', {
    summary: 'Read the transcript of a session',
    query: transcriptKey,
    responses: {
      200: {
        description:
          'One entry a line, as it came, in the order of the appends; none where there is no transcript.',
        contentType: [ndjson],
      },
    },
  }),
  deleteSession: route.delete('/api/session-store/entries', {
    summary: 'Delete a session with all its transcripts, or the transcript of a subpath',
    query: transcriptKey,
    responses: successResponses,
  }),
  listStoredSessions: route.get('/api/session-store/sessions', {
    summary: 'List the sessions of a project',
    query: z.object({ project_key }),
    responses: ok('Sessions whose main transcript has entries, the oldest first.', z.array(storedSession)),
  }),
  listSessionSubpaths: route.get('/api/session-store/subpaths', {
    summary: 'List the subpaths of a session',
    query: session,
    responses: ok('Subpaths whose transcript has entries, the oldest first.', z.array(z.string())),
  }),
})
