import type { AuditRecord, Handlers, RecentAudit } from '@slipway/http'
import type { sandboxServerRoutes } from '@slipway/protocol'
import { isWithinReach } from '../auth/admin-reach.ts'
import { getCaller } from '../auth/authenticator.ts'

/** The newest requests, as the audit log has them. */
export function auditHandlers({ recentAudit }: { readonly recentAudit: Pick<RecentAudit, 'read'> }) {
  return {
    listAudit(request) {
      const { limit, page_id: before, caller, text, refused } = request.query
      const needle = text?.toLowerCase()
      const matches = (record: AuditRecord) =>
        isWithinReach(getCaller(request), record) &&
        (caller === undefined || record.caller === caller) &&
        (!refused || record.status >= 400) &&
        (needle === undefined || auditText(record).includes(needle))
      const { records, next } = recentAudit.read({ limit, before, matches })
      return {
        json: { items: records.map(auditInfo), next_page_id: next === undefined ? null : String(next) },
      }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

function auditText({ method, route, conversation, sandbox, via, request_id }: AuditRecord): string {
  return [method, route, conversation, sandbox, via, request_id].join(' ').toLowerCase()
}

function auditInfo(record: AuditRecord) {
  const { time, method, route, status, request_id } = record
  const { caller = null, org = null, via = null, conversation = null, sandbox = null } = record
  return { time, method, route, status, caller, org, via, conversation, sandbox, request_id }
}
