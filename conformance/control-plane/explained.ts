import type { Difference } from './compare.ts'

/** Why a difference is meant: the rule that it follows. */
type Ground =
  /** The specification of the interface, or the contract of the agent server. */
  | 'specification'
  /** Secrets, isolation, input that is not trusted. */
  | 'safety'
  /** A thing of the hosted product alone. */
  | 'hosted'

/** A kind of difference that is meant. */
export interface Explained {
  /** Of `METHOD route`. */
  readonly route: RegExp
  readonly place: RegExp
  /** Of `reference | slipway`; any unless given. */
  readonly values?: RegExp
  readonly ground: Ground
  readonly reason: string
}

const any = /./
/** Of models, agents and their forms. */
const librarySettings = [
  ...[
    'auth_type',
    'subscription_vendor',
    'is_subscription',
    'ollama_base_url',
    'drop_params',
    'modify_params',
  ],
  ...['aws_(?:profile_name|role_name|session_name|bedrock_runtime_endpoint)', 'openrouter_\\w+', 'base_url'],
  ...['disable_stop_word', 'log_completions_folder', 'custom_tokenizer', 'force_string_serializer'],
  ...['inline_image_urls', 'reasoning_effort', 'prompt_cache_retention', 'extended_thinking_budget'],
  ...['agent_settings\\.llm\\.model', 'agent_context\\.secrets'],
  ...['schema_version', 'marketplace_path', 'current_datetime', 'fields\\[\\]\\.(?:default|variant)'],
]

/** At most 15; each is a row of docs/differences.md. */
export const explained: readonly Explained[] = [
  {
    route: any,
    place: /^\.detail\[\]\.(?:input|ctx)$/,
    ground: 'safety',
    reason: 'refused input is not echoed: it may be a secret',
  },
  {
    route: any,
    place: /^\.detail\[\]\.(?:type|loc\.length)$/,
    ground: 'specification',
    reason: 'type is a text; the words and the place of a key are those of the validator',
  },
  {
    route: any,
    place: /^status$/,
    values: /^400 .* \| 422 /,
    ground: 'specification',
    reason: 'a malformed id, too many ids and a bad body are a 422 with their places',
  },
  {
    route: any,
    place: /^status$/,
    values: /^500 /,
    ground: 'specification',
    reason: 'a 500 is a fault of the reference',
  },
  {
    route: /search$/,
    place: /^status$/,
    values: /^200 .* \| 422 .*page_id/,
    ground: 'safety',
    reason: 'a page_id that is none is refused: a walk must not start again silently',
  },
  {
    route: /^POST \/api\/v1\/app-conversations$/,
    place: /^status$/,
    values: /^200 .* \| 422 .*selected_repository/,
    ground: 'safety',
    reason: 'a repository is checked before the start, as in a change',
  },
  {
    route: /pending-messages$/,
    place: /^status$/,
    values: /^201 .* \| 404 /,
    ground: 'safety',
    reason: 'messages are kept for conversations and start tasks of the caller alone',
  },
  {
    route: /events\/search$/,
    place: /^status$/,
    values: /^422 .*kind__eq.* \| 200 /,
    ground: 'specification',
    reason: 'a kind to search for is any text',
  },
  {
    route: /settings|users\/me/,
    place: new RegExp(`\\.(?:${librarySettings.join('|')})$`),
    ground: 'specification',
    reason: 'the members of settings and models are those of the agent server, without those of LiteLLM',
  },
  {
    route: /settings|users\/me/,
    place: /\.security_analyzer$/,
    ground: 'safety',
    reason: 'confirmation without a chosen analyzer asks for each action',
  },
  {
    route: /users\/me$/,
    place: /^\.id$/,
    ground: 'specification',
    reason: 'every caller is a user, the one of the configured key too',
  },
  {
    route: /sandbox-specs/,
    place: /\.(?:command|initial_env\.\w+)$/,
    ground: 'specification',
    reason: 'the command may be null, and the environment is what the operator sets',
  },
  {
    route: /web-client\/config$/,
    place: /^\.(?:posthog_client_key|feature_flags\.\w+|acp_providers\.length)$/,
    ground: 'hosted',
    reason: 'pages, agents and telemetry that this server does not have are off',
  },
  {
    route: /^GET \/(?:ready|server_info)$/,
    place: /^$|^\.(?:idle_time|resources)$/,
    ground: 'safety',
    reason: 'routes without a key tell no load of the machine; readiness has a reason',
  },
  {
    route: /^GET \/api\/v1\/webhooks\/secrets$/,
    place: /^status$/,
    values: /^401 .* \| 404 /,
    ground: 'safety',
    reason: 'no token outlives its sandbox: secrets are read with the session key of a running one',
  },
]

/** The row of a difference; undefined: it is not meant. */
export function explain(route: string, { place, reference, slipway }: Difference): Explained | undefined {
  return explained.find(
    (row) =>
      row.route.test(route) &&
      row.place.test(place) &&
      (row.values === undefined || row.values.test(`${reference} | ${slipway}`)),
  )
}
