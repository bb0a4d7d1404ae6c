import * as z from 'zod'
import { hookConfig } from './agent.ts'
import type { RouteTable } from './route.ts'
import { given, otherwise } from './text.ts'

const projectDirectory = given(z.string()).meta({ description: 'Absolute path of the project.' })
const yes = otherwise(z.boolean(), true)

/** A skill as clients list it. `repo`: always told; `knowledge`: told when a word of it is said; `agentskills`: a folder. */
export const skillInfo = z
  .object({
    name: z.string(),
    type: z.enum(['repo', 'knowledge', 'agentskills']),
    content: z.string(),
    triggers: z.array(z.string()),
    source: z.string().nullable(),
    description: z.string().nullable(),
    is_agentskills_format: z.boolean(),
    disable_model_invocation: z.boolean(),
  })
  .meta({ id: 'SkillInfo' })
export type SkillInfo = z.infer<typeof skillInfo>

/** Which skills to list. What this server has no source of (public, organisation, marketplaces) contributes nothing. */
export const listSkillsRequest = z
  .looseObject({
    load_public: yes,
    load_user: yes,
    load_project: yes,
    load_org: yes,
    project_dir: projectDirectory,
  })
  .meta({ id: 'SkillsRequest' })

/** By name. `sources`: how many each kind of source brought in, after names that clash. */
export const skillList = z
  .object({ skills: z.array(skillInfo), sources: z.record(z.string(), z.int()) })
  .meta({ id: 'SkillsResponse' })

export const skillRoutes = {
  listSkills: {
    method: 'POST',
    path: '/api/skills',
    tag: 'skills',
    summary: 'List the skills of the user and of a project',
    description: 'Of two skills of one name that of the project is listed.',
    body: listSkillsRequest.prefault({}),
    responses: { 200: { description: 'The skills.', schema: skillList } },
  },
  getHooks: {
    method: 'POST',
    path: '/api/hooks',
    tag: 'hooks',
    summary: 'Get the hooks of a project',
    description: 'Those of the project, and when it has none those of the user; null when there are none.',
    body: z.object({ project_dir: projectDirectory }).meta({ id: 'HooksRequest' }).prefault({}),
    responses: {
      200: {
        description: 'The hooks.',
        schema: z.object({ hook_config: hookConfig.nullable() }).meta({ id: 'HooksResponse' }),
      },
    },
  },
} as const satisfies RouteTable
