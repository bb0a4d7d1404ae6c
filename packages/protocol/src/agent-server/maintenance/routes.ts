import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'

const compactedDatabase = component('CompactedDatabase', {
  name: z.string(),
  before_bytes: z.int().meta({ description: 'Of the file and its write-ahead log.' }),
  after_bytes: z.int(),
  free_bytes: z.int().meta({ description: 'Free space that is left in the file.' }),
  needs_stop: z.boolean().meta({
    description: 'A file of an earlier version: `slipway compact` gives its space back while no server runs.',
  }),
})

const compactedStorage = component('CompactedStorage', {
  data_directory: z.string(),
  is_complete: z.boolean(),
  databases: z.array(compactedDatabase),
})
export type CompactedStorage = z.output<typeof compactedStorage>

/** Care for the files of a server while it runs. */
export const maintenanceRoutes = defineRoutes('maintenance', {
  compactStorage: route.post('/api/storage/compact', {
    summary: 'Give the free space of the databases back',
    description:
      'In small steps, between which events are stored. It ends after some seconds: repeat it until `is_complete`.',
    responses: ok('What came back.', compactedStorage),
  }),
})
