import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { conversationParams } from './conversation.ts'

/** The files of a workspace before a step of the agent, or before a restore. */
export const checkpoint = component('Checkpoint', {
  id: z.string(),
  kind: z.enum(['step', 'restore']),
  event_id: z.string().nullable().meta({ description: 'The first action of the step.' }),
  timestamp: z.string(),
  skipped: z.array(z.string()).meta({ description: 'Files that are too large or unreadable; at most 200.' }),
})
export type Checkpoint = z.output<typeof checkpoint>

const checkpointDiff = component('CheckpointDiff', {
  total: z.int().meta({ description: 'Number of changed files.' }),
  files: z.array(z.object({ path: z.string(), status: z.enum(['added', 'changed', 'deleted']) })),
  patch: z.string(),
  is_truncated: z.boolean(),
})
export type CheckpointDiff = z.output<typeof checkpointDiff>

const checkpointParams = conversationParams.extend({
  checkpoint_id: z.string().regex(/^[0-9a-f]{40}$/, 'The id of a checkpoint is 40 hexadecimal digits'),
})
const failures = {
  404: { description: 'There is no such checkpoint.' },
  409: { description: 'It has no agent or no checkpoints, it is running, or git failed.' },
}

export const checkpointRoutes = defineRoutes('checkpoints', {
  listCheckpoints: route.get('/api/conversations/{conversation_id}/checkpoints', {
    scope: 'read',
    summary: 'List the checkpoints of the workspace',
    description:
      'The newest 1,000, oldest first. A checkpoint has the files of the workspace as they were before a step of the agent. There are none unless the server is set so.',
    params: conversationParams,
    responses: {
      ...ok(
        'The checkpoints.',
        component('CheckpointList', {
          items: z.array(checkpoint),
          off_reason: z.string().nullable().meta({ description: 'Why no more are made.' }),
        }),
      ),
      409: failures[409],
    },
  }),
  getCheckpointDiff: route.get('/api/conversations/{conversation_id}/checkpoints/{checkpoint_id}/diff', {
    scope: 'read',
    summary: 'Get what changed after a checkpoint',
    description: 'Up to the next checkpoint, or up to now for the newest.',
    params: checkpointParams,
    responses: { ...ok('The changes.', checkpointDiff), ...failures },
  }),
  restoreCheckpoint: route.post('/api/conversations/{conversation_id}/checkpoints/{checkpoint_id}/restore', {
    summary: 'Restore the workspace',
    description:
      'What is there becomes a checkpoint first, so nothing is lost. Files that the user alone has changed or made since stay, and so do ignored files. The agent is told by a message.',
    params: checkpointParams,
    responses: {
      ...ok(
        'Done.',
        component('RestoreCheckpointResponse', {
          saved: checkpoint,
          total: z.int().meta({ description: 'Number of changed files.' }),
          paths: z.array(z.string()).meta({ description: 'Files that changed; at most 200.' }),
          kept: z.array(z.string()).meta({
            description: 'Files that the user alone has changed since, and that stay; at most 200.',
          }),
          clashes: z.array(z.string()).meta({
            description:
              'Files that the agent and the user have changed since: they are restored, and the saved checkpoint has what the user wrote; at most 200.',
          }),
        }),
      ),
      ...failures,
    },
  }),
})
