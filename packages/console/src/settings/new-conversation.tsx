import { useMutation, useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { profilesQuery, useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { ErrorState, Loading } from '../ui/states.tsx'
import { ProfileForm } from './profile-form.tsx'
import { chosenSkills, SkillChoice } from './skill-choice.tsx'

const policies = {
  never: { label: 'Acts without asking', policy: { kind: 'NeverConfirm' } },
  risky: { label: 'Asks before risky actions', policy: { kind: 'ConfirmRisky', threshold: 'MEDIUM' } },
  always: { label: 'Asks before every action', policy: { kind: 'AlwaysConfirm' } },
} as const

const defaultTools = ['terminal', 'file_editor', 'task_tracker']

/** Begins a conversation; without a model yet, that is set up first. */
export function NewConversationPage() {
  const profiles = useQuery(profilesQuery)
  const home = useQuery({
    queryKey: ['home'],
    queryFn: ({ signal }) => agentServer.call('fileHome', { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (profiles.isPending || home.isPending) return <Loading />
  if (profiles.isError) return <ErrorState error={profiles.error} retry={() => void profiles.refetch()} />
  if (profiles.data.profiles.length === 0)
    return (
      <div className="page narrow">
        <h1>First, a model</h1>
        <p>
          The agent needs a model. It is tried before it is saved, and its key is stored encrypted on the
          server.
        </p>
        <ProfileForm onSaved={() => void profiles.refetch()} />
      </div>
    )
  return <NewConversation home={home.data?.home ?? ''} profiles={profiles.data} />
}

function NewConversation(props: {
  readonly home: string
  readonly profiles: {
    readonly profiles: readonly { readonly name: string; readonly model: string | null }[]
    readonly active_profile: string | null
  }
}) {
  const { home, profiles } = props
  const navigate = useNavigate()
  const [directory, setDirectory] = useState(home)
  const tools = useAnswer(['tools'], (signal) => agentServer.call('listTools', { signal }))
  const create = useMutation({
    mutationFn: async (form: FormData) => {
      const text = (name: string) => String(form.get(name) ?? '')
      const profile = text('profile')
      const policy = policies[text('policy') as keyof typeof policies]?.policy ?? policies.never.policy
      const model = profiles.profiles.find(({ name }) => name === profile)?.model ?? profile
      const conversation = await agentServer.call('createConversation', {
        body: {
          agent: {
            kind: 'Agent',
            llm: { model },
            tools: form.getAll('tool').map((name) => ({ name: String(name) })),
            agent_context: chosenSkills(form),
            mcp_config: {},
            system_prompt_kwargs: {},
          },
          workspace: { working_dir: text('directory') },
          confirmation_policy: policy,
          ...(policy.kind === 'ConfirmRisky'
            ? { security_analyzer: { kind: 'LLMSecurityAnalyzer' as const } }
            : {}),
          initial_message: { content: [{ type: 'text', text: text('message') }], run: false },
        },
      })
      // The key of the profile stays on the server: the conversation takes the profile before it runs.
      const params = { conversation_id: conversation.id }
      await agentServer.call('switchProfile', { params, body: { profile_name: profile } })
      await agentServer.call('runConversation', { params })
      return conversation
    },
    onSuccess: ({ id }) => void navigate({ to: '/c/$id', params: { id } }),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    create.mutate(new FormData(event.currentTarget))
  }
  const names = Array.isArray(tools.data) ? tools.data.map(String) : defaultTools
  return (
    <form className="page narrow stack" onSubmit={submit}>
      <h1>New conversation</h1>
      <label htmlFor="first">What is to be done?</label>
      <textarea id="first" name="message" rows={5} required dir="auto" />
      <label htmlFor="directory">Workspace (a directory on the server)</label>
      <input
        id="directory"
        name="directory"
        required
        defaultValue={home}
        className="mono"
        onBlur={(event) => setDirectory(event.currentTarget.value)}
      />
      <label htmlFor="profile">Model</label>
      <select
        id="profile"
        name="profile"
        defaultValue={profiles.active_profile ?? profiles.profiles[0]?.name}
      >
        {profiles.profiles.map(({ name, model }) => (
          <option key={name} value={name}>
            {name} ({model})
          </option>
        ))}
      </select>
      <label htmlFor="policy">Before it acts</label>
      <select id="policy" name="policy">
        {Object.entries(policies).map(([name, { label }]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
      <details>
        <summary>Tools</summary>
        <fieldset className="checks">
          <legend className="sr-only">Tools</legend>
          {names.map((name) => (
            <label key={name}>
              <input type="checkbox" name="tool" value={name} defaultChecked={defaultTools.includes(name)} />{' '}
              {name}
            </label>
          ))}
        </fieldset>
      </details>
      <SkillChoice directory={directory} />
      <div className="buttons">
        <Link to="/" className="button">
          Cancel
        </Link>
        <button type="submit" className="primary" disabled={create.isPending}>
          {create.isPending ? 'Beginning …' : 'Begin'}
        </button>
      </div>
    </form>
  )
}
