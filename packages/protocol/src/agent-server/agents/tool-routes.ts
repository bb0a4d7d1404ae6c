import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'

const toolCatalogEntry = component('ToolCatalogEntry', {
  name: z.string(),
  user_selectable: z.boolean().meta({ description: 'False: agents get it in another way.' }),
  usable: z.boolean().meta({ description: 'It works on this machine.' }),
  description: z.string(),
  in_default_set: z.boolean().meta({ description: 'An agent whose settings name no tools has it.' }),
})

/** What agents may be given. */
export const toolRoutes = defineRoutes('tools', {
  listTools: route.get('/api/tools', {
    compressed: true,
    summary: 'List the names of the tools',
    description:
      'As agents are given them. Those that work on this machine are among the abilities of /server_info.',
    responses: ok('The names.', z.array(z.string())),
  }),
  getToolCatalog: route.get('/api/tools/catalog', {
    compressed: true,
    summary: 'Describe the tools that a client may offer for an agent',
    description: 'Tools of clients, MCP servers and plugins are not among them.',
    responses: ok('The tools.', component('ToolCatalog', { tools: z.array(toolCatalogEntry) })),
  }),
})
