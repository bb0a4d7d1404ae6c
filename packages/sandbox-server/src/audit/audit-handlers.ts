import type { Handlers } from '@slipway/http'
import { formatInstant, type RouteQuery, type sandboxServerRoutes } from '@slipway/protocol'
import type { AuditFilter, AuditRow } from '@slipway/storage/control-plane'
import { csvLine } from '../admin/csv.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import type { AuditLog } from './audit-log.ts'

const exportPage = 500

/** Who did what, for administrators; with a key of an organisation what was done in it. */
export function auditHandlers({ auditLog }: { readonly auditLog: Pick<AuditLog, 'rows' | 'settle'> }) {
  const { rows } = auditLog
  return {
    async listAudit(request) {
      const { limit, page_id } = request.query
      await auditLog.settle()
      const filter = toFilter(getCaller(request), request.query)
      const { items, next_page_id } = await rows.search({ ...filter, limit, page_id })
      return { json: { items: items.map(auditInfo), next_page_id } }
    },
    async exportAudit(request) {
      await auditLog.settle()
      const filter = toFilter(getCaller(request), request.query)
      const isCsv = request.query.format === 'csv'
      const contentType = isCsv ? 'text/csv; charset=utf-8' : 'application/x-ndjson'
      return { chunks: isCsv ? csvOf(filter) : linesOf(filter), contentType }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>

  async function* pages(filter: AuditFilter) {
    let page_id: string | undefined
    do {
      const page = await rows.search({ ...filter, limit: exportPage, page_id })
      yield page.items.map(auditInfo)
      page_id = page.next_page_id ?? undefined
    } while (page_id !== undefined)
  }

  async function* linesOf(filter: AuditFilter) {
    for await (const items of pages(filter)) yield items.map((item) => `${JSON.stringify(item)}\n`).join('')
  }

  async function* csvOf(filter: AuditFilter) {
    yield csvLine(csvColumns)
    for await (const items of pages(filter)) yield items.map((item) => csvLine(csvValues(item))).join('')
  }
}

type AuditQuery = Omit<RouteQuery<(typeof sandboxServerRoutes)['exportAudit']>, 'format'>

function toFilter({ boundOrg }: Caller, query: AuditQuery): AuditFilter {
  const { caller, action, target_type, target, from, to, text, refused } = query
  return {
    ...{ caller, action, target_type, target, text, isRefused: refused },
    org: boundOrg ?? undefined,
    created_at__gte: from,
    created_at__lt: to,
  }
}

type AuditInfo = ReturnType<typeof auditInfo>

function auditInfo({ created_at, target_type, target, ...row }: AuditRow) {
  const { id, action, method, route, status, caller, via, org } = row
  const { allowed_by, before, after, conversation, sandbox, request_id } = row
  return {
    ...{ id, time: formatInstant(created_at), action, method, route, status, caller, via, org, allowed_by },
    target: { type: target_type, id: target },
    ...{ before, after, conversation, sandbox, request_id },
  }
}

const csvColumns = [
  ...['time', 'action', 'status', 'caller', 'via', 'org', 'role', 'scope', 'target_type', 'target'],
  ...['before', 'after', 'method', 'route', 'conversation', 'sandbox', 'request_id', 'id'],
]

function csvValues(item: AuditInfo): unknown[] {
  const { time, action, status, caller, via, org, allowed_by, target, before, after } = item
  const { method, route, conversation, sandbox, request_id, id } = item
  return [
    ...[time, action, status, caller, via, org, allowed_by?.role, allowed_by?.scope, target.type, target.id],
    ...[before, after, method, route, conversation, sandbox, request_id, id],
  ]
}
