import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'

/** What agents may be given. */
export const toolRoutes = defineRoutes('tools', {
  listTools: route.get('/api/tools', {
    summary: 'List the names of the tools',
    description:
      'As agents are given them. Those that work on this machine are among the abilities of /server_info.',
    responses: ok('The names.', z.array(z.string())),
  }),
})
