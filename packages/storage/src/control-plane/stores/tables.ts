/** A table of the control plane in both engines, with its columns. */
export interface TableDefinition {
  readonly sqlite: string
  readonly postgres: string
  readonly columns: readonly string[]
  /** Texts that PostgreSQL has as bytes. */
  readonly bytes?: readonly string[]
  /** Columns that are not members of rows. */
  readonly hidden?: readonly string[]
  /** Members that are JSON texts. */
  readonly json?: readonly string[]
  /** Numbers 0 and 1 that PostgreSQL has as booleans. */
  readonly flags?: readonly string[]
}

function table(name: string, columns: string, more: Partial<TableDefinition> = {}): TableDefinition {
  return { sqlite: name, postgres: name, columns: columns.split(/\s+/), ...more }
}

/** The ledger is last: a target without it is incomplete. */
export const tableDefinitions: readonly TableDefinition[] = [
  table(
    'sandbox',
    `id owner org spec backend wanted status detail key_hash sealed epoch addresses
    created_at changed_at used_at caught_up_at deletes_at cost`,
    { hidden: ['cost'] },
  ),
  table('sandbox_secret', 'sandbox name'),
  table(
    'app_conversation',
    'id owner org sandbox parent title folded_title title_key status members created_at updated_at cost counted',
    { bytes: ['folded_title', 'title_key'], hidden: ['folded_title', 'title_key', 'cost', 'counted'] },
  ),
  table(
    'start_task',
    'id owner org status detail conversation sandbox agent_url request quota_day created_at updated_at',
  ),
  table('user', 'id name email org is_admin daily_conversation_limit created_at', {
    postgres: 'app_user',
    flags: ['is_admin'],
  }),
  table('org', 'id name daily_conversation_limit allowed_models allowed_specs created_at', {
    json: ['allowed_models', 'allowed_specs'],
  }),
  table('member', 'user org role'),
  table('user_limit', 'user max_conversations max_stored_mb max_sandboxes'),
  table('api_key', 'id hash user org name scopes not_before expires_at created_at used_at created_by', {
    json: ['scopes'],
  }),
  table(
    'audit',
    `id created_at caller via org action method route target_type target conversation sandbox
    allowed_by status before after request_id`,
    { json: ['allowed_by', 'before', 'after'] },
  ),
  table('quota', 'user day used'),
  table('pending_message', 'ordinal id target owner message created_at', { hidden: ['ordinal'] }),
  table('document', 'user name sealed'),
  table(
    'conversation_usage',
    `day conversation model user org cost prompt_tokens completion_tokens cache_read_tokens
    cache_write_tokens reasoning_tokens`,
  ),
  table('sandbox_usage', 'day sandbox user org micros'),
  table('sandbox_event', 'ordinal sandbox owner org kind actor detail created_at'),
  table('sandbox_log', 'sandbox owner org text created_at'),
  table('budget', 'id scope target monthly_limit set_by created_at updated_at'),
  table('budget_month', 'budget month extra spent reserved'),
  table('budget_reservation', 'id sandbox user month budgets amount settled remove_at'),
  table(
    'budget_request',
    'id user scope target amount reason status granted note answered_by created_at answered_at',
  ),
  table('ledger', 'id'),
]
