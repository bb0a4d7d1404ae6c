import { useParams } from '@tanstack/react-router'
import { useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { SideNav } from '../ui/side-nav.tsx'
import { AllConversations } from './all-conversations.tsx'
import { AllSandboxes } from './all-sandboxes.tsx'
import { AuditPage } from './audit.tsx'
import { Budgets } from './budgets.tsx'
import { AppConversations } from './conversations.tsx'
import { Keys } from './keys.tsx'
import { Organizations } from './organizations.tsx'
import { Sandboxes } from './sandboxes.tsx'
import { Specs } from './specs.tsx'
import { Users } from './users.tsx'

const sections = {
  sandboxes: 'Sandboxes',
  conversations: 'Conversations',
  specs: 'Specs and backends',
  keys: 'Keys and use',
  organizations: 'Organisations',
} as const

const adminSections = {
  ...sections,
  'all-sandboxes': 'All sandboxes',
  'all-conversations': 'All conversations',
  users: 'Users',
  budgets: 'Budgets',
  audit: 'Audit',
} as const

/** The pages of a sandbox server. Those of all users and of the audit are for administrators. */
export function FleetPage() {
  const { section = 'sandboxes' } = useParams({ strict: false })
  const me = useAnswer(['me'], (signal) => sandboxServer.call('me', { signal }))
  const isAdmin = me.data?.role === 'admin'
  const shown = isAdmin ? adminSections : sections
  return (
    <div className="page with-nav">
      <SideNav label="Sections" to="/fleet/$section" sections={shown} current={section} />
      <div className="page-body">
        {section === 'sandboxes' && <Sandboxes isAdmin={isAdmin} />}
        {section === 'all-sandboxes' && <AllSandboxes />}
        {section === 'all-conversations' && <AllConversations />}
        {section === 'conversations' && <AppConversations />}
        {section === 'specs' && <Specs />}
        {section === 'keys' && <Keys />}
        {section === 'organizations' && <Organizations isAdmin={isAdmin} />}
        {section === 'users' && <Users />}
        {section === 'budgets' && <Budgets />}
        {section === 'audit' && <AuditPage />}
      </div>
    </div>
  )
}
