import { useMutation, useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { profilesQuery, useAction } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { Cards } from '../ui/cards.tsx'
import { SideNav } from '../ui/side-nav.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'
import { Applications } from './applications.tsx'
import { McpServers } from './mcp-servers.tsx'
import { describeFailure, ProfileForm } from './profile-form.tsx'
import { SchemaForm } from './schema-form.tsx'
import { Secrets } from './secrets.tsx'
import { Skills } from './skills.tsx'

const sections = {
  models: 'Models',
  agent: 'Agent',
  conversation: 'Conversations',
  secrets: 'Secrets',
  mcp: 'MCP servers',
  skills: 'Skills',
  applications: 'Applications',
} as const
type Section = keyof typeof sections

/** The settings of the server, for all new conversations. */
export function SettingsPage() {
  const { section = 'models' } = useParams({ strict: false })
  return (
    <div className="page with-nav">
      <SideNav label="Settings" to="/settings/$section" sections={sections} current={section} />
      <div className="page-body">
        <h1>{sections[section as Section] ?? 'Settings'}</h1>
        {section === 'models' && <Models />}
        {section === 'agent' && <SchemaForm part="agent" />}
        {section === 'conversation' && <SchemaForm part="conversation" />}
        {section === 'secrets' && <Secrets />}
        {section === 'mcp' && <McpServers />}
        {section === 'skills' && <Skills />}
        {section === 'applications' && <Applications />}
        {section === 'models' && <Notifications />}
      </div>
    </div>
  )
}

function Models() {
  const profiles = useQuery(profilesQuery)
  const [isAdding, setAdding] = useState(false)
  const activate = useAction(profilesQuery.queryKey, (name: string) =>
    agentServer.call('activateProfile', { params: { name } }),
  )
  const remove = useAction(profilesQuery.queryKey, (name: string) =>
    agentServer.call('deleteProfile', { params: { name } }),
  )
  const check = useMutation({
    mutationFn: (name: string) => agentServer.call('validateProfile', { params: { name } }),
    onSuccess: ({ valid, error }, name) =>
      showToast(
        valid && error === null
          ? { text: `${name} answers` }
          : { text: `${name}: ${describeFailure(error)}`, ...(!valid && { tone: 'error' }) },
      ),
  })
  if (profiles.isPending) return <Loading />
  if (profiles.isError) return <ErrorState error={profiles.error} retry={() => void profiles.refetch()} />
  const { profiles: list, active_profile } = profiles.data
  return (
    <>
      <Cards
        remove={remove.mutate}
        cards={list.map(({ name, model, api_key_set, read_only_file: file }) => ({
          key: name,
          title: (
            <>
              <strong>{name}</strong> {name === active_profile && <span className="chip">in use</span>}
            </>
          ),
          detail: (
            <span className="mono">
              {model} · {api_key_set ? 'with a key' : 'without a key'}
              {file !== undefined && ` · read-only: set by ${file}`}
            </span>
          ),
          buttons: (
            <>
              <button type="button" onClick={() => check.mutate(name)} disabled={check.isPending}>
                Test
              </button>
              {name !== active_profile && (
                <button type="button" onClick={() => activate.mutate(name)}>
                  Use
                </button>
              )}
            </>
          ),
        }))}
      />
      {isAdding || list.length === 0 ? (
        <ProfileForm onSaved={() => setAdding(false)} />
      ) : (
        <button type="button" onClick={() => setAdding(true)}>
          Add a model
        </button>
      )}
    </>
  )
}

/** Notifications are asked for by a button, never on their own. */
function Notifications() {
  const [permission, setPermission] = useState('Notification' in window ? Notification.permission : 'denied')
  if (permission !== 'default') return null
  const ask = async (event: FormEvent) => {
    event.preventDefault()
    setPermission(await Notification.requestPermission())
  }
  return (
    <form onSubmit={(event) => void ask(event)} className="stack">
      <h2>Notifications</h2>
      <p>This browser can tell you when an agent waits for your answer.</p>
      <div className="buttons">
        <button type="submit">Allow notifications</button>
      </div>
    </form>
  )
}
