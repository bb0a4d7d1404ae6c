import * as z from 'zod'
import type { RouteTable } from '../../core/route.ts'

/** What agents may be given. */
export const toolRoutes = {
  listTools: {
    method: 'GET',
    path: '/api/tools',
    tag: 'tools',
    summary: 'List the names of the tools',
    description:
      'As agents are given them. Those that work on this machine are among the abilities of /server_info.',
    responses: { 200: { description: 'The names.', schema: z.array(z.string()) } },
  },
} as const satisfies RouteTable
