import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component, looseComponent, nullAsUndefined, trueByDefault, withDefault } from '../../core/schemas.ts'
import { hookConfig } from '../agents/agent.ts'
import {
  enableRequest,
  enableResponse,
  extensionName,
  installedMembers,
  installRequest,
  type MarketplaceRegistration,
  marketplaceRegistration,
  uninstallResponse,
} from '../extensions/extension.ts'

const projectDirectory = nullAsUndefined(z.string()).meta({ description: 'Absolute path of the project.' })

/**
 * A skill as clients list it. `repo`: always active; `knowledge`: active by trigger words; `agentskills`: a
 * folder.
 */
export const skillInfo = component('SkillInfo', {
  name: z.string(),
  type: z.enum(['repo', 'knowledge', 'agentskills']),
  content: z.string(),
  triggers: z.array(z.string()),
  source: z.string().nullable(),
  description: z.string().nullable(),
  is_agentskills_format: z.boolean(),
  disable_model_invocation: z.boolean(),
})
export type SkillInfo = z.infer<typeof skillInfo>

/**
 * A repository with the skills of an organisation. Credentials in its address are neither stored nor shown.
 */
const orgConfig = looseComponent('OrgConfig', {
  org_repo_url: z.string().max(2048),
  org_name: nullAsUndefined(z.string()),
})
export type OrgConfig = z.output<typeof orgConfig>

const staysInside = ({ repo_path }: MarketplaceRegistration) => !repo_path?.split('/').includes('..')

const exposedUrl = z.looseObject({
  name: z.string().max(200),
  url: z.string().max(2048),
  port: nullAsUndefined(z.int()),
})
export type ExposedUrl = z.output<typeof exposedUrl>

/**
 * Which skills to list. `marketplace_path`: only what this file of the public collection names. Unknown
 * members are ignored.
 */
export const listSkillsRequest = looseComponent('SkillsRequest', {
  load_public: trueByDefault,
  load_user: trueByDefault,
  load_project: trueByDefault,
  load_org: trueByDefault,
  project_dir: projectDirectory,
  marketplace_path: nullAsUndefined(z.string().max(1024)),
  registered_marketplaces: withDefault(
    z.array(marketplaceRegistration.refine(staysInside, 'Its folder leads out of the repository')).max(20),
    [],
  ),
  org_config: nullAsUndefined(orgConfig),
  org_configs: nullAsUndefined(z.array(orgConfig).max(20)),
  sandbox_config: nullAsUndefined(
    z.looseObject({ exposed_urls: withDefault(z.array(exposedUrl).max(100), []) }),
  ),
})
export type ListSkillsRequest = z.output<typeof listSkillsRequest>

/** By name. `sources`: how many each kind of source brought in, after names that clash. */
export const skillList = component('SkillsResponse', {
  skills: z.array(skillInfo),
  sources: z.record(z.string(), z.int()),
})

export const installedSkill = component('InstalledSkillResponse', installedMembers)
export type InstalledSkill = z.infer<typeof installedSkill>

/** A skill of a catalogue. `source` is what an installation names it by. */
export const marketplaceSkill = component('MarketplaceSkillInfo', {
  name: z.string(),
  description: z.string().nullable(),
  source: z.string(),
  installed: z.boolean(),
})
export type MarketplaceSkill = z.infer<typeof marketplaceSkill>

const nameParams = z.object({ name: extensionName })
const updatedSkill = component('UpdateSkillResponse', { message: z.string(), skill: installedSkill })
const notFetchedResponse = { description: 'The source cannot be fetched.' }

export const skillRoutes = defineRoutes('skills', {
  listSkills: route.post('/api/skills', {
    summary: 'List the skills that an agent would have',
    description:
      'Of two skills of one name the later in this row is listed: sandbox, marketplaces, public, user, installed, organisation, project. A source that cannot be reached brings nothing.',
    body: listSkillsRequest.prefault({}),
    responses: ok('The skills.', skillList),
  }),
  syncSkills: route.post('/api/skills/sync', {
    summary: 'Fetch the public skills and the marketplaces again',
    responses: ok(
      'Whether it went well.',
      component('SyncResponse', { status: z.enum(['success', 'error']), message: z.string() }),
    ),
  }),
  installSkill: route.post('/api/skills/install', {
    summary: 'Install a skill',
    description: 'Every conversation that is loaded from then on has it.',
    body: installRequest,
    responses: {
      200: { description: 'It is.', schema: installedSkill },
      400: notFetchedResponse,
      409: { description: 'A skill of this name is installed.' },
    },
  }),
  listInstalledSkills: route.get('/api/skills/installed', {
    summary: 'List the installed skills',
    responses: ok(
      'All of them.',
      component('InstalledSkillsListResponse', { skills: z.array(installedSkill) }),
    ),
  }),
  getInstalledSkill: route.get('/api/skills/installed/{name}', {
    summary: 'Get an installed skill',
    params: nameParams,
    responses: ok('The skill.', installedSkill),
  }),
  enableSkill: route.patch('/api/skills/installed/{name}', {
    summary: 'Enable or disable an installed skill',
    params: nameParams,
    body: enableRequest,
    responses: ok('It is.', enableResponse),
  }),
  uninstallSkill: route.delete('/api/skills/installed/{name}', {
    summary: 'Uninstall a skill',
    params: nameParams,
    responses: ok('It is gone.', uninstallResponse),
  }),
  refreshSkill: route.post('/api/skills/installed/{name}/refresh', {
    summary: 'Fetch an installed skill again',
    params: nameParams,
    responses: {
      ...ok('It is as its source has it now.', updatedSkill),
      400: notFetchedResponse,
    },
  }),
  listMarketplaceSkills: route.get('/api/skills/marketplace', {
    compressed: true,
    summary: 'List the skills of the public collection and of the marketplaces',
    responses: ok(
      'Empty when this server knows neither.',
      component('SkillCatalogResponse', { skills: z.array(marketplaceSkill) }),
    ),
  }),
  getHooks: route.post('/api/hooks', {
    tag: 'hooks',
    summary: 'Get the hooks of a project',
    description: 'Those of the project, and when it has none those of the user; null when there are none.',
    body: component('HooksRequest', { project_dir: projectDirectory }),
    responses: ok('The hooks.', component('HooksResponse', { hook_config: hookConfig.nullable() })),
  }),
})
