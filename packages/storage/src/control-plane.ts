/** What the sandbox server stores. */
export type {
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from './control-plane/app-conversations.ts'
export type { AllowedBy, AuditFilter, AuditRow, AuditRows } from './control-plane/audit-rows.ts'
export { AuditTrail, currentAuditTrail } from './control-plane/audit-trail.ts'
export type { ControlPlaneStore, PendingMessageRow, QuotaRows } from './control-plane/control-plane-store.ts'
export { type Lease, type Leases, LocalLeases } from './control-plane/leases.ts'
export { everyOwner, ownedBy } from './control-plane/owned-by.ts'
export { pageOfList } from './control-plane/page-of-list.ts'
export type { AdminScope, PageQuery, RowPage, Scope } from './control-plane/rows.ts'
export type { SandboxRow, SandboxRows } from './control-plane/sandboxes.ts'
export type { StartTaskRow, StartTaskRows } from './control-plane/start-tasks.ts'
export type { ApiKeyRow, OrgRow, UserLimits, UserRow, UserRows } from './control-plane/users.ts'
export { type ControlPlaneStorage, openControlPlane } from './open-control-plane.ts'
export { openControlPlaneStore } from './sqlite/control-plane/control-plane-store.ts'
