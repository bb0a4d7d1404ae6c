import { useParams } from '@tanstack/react-router'
import { useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { SideNav } from '../ui/side-nav.tsx'
import { AuditPage } from './audit.tsx'
import { AppConversations } from './conversations.tsx'
import { Keys } from './keys.tsx'
import { Sandboxes } from './sandboxes.tsx'
import { Specs } from './specs.tsx'
import { Users } from './users.tsx'

const sections = {
  sandboxes: 'Sandboxes',
  conversations: 'Conversations',
  specs: 'Specs and backends',
  keys: 'Keys and use',
} as const

/** The pages of a sandbox server. Those of users and of the audit are for administrators. */
export function FleetPage() {
  const { section = 'sandboxes' } = useParams({ strict: false })
  const me = useAnswer(['me'], (signal) => sandboxServer.call('me', { signal }))
  const shown = me.data?.role === 'admin' ? { ...sections, users: 'Users', audit: 'Audit' } : sections
  return (
    <div className="page with-nav">
      <SideNav label="Sections" to="/fleet/$section" sections={shown} current={section} />
      <div className="page-body">
        {section === 'sandboxes' && <Sandboxes />}
        {section === 'conversations' && <AppConversations />}
        {section === 'specs' && <Specs />}
        {section === 'keys' && <Keys />}
        {section === 'users' && <Users />}
        {section === 'audit' && <AuditPage />}
      </div>
    </div>
  )
}
