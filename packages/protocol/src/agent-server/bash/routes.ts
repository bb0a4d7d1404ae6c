import * as z from 'zod'
import { listed, ok, successResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { pageOf } from '../../core/schemas.ts'
import { bashCommand, bashEvent, bashId, bashOutput, bashSearchQuery, executeBashRequest } from './bash.ts'

const tooManyResponses = { 429: { description: 'Too many commands run already.' } }

/** Commands outside of conversations. */
export const bashRoutes = defineRoutes('bash', {
  startBashCommand: route.post('/api/bash/start_bash_command', {
    summary: 'Start a command',
    description: 'Answers at once; the output is found by a search with command_id__eq.',
    body: executeBashRequest,
    responses: { ...ok('It was started.', bashCommand), ...tooManyResponses },
  }),
  executeBashCommand: route.post('/api/bash/execute_bash_command', {
    summary: 'Run a command to its end',
    description: 'The whole output in one piece. A caller that goes away does not end the command.',
    body: executeBashRequest,
    responses: { ...ok('It is over.', bashOutput), ...tooManyResponses },
    example: { command: 'git status', cwd: '/home/me/project', timeout: 30 },
  }),
  searchBashEvents: route.get('/api/bash/bash_events/search', {
    summary: 'Search commands and their output',
    description: 'A page of very long outputs ends before its limit; next_page_id says that there is more.',
    query: bashSearchQuery,
    responses: ok('One page.', pageOf(bashEvent).meta({ id: 'BashEventPage' })),
  }),
  getBashEvents: route.get('/api/bash/bash_events', {
    summary: 'Get bash events by id',
    description:
      'Ids come in the query, or as a JSON array in the body for clients that can send one with GET.',
    query: z.object({
      ids: z.array(z.string()).optional().meta({ description: 'Ids of events, repeated.' }),
    }),
    body: z.array(z.string()).max(100).optional(),
    responses: listed(bashEvent),
  }),
  clearBashEvents: route.delete('/api/bash/bash_events', {
    summary: 'Forget the commands that are over, with their output',
    responses: ok('How many events were removed.', z.object({ cleared_count: z.int() })),
  }),
  getBashEvent: route.get('/api/bash/bash_events/{event_id}', {
    summary: 'Get a bash event',
    params: z.object({ event_id: z.string() }),
    responses: ok('The event.', bashEvent),
  }),
  stopBashCommand: route.post('/api/bash/bash_commands/{command_id}/stop', {
    summary: 'Stop a command',
    description:
      'SIGTERM to its process group, SIGKILL a second later; the last output has the negative number of the signal as exit_code. A command that is over stays as it is.',
    params: z.object({ command_id: bashId }),
    responses: successResponses,
  }),
})
