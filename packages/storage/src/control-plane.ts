/** What the sandbox server stores. */
export type {
  AllConversationsQuery,
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from './control-plane/app-conversations.ts'
export type { AllowedBy, AuditFilter, AuditRow, AuditRows } from './control-plane/audit-rows.ts'
export { AuditTrail, currentAuditTrail, leaveAuditTrail } from './control-plane/audit-trail.ts'
export {
  type BudgetRequestRow,
  type BudgetRow,
  type BudgetRows,
  type BudgetScope,
  type BudgetStatus,
  budgetId,
  budgetScopes,
} from './control-plane/budgets.ts'
export type { ControlPlaneStore, PendingMessageRow, QuotaRows } from './control-plane/control-plane-store.ts'
export { type Lease, type Leases, LocalLeases } from './control-plane/leases.ts'
export { everyOwner, ownedBy } from './control-plane/owned-by.ts'
export { pageOfList } from './control-plane/page-of-list.ts'
export type { AdminScope, PageQuery, RowPage, Scope } from './control-plane/rows.ts'
export type {
  SandboxActor,
  SandboxEventRow,
  SandboxEventRows,
  SandboxLogRow,
} from './control-plane/sandbox-events.ts'
export type { SandboxFilter, SandboxRow, SandboxRows, SandboxSort } from './control-plane/sandboxes.ts'
export type { StartTaskRow, StartTaskRows } from './control-plane/start-tasks.ts'
export { actorOf } from './control-plane/stores/sandboxes.ts'
export {
  splitByDay,
  type UsageAmounts,
  type UsageGroup,
  type UsageQuery,
  type UsageRow,
  usageAmounts,
  usageGroups,
} from './control-plane/usage.ts'
export {
  type ApiKeyRow,
  documentsOfOrg,
  type MemberRow,
  type OrgRole,
  type OrgRow,
  orgRoles,
  type UserLimits,
  type UserRow,
  type UserRows,
} from './control-plane/users.ts'
export { type ControlPlaneStorage, openControlPlane } from './open-control-plane.ts'
export { openControlPlaneStore } from './sqlite/control-plane/control-plane-store.ts'
