import type { Instant } from '@slipway/protocol'
import type { ControlPlaneStore } from '../control-plane-store.ts'
import { AppConversationStore } from './app-conversations.ts'
import { AuditStore } from './audit.ts'
import { AuditedSession } from './audited-session.ts'
import { BudgetStore } from './budgets.ts'
import { DocumentRows } from './documents.ts'
import { PendingMessageStore } from './pending-messages.ts'
import { quotaRows } from './quota.ts'
import { sandboxEventRows } from './sandbox-events.ts'
import { SandboxStore } from './sandboxes.ts'
import type { RowSession } from './session.ts'
import { StartTaskStore } from './start-tasks.ts'
import { usageRows } from './usage.ts'
import { UserStore } from './users.ts'

/** The stores of a control plane, over a session of its engine. */
export function openRows(
  engine: RowSession,
  now: () => Instant,
): Omit<ControlPlaneStore, 'id' | 'leases' | 'overwriteRemoved' | typeof Symbol.asyncDispose> {
  const audit = new AuditStore(engine)
  const session = new AuditedSession(engine, (row) => audit.putWork(row))
  return {
    audit,
    sandboxes: new SandboxStore(session, now),
    conversations: new AppConversationStore(session, now),
    startTasks: new StartTaskStore(session),
    users: new UserStore(session),
    quota: quotaRows(session),
    budgets: new BudgetStore(session),
    pendingMessages: new PendingMessageStore(session),
    documents: new DocumentRows(session),
    usage: usageRows(session),
    sandboxEvents: sandboxEventRows(session),
  }
}
