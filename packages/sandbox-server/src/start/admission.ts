import { type AppConversationStartRequest, invalidInput, type Llm, Problem } from '@slipway/protocol'
import { findSecretTexts, outputForms, Redactor, redact, redactedText } from '@slipway/shared/redaction'
import { type AppConversationRow, ownedBy, type Scope } from '@slipway/storage/control-plane'
import type { Accounts } from '../accounts/accounts.ts'
import { checkRepository } from '../accounts/git-repository.ts'
import type { ConversationContext } from '../conversations/records/conversation-context.ts'
import { parseMetadata } from '../conversations/records/conversation-info.ts'
import type { OrganizationLimits, Organizations, SharedSettings } from '../organizations/organizations.ts'
import type { StartSandboxes } from './select-sandbox.ts'

/** A valid request of a start. */
export interface AdmittedStart {
  /** Of the conversation. */
  readonly id: string
  readonly scope: Scope
  /** Includes the settings that are inherited from the parent, or from the existing conversation. */
  readonly request: AppConversationStartRequest
  /** The conversation before this start. */
  readonly existing: AppConversationRow | undefined
  readonly parent: AppConversationRow | undefined
  /** The conversation that it is a fork of. */
  readonly source: AppConversationRow | undefined
  readonly model: Llm
  /** What the organisation gives to the work of its member, and allows. */
  readonly shared: SharedSettings
  readonly limits: OrganizationLimits
}

/**
 * Checks a request. Problems: `invalid`, `forbidden` for what the organisation does not allow, and `conflict`
 * for the id of a conversation of another owner.
 */
export async function admitStart(
  deps: Pick<ConversationContext, 'controlPlane'> & {
    readonly accounts: Pick<Accounts, 'model'>
    readonly organizations: Pick<Organizations, 'sharedWith' | 'limitsOf'>
    readonly sandboxes: Pick<StartSandboxes, 'get'>
  },
  scope: Scope,
  id: string,
  request: AppConversationStartRequest,
  source?: AppConversationRow,
): Promise<AdmittedStart> {
  const { controlPlane, accounts, organizations, sandboxes } = deps
  checkRepository(request.selected_repository)
  if (request.sandbox_id !== undefined) await requireSandbox(sandboxes, scope, request.sandbox_id)
  if (request.agent_profile_id !== undefined)
    throw invalidInput(['body', 'agent_profile_id'], 'There is no such agent profile')
  const [existing] = await controlPlane.conversations.get([id])
  if (existing !== undefined && (source !== undefined || !ownedBy(scope).includes(existing)))
    throw idTakenProblem()
  const { parent_conversation_id: parentId } = request
  const [parent] = parentId === undefined ? [] : await controlPlane.conversations.get([parentId])
  if (parentId !== undefined && (!ownedBy(scope).includes(parent) || parentId === id))
    throw invalidInput(['body', 'parent_conversation_id'], 'There is no such conversation to be the parent')
  const inherited = inheritSettings(request, existing ?? parent ?? source)
  const { llm_profile: profile, llm_model } = inherited
  const org = scope.org ?? (existing ?? source ?? parent)?.org
  const [shared, limits] = [
    await organizations.sharedWith(scope.owner, org),
    await organizations.limitsOf(org),
  ]
  try {
    const model = await accounts.model(scope.owner, { profile, model: llm_model }, shared)
    limits.requireModel(model)
    return { id, scope, request: inherited, existing, parent, source, model, shared, limits }
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'not_found') throw error
    throw invalidInput(['body', 'llm_profile'], error.message)
  }
}

async function requireSandbox(
  sandboxes: Pick<StartSandboxes, 'get'>,
  scope: Scope,
  id: string,
): Promise<void> {
  await sandboxes.get(scope, id).catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'not_found') throw error
    throw invalidInput(['body', 'sandbox_id'], error.message)
  })
}

/** Does not reveal the owner. */
export function idTakenProblem(): Problem {
  return new Problem('conflict', 'The conversation_id is taken')
}

/** Absent members are those of the conversation itself, or of its parent (wire 3.1, step 1). */
function inheritSettings(
  request: AppConversationStartRequest,
  from: AppConversationRow | undefined,
): AppConversationStartRequest {
  if (from === undefined) return request
  const { selected_repository, selected_branch, git_provider, llm_model } = parseMetadata(from)
  const isSame = request.selected_repository === undefined
  return {
    ...request,
    selected_repository: request.selected_repository ?? selected_repository ?? undefined,
    selected_branch: request.selected_branch ?? (isSame ? (selected_branch ?? undefined) : undefined),
    git_provider: request.git_provider ?? (isSame ? (git_provider ?? undefined) : undefined),
    llm_model:
      request.llm_model ?? (request.llm_profile === undefined ? (llm_model ?? undefined) : undefined),
  }
}

/** Redacts every secret of the request and the model. */
export function createRedactor({ request, model, shared }: AdmittedStart): Redactor {
  const redactor = new Redactor({ mark: redactedText, forms: outputForms })
  const { plugins, suggested_task } = request
  for (const { text } of findSecretTexts([model, shared, { plugins, suggested_task }])) redactor.add(text)
  for (const secret of Object.values(request.secrets ?? {})) {
    if (typeof secret === 'string') redactor.add(secret)
    else if (secret.kind === 'StaticSecret') redactor.add(secret.value)
    else for (const value of Object.values(secret.headers)) redactor.add(value)
  }
  return redactor
}

/** The request as stored and shown: only the names of its secrets. */
export function redactRequest(request: AppConversationStartRequest): object {
  const names = Object.keys(request.secrets ?? {})
  const secrets = Object.fromEntries(names.map((name) => [name, redactedText]))
  const redacted = redact({ ...request, secrets: undefined }, redactedText)
  return { ...Object(redacted), ...(request.secrets === undefined ? {} : { secrets }) }
}
