import type { Handlers } from '@slipway/http'
import type { sandboxServerRoutes } from '@slipway/protocol'
import type { Backend } from '../backends/backend.ts'

type Routes = Pick<
  typeof sandboxServerRoutes,
  'alive' | 'health' | 'ready' | 'serverInfo' | 'webClientConfig'
>

/** What anybody may ask. */
export function healthHandlers(deps: {
  readonly version: string
  readonly backends: ReadonlyMap<string, Backend>
}): Handlers<Routes> {
  const startedAt = Date.now()
  const updatedAt = new Date(startedAt).toISOString()
  return {
    alive: () => ({ json: { status: 'ok' } }),
    health: () => ({ bytes: Buffer.from('OK'), contentType: 'text/plain' }),
    ready: () => ({ json: { status: 'ready' } }),
    async serverInfo() {
      const backends = await Promise.all(
        [...deps.backends].map(async ([name, backend]) => ({ name, isolation: await backend.isolation() })),
      )
      return {
        json: {
          title: 'Slipway Sandbox Server',
          slipway_version: deps.version,
          uptime: Math.floor((Date.now() - startedAt) / 1000),
          backends,
          docs: '/docs',
        },
      }
    },
    webClientConfig: () => ({ json: { ...webClientConfig, updated_at: updatedAt } }),
  }
}

const webClientConfig = {
  app_mode: 'oss',
  posthog_client_key: null,
  maintenance_start_time: null,
  auth_url: null,
  recaptcha_site_key: null,
  error_message: null,
  github_app_slug: null,
  feature_flags: {
    enable_billing: false,
    hide_llm_settings: false,
    enable_jira: false,
    enable_jira_dc: false,
    enable_linear: false,
    hide_users_page: true,
    hide_billing_page: true,
    hide_integrations_page: true,
    hide_personal_workspaces: true,
    allow_user_llm_configuration: true,
    enable_acp: false,
    deployment_mode: 'self_hosted',
    enable_onboarding: false,
    enable_automations: false,
    enable_agent_canvas_banner: false,
  },
  providers_configured: [],
  faulty_models: [],
  gitlab_enabled: false,
  slack_enabled: false,
  email_enabled: false,
  email_change_enabled: true,
  provider_default_hosts: {},
  acp_providers: [],
  kind: 'WebClientConfig',
}
